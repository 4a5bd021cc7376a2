//! The texts of the status lines: event, losses, progress.

use tare_format::printable;
use tare_profile::Losses;
use tare_render::{grouped, loss_lines};

use crate::model::{Model, Progress, Query};

/// Summarizes the losses in one line: the share of lost samples and records, unread bytes, and a
/// killed recorder. Without any of these, names the ledger page (`l`) if it lists gaps.
pub(super) fn missing(model: &mut Model) -> String {
    let samples = model.samples().len();
    let losses = model.losses();
    let lost = count_lost(losses);
    let mut parts = if lost > 0 {
        let share = 100.0 * lost as f64 / (lost as f64 + samples as f64);
        vec![format!("{share:.2}% lost ({} records)", grouped(lost))]
    } else {
        Vec::new()
    };
    if losses.unread_bytes > 0 {
        parts.push(format!("{} bytes not read", grouped(losses.unread_bytes)));
    }
    if losses.is_unfinished {
        parts.push("the recorder was killed".to_owned());
    }
    let gaps = describe_gaps(losses);
    if parts.is_empty() && !loss_lines(losses).is_empty() {
        // A live report has figures in this line, so there is no room for more.
        let is_short = model.live().is_some() || gaps.is_empty();
        let gaps = if is_short { "see l".to_owned() } else { gaps.join(", ") + " (l)" };
        parts.push(format!("no samples lost, but {gaps}"));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// Describes the samples that miss callers or names, as shares.
fn describe_gaps(losses: &Losses) -> Vec<String> {
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    let mut parts = Vec::new();
    if let Some(chains) = losses.frame_pointers.as_ref().filter(|chains| chains.broken > 0) {
        let share = percent(chains.broken, chains.stacks);
        parts.push(format!("{share:.1}% of call chains miss callers"));
    }
    let at_limit = &losses.truncated_chains;
    if at_limit.truncated > 0 {
        let share = percent(at_limit.truncated, at_limit.stacks);
        parts.push(format!("{share:.1}% of call chains are truncated"));
    }
    let copied = &losses.unwinding;
    let ended = copied.truncated_stacks() + copied.failed_stacks();
    if ended > 0 {
        let share = percent(ended, ended + copied.whole);
        parts.push(format!("{share:.1}% of user stacks end early"));
    }
    if let Some(unnamed) = &losses.unnamed {
        parts.push(format!("{:.1}% of samples have no function name", unnamed.percent));
    }
    parts
}

/// Returns the number of samples and records that are known to be lost.
fn count_lost(losses: &Losses) -> u64 {
    [losses.lost_records, losses.lost_samples, losses.malformed_records, losses.late_records]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// Whether anything was lost.
pub(super) fn is_incomplete(model: &Model) -> bool {
    let losses = model.losses();
    count_lost(losses) > 0 || losses.unread_bytes > 0 || losses.is_unfinished
}

/// Returns the event and its number of samples.
pub(super) fn samples(model: &mut Model, query: &Query) -> String {
    let events = model.events(query);
    let found = events.iter().find(|(event, _)| Some(*event) == query.event);
    let Some((event, weight)) = found else { return "no samples yet".to_owned() };
    let place = events.iter().position(|(other, _)| other == event).unwrap_or(0);
    let profile = model.profile();
    let name = profile.event(*event).map_or(&[][..], |event| profile.string(event.name));
    let position = if events.len() > 1 {
        format!(" ({} of {})", place + 1, events.len())
    } else {
        String::new()
    };
    format!(
        "Samples: {} of event '{}'{position}, Event count (approx.): {}",
        format_rounded(weight.samples),
        printable(name),
        grouped(weight.period)
    )
}

/// Formats a count rounded as in perf's browser.
fn format_rounded(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}K", count / 1000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// Returns the progress of loading, from 0 to 1, and its text.
pub(super) fn progress(model: &Model) -> Option<(f64, String)> {
    match model.progress() {
        Progress::Loading(read, Some(size)) if *size > 0 => {
            let part = (*read as f64 / *size as f64).clamp(0.0, 1.0);
            Some((part, format!("loading {:.0}%", part * 100.0)))
        }
        Progress::Loading(read, _) => Some((0.0, format!("loading, {} MB read", read / 1_000_000))),
        Progress::Done => None,
        Progress::Failed(why) => Some((1.0, format!("reading stopped: {}", printable(why)))),
    }
}

#[cfg(test)]
mod tests {
    use tare_profile::{FramePointers, Unwinding};

    use super::*;

    #[test]
    fn describes_gaps_as_shares() {
        let mut losses = Losses::default();
        assert!(describe_gaps(&losses).is_empty());
        losses.unwinding = Unwinding { whole: 30, ..Unwinding::default() };
        assert!(describe_gaps(&losses).is_empty());
        let chains = FramePointers { stacks: 800, broken: 2, dsos: Vec::new(), cost_us: None };
        losses.frame_pointers = Some(chains);
        assert_eq!(describe_gaps(&losses), ["0.2% of call chains miss callers"]);
    }
}
