//! What events counted exactly: in each thread, from recordings that have it (`record -s`), and by
//! command name.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::IndexMap;
use tare_profile::{EventId, Profile, ThreadId};
use unicode_width::UnicodeWidthStr;

use tare_format::printable;

/// Writes a table with a row for each thread and a column for each event; nothing where nothing was
/// counted.
///
/// # Errors
/// Those of `out`.
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
    lines_of(out, &lines, &["#", " "])
}

/// Writes what the samples stand for beside what was counted, a row for each event and command
/// name; nothing where nothing was counted.
///
/// # Errors
/// Those of `out`.
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
    writeln!(
        out,
        "# What samples stand for beside what was counted, by the last name of each task:"
    )?;
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
    lines_of(out, &lines, &["#"])
}

/// Lines of cells, each column as wide as its widest cell; `marks` begin the lines, the last of
/// them the remaining ones.
fn lines_of(out: &mut dyn Write, lines: &[Vec<String>], marks: &[&str]) -> io::Result<()> {
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
