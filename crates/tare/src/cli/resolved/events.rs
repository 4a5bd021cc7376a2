//! The events of `-e` and their filters, for every command that takes them.

use std::io::IsTerminal;

use tare_events::{EventError, EventGroup, Sources};

use crate::exit::Refusal;

/// The groups of all `-e`, each with the filters that follow it: `filter_positions` has for each
/// filter the number of `-e` before it.
pub(super) fn typed(
    events: &[String],
    filters: &[String],
    filter_positions: &[usize],
    sources: &Sources,
) -> Result<Vec<EventGroup>, Refusal> {
    let mut groups = Vec::new();
    for (nth, text) in events.iter().enumerate() {
        let first = groups.len();
        groups.extend(tare_events::parse(text, sources).map_err(|error| refuse(&error))?);
        for (filter, _) in
            filters.iter().zip(filter_positions).filter(|&(_, &after)| after == nth + 1)
        {
            tare_events::set_filter(&mut groups[first..], filter, sources)
                .map_err(|error| Refusal::usage(error.to_string()))?;
        }
    }
    if filter_positions.contains(&0) {
        return Err(Refusal::usage(
            "--filter goes with the tracepoint before it: put it after its -e",
        ));
    }
    Ok(groups)
}

/// One line for scripts and logs; someone at a terminal also sees the place.
pub(crate) fn refuse(error: &EventError) -> Refusal {
    match std::io::stderr().is_terminal() {
        true => Refusal::usage(format!("{error}\n{}", error.pointer())),
        false => Refusal::usage(error.to_string()),
    }
}
