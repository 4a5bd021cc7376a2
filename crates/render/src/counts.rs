//! What events counted in each thread, from recordings that have it (`record -s`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::IndexMap;
use tare_profile::{EventId, Profile, ThreadId};
use unicode_width::UnicodeWidthStr;

use crate::printable;

/// Writes a table with a row for each thread and a column for each event; nothing where nothing was counted.
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
    lines[0].extend(profile.events().map(|(_, event)| printable(profile.string(event.name)).into_owned()));
    for (thread, counts) in threads {
        let Some(thread) = profile.thread(thread) else { continue };
        let mut line = vec![thread.pid.to_string(), thread.tid.to_string()];
        line.extend(profile.events().map(|(id, _)| counts.get(&id).copied().unwrap_or(0).to_string()));
        lines.push(line);
    }
    let widths: Vec<_> = (0..lines[0].len()).map(|at| lines.iter().map(|line| line[at].width()).max().unwrap_or(0)).collect();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width()))));
        writeln!(out, "{} {}", if number == 0 { '#' } else { ' ' }, cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}
