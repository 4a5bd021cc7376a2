//! Samples that hold the counts of a group (`PERF_SAMPLE_READ`, `-e '{a,b}:S'`).

use std::collections::HashMap;

use tare_format::record::{Events, ReadValues};

/// The last counts of events in groups: what a member has counted since the sample before is its
/// period.
#[derive(Debug, Default)]
pub struct GroupCounts {
    /// By id.
    counts: HashMap<u64, u64>,
}

/// A member of a group that has counted anything since the sample before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The event, an index into the recording's events.
    pub event: usize,
    /// The event's id.
    pub id: u64,
    /// Occurrences (nanoseconds for clocks), never 0.
    pub period: u64,
}

impl GroupCounts {
    /// The members for which a sample with these counts stands, in the order of the group.
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
