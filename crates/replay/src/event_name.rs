//! What events are called.

use tare_format::file::Event;

/// What an event is called: as the recording says, else by its numbers. `place` is its place among
/// the recording's events. Untrusted.
#[must_use]
pub fn event_name(event: &Event, place: usize) -> Vec<u8> {
    let numbers =
        || format!("event {place} (type {}, config {:#x})", event.attr.kind, event.attr.config);
    event.name.clone().unwrap_or_else(|| numbers().into_bytes())
}
