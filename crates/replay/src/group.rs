//! Splits samples that hold the counts of a group (`PERF_SAMPLE_READ`, `-e '{a,b}:S'`).

use std::collections::HashMap;

use tare_format::record::{Events, ReadValues};

/// The last counts of events in groups. A member's period is its increase since the previous sample.
#[derive(Debug, Default)]
pub struct GroupCounts {
    /// By id.
    counts: HashMap<u64, u64>,
}

/// A member of a group whose count increased since the previous sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Index of the event in the recording.
    pub event: usize,
    /// The event's id.
    pub id: u64,
    /// Occurrences (nanoseconds for clocks), never 0.
    pub period: u64,
}

impl GroupCounts {
    /// Returns the members whose counts increased, in the order of the group.
    pub fn members<'a>(
        &'a mut self,
        read: &ReadValues<'a>,
        events: &'a Events,
    ) -> impl Iterator<Item = Member> + 'a {
        read.values().filter_map(move |count| {
            let id = count.id?;
            let event = events.with_id(id)?;
            let before = self.counts.insert(id, count.value).unwrap_or(0);
            let period = count.value.wrapping_sub(before);
            (period > 0).then_some(Member { event, id, period })
        })
    }
}
