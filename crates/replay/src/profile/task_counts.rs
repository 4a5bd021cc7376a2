//! Counts of inherited events by command name. The kernel writes a task's counts when it exits
//! (`inherit_stat`).
//!
//! It writes no such record for the task that has the original events, which is the command's own.
//! The ledger holds the counts of all tasks together; the rest belongs to the command's own task
//! and to tasks that are still running.

use std::collections::BTreeMap;

use tare_format::abi::Flags;
use tare_format::file::Description;
use tare_format::ledger::{FollowMode, Ledger};
use tare_format::record::TaskRead;
use tare_profile::{EventId, Profile, StringId};

use super::events::{EventTable, ProfiledEvent};

/// The counts of exited tasks, by event and last name.
#[derive(Debug, Default)]
pub(super) struct TaskCounts {
    sums: BTreeMap<(usize, StringId), CounterSum>,
}

/// Counts of an event that may share counters with others. A task has a copy of an event per CPU:
/// all copies are enabled while it runs, but only that of its CPU runs.
#[derive(Clone, Copy, Debug, Default)]
struct CounterSum {
    value: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl CounterSum {
    fn add(&mut self, other: Self) {
        self.value = self.value.saturating_add(other.value);
        self.enabled_ns = self.enabled_ns.saturating_add(other.enabled_ns);
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
    }

    /// Scales the count to the time that one of `copies` copies was enabled.
    fn scaled(self, copies: usize) -> u64 {
        let enabled_ns = (self.enabled_ns / copies.max(1) as u64).max(self.running_ns);
        let whole = (u128::from(self.value) * u128::from(enabled_ns))
            .checked_div(self.running_ns.into())
            .unwrap_or(0);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }
}

impl TaskCounts {
    /// Adds an exited task's count of an event, given by its index.
    pub(super) fn add(&mut self, event: usize, comm: StringId, read: &TaskRead<'_>, value: u64) {
        let count = CounterSum {
            value,
            enabled_ns: read.values.enabled_ns.unwrap_or(1),
            running_ns: read.values.running_ns.unwrap_or(1),
        };
        self.sums.entry((event, comm)).or_default().add(count);
    }

    /// Returns the counts by event and name, without events whose counts are unknown; empty unless
    /// the command was followed by inherited events. `last_name` returns the last name of a thread.
    pub(super) fn by_name(
        &self,
        profile: &mut Profile,
        last_name: impl Fn(&mut Profile, i32) -> StringId,
        events: &EventTable,
        description: &Description,
        ledger: &Ledger,
    ) -> BTreeMap<(EventId, StringId), u64> {
        let mut sums = BTreeMap::new();
        let Some(follow) =
            ledger.follow.as_ref().filter(|follow| follow.mode == FollowMode::Inherit)
        else {
            return sums;
        };
        for (index, event) in description.events().iter().enumerate() {
            let Some(counted) = ledger.events.get(index).and_then(|event| event.counted) else {
                continue;
            };
            if !event.attr.flags.contains(Flags::INHERIT_STAT) {
                continue;
            }
            let Some(ProfiledEvent { id, .. }) = events.get(index) else { continue };
            let task_sums = || self.sums.iter().filter(|((event, _), _)| *event == index);
            // Some kernels write no such records, which leaves the tasks' shares unknown.
            if follow.tasks.is_some_and(|tasks| tasks > 1) && task_sums().next().is_none() {
                continue;
            }
            let mut rest = counted;
            for ((_, name), sum) in task_sums() {
                let count = sum.scaled(event.ids.len());
                sums.insert((id, *name), count);
                rest = rest.saturating_sub(count);
            }
            let name = last_name(profile, follow.root);
            let sum: &mut u64 = sums.entry((id, name)).or_default();
            *sum = sum.saturating_add(rest);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::{Attr, ReadFormat};
    use tare_format::file::RecordedEvent;
    use tare_format::ledger::{Follow, LedgerEvent};
    use tare_format::record::{Layout, RawRecord, kind};

    use super::*;

    /// An event is counted as 100 over all tasks, and a task called `sh` exited with a count of 30.
    /// Returns the counts of `sh` and of the command's own task.
    fn counts(mode: FollowMode) -> Vec<u64> {
        let attr = Attr { flags: Flags::INHERIT_STAT, ..Attr::default() };
        let event = RecordedEvent { attr, ids: vec![1], name: Some(b"cycles".to_vec()) };
        let description = Description::from_events(Endian::NATIVE, [event]);
        let mut profile = Profile::default();
        let mut events = EventTable::new(false);
        events.learn(&mut profile, &description);
        let body = [7_u32, 7, 30, 0].map(u32::to_ne_bytes).concat();
        let raw = RawRecord {
            kind: kind::PERF_RECORD_READ,
            misc: 0,
            body: &body,
            endian: Endian::NATIVE,
        };
        let layout = Layout { read_format: ReadFormat::empty(), ..Layout::default() };
        let read = TaskRead::decode(&raw, &layout).unwrap();
        let mut counts = TaskCounts::default();
        let sh = profile.add_string(b"sh");
        counts.add(0, sh, &read, 30);
        let ledger = Ledger {
            follow: Some(Follow { mode, root: 5, tasks: Some(2), ..Follow::default() }),
            events: vec![LedgerEvent { counted: Some(100), ..LedgerEvent::default() }],
            ..Ledger::default()
        };
        let last_name = |profile: &mut Profile, tid: i32| {
            profile.add_string(format!("thread {tid}").as_bytes())
        };
        let by_name = counts.by_name(&mut profile, last_name, &events, &description, &ledger);
        by_name.into_values().collect()
    }

    #[test]
    fn the_rest_of_a_count_belongs_to_the_commands_own_task() {
        assert_eq!(counts(FollowMode::Inherit), [30, 70]);
        assert!(counts(FollowMode::System).is_empty(), "only inherited events are counted by task");
    }

    #[test]
    fn a_count_is_scaled_to_the_enabled_time_of_one_copy() {
        let mut sum = CounterSum { value: 10, enabled_ns: 400, running_ns: 50 };
        assert_eq!(sum.scaled(4), 20, "4 copies were enabled for 100 ns each");
        assert_eq!(sum.scaled(16), 10, "a copy was enabled while it ran");
        sum.add(CounterSum { value: u64::MAX, enabled_ns: 0, running_ns: 0 });
        assert_eq!(sum.value, u64::MAX);
        assert_eq!(CounterSum::default().scaled(0), 0);
    }
}
