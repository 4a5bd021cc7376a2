//! Exact counts of events: per thread (`record -s`), and per command name beside the samples.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::IndexMap;
use tare_profile::{EventId, Profile, ThreadId};
use unicode_width::UnicodeWidthStr;

use tare_format::printable;

/// Writes a table of exact counts, with a row per thread and a column per event; nothing if the
/// recording has none.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn counts(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut threads: IndexMap<ThreadId, BTreeMap<EventId, u64>> = IndexMap::new();
    for (thread, event, count) in profile.counts() {
        threads.entry(thread).or_default().insert(event, count);
    }
    if threads.is_empty() {
        return Ok(());
    }
    let mut lines = vec![vec!["PID".to_owned(), "TID".to_owned()]];
    lines[0].extend(
        profile.events().map(|(_, event)| printable(profile.string(event.name)).into_owned()),
    );
    for (thread, counts) in threads {
        let Some(thread) = profile.thread(thread) else { continue };
        let mut line = vec![thread.pid.to_string(), thread.tid.to_string()];
        line.extend(
            profile.events().map(|(id, _)| counts.get(&id).copied().unwrap_or(0).to_string()),
        );
        lines.push(line);
    }
    write_lines(out, &lines, &["#", " "])
}

/// Writes the sampled period beside the exact count, with a row per event and command name; nothing
/// if the recording has no exact counts.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn counted(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut known: Vec<_> = profile
        .counted()
        .iter()
        .filter(|known| known.counted > 0 || known.sampled.samples > 0)
        .collect();
    if known.is_empty() {
        return Ok(());
    }
    known.sort_by_key(|known| (known.event, std::cmp::Reverse(known.counted)));
    writeln!(out, "# Sampled periods beside exact counts, by the last name of each task:")?;
    let mut lines =
        vec![["Sampled", "Counted", "Share", "Event", "Command"].map(str::to_owned).to_vec()];
    for known in known {
        let event = profile
            .event(known.event)
            .map_or_else(Default::default, |event| printable(profile.string(event.name)));
        let share = if known.counted == 0 {
            "-".to_owned()
        } else {
            format!("{:.1}%", 100.0 * known.sampled.period as f64 / known.counted as f64)
        };
        let comm = printable(profile.string(known.comm)).into_owned();
        lines.push(vec![
            known.sampled.period.to_string(),
            known.counted.to_string(),
            share,
            event.into_owned(),
            comm,
        ]);
    }
    write_lines(out, &lines, &["#"])
}

/// Writes lines of cells, each column as wide as its widest cell. Line N begins with `marks[N]`,
/// lines beyond with the last mark.
fn write_lines(out: &mut dyn Write, lines: &[Vec<String>], marks: &[&str]) -> io::Result<()> {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<_> = (0..columns)
        .map(|at| lines.iter().map(|line| line[at].width()).max().unwrap_or(0))
        .collect();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| {
            format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width())))
        });
        let mark = marks.get(number).or(marks.last()).unwrap_or(&"");
        writeln!(out, "{mark} {}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}
