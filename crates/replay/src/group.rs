//! Splits samples that hold the counts of a group (`PERF_SAMPLE_READ`, `-e '{a,b}:S'`).

use std::collections::HashMap;

use tare_format::record::{Events, ReadValues};

/// The last counts of events in groups. A member's period is its increase since the previous
/// sample: of the same thread if the event is inherited, because each thread then has its own
/// counts.
#[derive(Debug, Default)]
pub struct GroupCounts {
    /// By thread (`None` for events that aren't inherited), then by id.
    counts: HashMap<Option<i32>, HashMap<u64, u64>>,
    decreased: u64,
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
    /// Returns the members of known events whose counts increased, in the order of the group. `tid`
    /// is the sampled thread.
    pub fn members<'a>(
        &'a mut self,
        read: &ReadValues<'a>,
        tid: Option<i32>,
        events: &'a Events,
    ) -> impl Iterator<Item = Member> + 'a {
        read.values().filter_map(move |count| {
            let id = count.id?;
            let event = events.with_id(id)?;
            let owner = if events.layouts().get(event)?.is_inherited { tid } else { None };
            let before = self.counts.entry(owner).or_default().insert(id, count.value);
            match count.value.checked_sub(before.unwrap_or(0)) {
                Some(period) => (period > 0).then_some(Member { event, id, period }),
                None => {
                    self.decreased += 1;
                    None
                }
            }
        })
    }

    /// Starts the counts of a new thread at 0; its id may have belonged to another thread.
    pub fn begin_thread(&mut self, tid: i32) {
        self.counts.remove(&Some(tid));
    }

    /// Returns how often a count was less than before. No period can be given for those.
    #[must_use]
    pub fn decreased(&self) -> u64 {
        self.decreased
    }
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::ReadFormat;
    use tare_format::record::{Layout, RawRecord, Sample, kind};

    use super::*;

    const READ: u64 = 1 << 4;

    /// A group of two events with the ids 10 and 20, and its counts.
    struct SampledGroup {
        layout: Layout,
        events: Events,
        counts: GroupCounts,
    }

    impl SampledGroup {
        fn new(is_inherited: bool) -> Self {
            let read_format = ReadFormat::GROUP | ReadFormat::ID;
            let layout =
                Layout { sample_type: READ, read_format, is_inherited, ..Layout::default() };
            let mut events = Events::default();
            events.add(layout, [10]);
            events.add(layout, [20]);
            Self { layout, events, counts: GroupCounts::default() }
        }

        /// Returns indices and periods of the members in a sample of thread `tid`, given both
        /// counts.
        fn periods(&mut self, tid: i32, first: u64, second: u64) -> Vec<(usize, u64)> {
            let words = [3, first, 10, second, 20, 99, 30];
            let body = words.map(u64::to_le_bytes).concat();
            let raw = RawRecord {
                kind: kind::PERF_RECORD_SAMPLE,
                misc: 0,
                body: &body,
                endian: Endian::Little,
            };
            let sample = Sample::decode(&raw, &self.layout).unwrap();
            let members = self.counts.members(&sample.read.unwrap(), Some(tid), &self.events);
            members.map(|member| (member.event, member.period)).collect()
        }
    }

    #[test]
    fn a_members_period_is_its_increase_since_the_last_sample() {
        let mut group = SampledGroup::new(false);
        assert_eq!(group.periods(1, 5, 7), [(0, 5), (1, 7)], "id 30 belongs to no event");
        assert_eq!(group.periods(1, 5, 9), [(1, 2)], "the first didn't increase");
        assert_eq!(group.periods(2, 6, 9), [(0, 1)], "all threads share the counts");
        assert_eq!(group.counts.decreased(), 0);
    }

    #[test]
    fn inherited_counts_belong_to_their_thread() {
        let mut group = SampledGroup::new(true);
        assert_eq!(group.periods(1, 500, 700), [(0, 500), (1, 700)]);
        assert_eq!(group.periods(2, 3, 4), [(0, 3), (1, 4)]);
        assert_eq!(group.periods(1, 600, 701), [(0, 100), (1, 1)]);
        group.counts.begin_thread(2);
        assert_eq!(group.periods(2, 1, 4), [(0, 1), (1, 4)], "a new thread has the id");
        assert_eq!(group.counts.decreased(), 0);
    }

    #[test]
    fn a_count_that_decreases_has_no_period() {
        let mut group = SampledGroup::new(false);
        group.periods(1, 5, 7);
        assert_eq!(group.periods(1, 4, 8), [(1, 1)]);
        assert_eq!(group.counts.decreased(), 1);
    }
}
