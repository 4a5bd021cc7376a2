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

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::ReadFormat;
    use tare_format::record::{Layout, RawRecord, Sample, kind};

    use super::*;

    const READ: u64 = 1 << 4;

    #[test]
    fn a_members_period_is_its_increase_since_the_last_sample() {
        let read_format = ReadFormat::GROUP | ReadFormat::ID;
        let layout = Layout { sample_type: READ, read_format, ..Layout::default() };
        let mut events = Events::default();
        events.add(layout, [10]);
        events.add(layout, [20]);
        let mut counts = GroupCounts::default();
        let mut periods = |first: u64, second: u64| {
            let words = [3, first, 10, second, 20, 99, 30];
            let body = words.map(u64::to_le_bytes).concat();
            let raw = RawRecord {
                kind: kind::PERF_RECORD_SAMPLE,
                misc: 0,
                body: &body,
                endian: Endian::Little,
            };
            let sample = Sample::decode(&raw, &layout).unwrap();
            let members = counts.members(&sample.read.unwrap(), &events);
            members.map(|member| (member.event, member.period)).collect::<Vec<_>>()
        };
        assert_eq!(periods(5, 7), [(0, 5), (1, 7)], "id 30 belongs to no event");
        assert_eq!(periods(5, 9), [(1, 2)], "the first didn't increase");
        assert_eq!(periods(6, 9), [(0, 1)]);
    }
}
