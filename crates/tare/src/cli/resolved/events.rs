//! Event options: `-e` and its filters for `stat` and `record`, `--switch-on` and its siblings for
//! `report` and `script`.

use std::io::IsTerminal;

use tare_events::{EventError, EventGroup, Sources};
use tare_replay::EventSwitch;

use crate::cli::raw;
use crate::exit::Refusal;

/// Parses all `-e` and applies to each the filters that follow it.
pub(super) fn typed(raw: &raw::EventArgs, sources: &Sources) -> Result<Vec<EventGroup>, Refusal> {
    let mut groups = Vec::new();
    for (nth, text) in raw.list.events.iter().enumerate() {
        let first = groups.len();
        groups.extend(tare_events::parse(text, sources).map_err(|error| refuse(&error))?);
        let filters = raw.filters.iter().zip(&raw.filter_positions);
        for (filter, _) in filters.filter(|&(_, &after)| after == nth + 1) {
            tare_events::set_filter(&mut groups[first..], filter, sources)
                .map_err(|error| Refusal::usage(error.to_string()))?;
        }
    }
    if raw.filter_positions.contains(&0) {
        return Err(Refusal::usage(
            "--filter applies to the preceding tracepoint: put it after the tracepoint's -e",
        ));
    }
    Ok(groups)
}

/// Words the error in one line; on a terminal a second line points to its position.
pub(crate) fn refuse(error: &EventError) -> Refusal {
    match std::io::stderr().is_terminal() {
        true => Refusal::usage(format!("{error}\n{}", error.pointer())),
        false => Refusal::usage(error.to_string()),
    }
}

/// Returns the events that switch samples on and off.
pub(super) fn event_switch(raw: &raw::EventSwitchArgs) -> EventSwitch {
    EventSwitch {
        on: raw.switch_on.clone().map(String::into_bytes),
        off: raw.switch_off.clone().map(String::into_bytes),
        shows: raw.show_on_off_events,
    }
}
