//! A comparison as text.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::amount::{amount, signed_percent};
use super::table::{Cell, cells, interval_of_ratio, titles};
use super::{ComparedRecording, Diff, DiffView, EventDiff};
use crate::plural::count;

/// Writes the recordings, the notes, a table for each event, and the results of `--fail-if`.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn diff_text(out: &mut dyn Write, diff: &Diff, view: &DiffView) -> io::Result<()> {
    if !view.quiet {
        for (side, recordings) in ["A", "B"].iter().zip(&diff.recordings) {
            writeln!(out, "# {side}: {}", names(recordings))?;
        }
        writeln!(out, "# {}", diff.method)?;
        diff.notes.iter().try_for_each(|note| writeln!(out, "# {note}"))?;
        write_losses(out, diff)?;
    }
    for event in &diff.events {
        write_section(out, diff, event, view)?;
    }
    diff.gates.iter().try_for_each(|gate| {
        let verdict = if gate.failed { "failed" } else { "passed" };
        writeln!(out, "# --fail-if '{}' {verdict}: {}", gate.condition, gate.why)
    })
}

/// Prints the recordings' losses. Lines that differ only in numbers are printed for one recording.
fn write_losses(out: &mut dyn Write, diff: &Diff) -> io::Result<()> {
    let mut alike: indexmap::IndexMap<String, (String, u64)> = indexmap::IndexMap::new();
    for recording in diff.recordings.iter().flatten() {
        for line in &recording.losses {
            let kind = line.chars().filter(|c| !c.is_ascii_digit()).collect();
            let first = || (format!("{}: {line}", recording.name), 0);
            alike.entry(kind).or_insert_with(first).1 += 1;
        }
    }
    alike.values().try_for_each(|(line, times)| match times - 1 {
        0 => writeln!(out, "# {line}"),
        more => writeln!(out, "# {line}; similar in {}", count(more, "more recording")),
    })
}

/// Formats the names of recordings, and their number of samples.
fn names(recordings: &[ComparedRecording]) -> String {
    let samples: u64 = recordings.iter().map(|recording| recording.samples).sum();
    let samples = count(samples, "sample");
    match recordings {
        [] => String::new(),
        [one] => format!("{}, {samples}", one.name),
        [first, .., last] => {
            let how_many = count(recordings.len() as u64, "recording");
            format!("{how_many}, {} to {}, {samples}", first.name, last.name)
        }
    }
}

fn write_section(
    out: &mut dyn Write,
    diff: &Diff,
    event: &EventDiff,
    view: &DiffView,
) -> io::Result<()> {
    let (rows, hidden) = view.rows(event);
    if !view.quiet {
        let all = &event.all;
        let interval = interval_of_ratio(all);
        let interval = if interval.is_empty() { String::new() } else { format!(" {interval}") };
        writeln!(out, "#")?;
        writeln!(
            out,
            "# Event '{}': {} -> {} per {}, {}{interval}{}",
            event.name,
            amount(all.a, event.unit),
            amount(all.b, event.unit),
            diff.per,
            signed_percent(all.quotient() - 1.0),
            if all.is_significant { ": changed" } else { "" },
        )?;
        writeln!(out, "#")?;
    }
    let mut lines = vec![titles(diff, event, view)];
    lines.extend(rows.iter().map(|row| cells(row, event.unit, view)));
    write_lines(out, &lines, view)?;
    if hidden > 0 && !view.quiet {
        let rows = count(hidden as u64, "row");
        let limit = view.percent_limit;
        writeln!(out, "# {rows} without a change below {limit}% not shown (--percent-limit 0)")?;
    }
    Ok(())
}

fn write_lines(out: &mut dyn Write, lines: &[Vec<Cell>], view: &DiffView) -> io::Result<()> {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|at| lines.iter().filter_map(|line| Some(line.get(at)?.text.width())).max())
        .map(Option::unwrap_or_default)
        .collect();
    for (number, line) in lines.iter().enumerate() {
        let front = match (number, &view.separator) {
            (0, _) if view.quiet => continue,
            (0, _) => "# ",
            (_, Some(_)) => "",
            _ => "  ",
        };
        let texts: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| match &view.separator {
                // As in perf, a name doesn't contain the separator.
                Some(separator) => cell.text.replace(separator.as_str(), "."),
                None => {
                    let blanks = " ".repeat(width.saturating_sub(cell.text.width()));
                    if cell.is_figure { blanks + &cell.text } else { cell.text.clone() + &blanks }
                }
            })
            .collect();
        let line = texts.join(view.separator.as_deref().unwrap_or("  "));
        writeln!(out, "{front}{}", line.trim_end())?;
    }
    Ok(())
}
