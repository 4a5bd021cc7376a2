//! What inherited events counted in each task, which the kernel writes when a task ends
//! (`inherit_stat`), by command name.
//!
//! The kernel writes no such record of the task that has the original events, the command's own.
//! What all tasks counted together is in the ledger, and what is missing from that is its count,
//! with that of tasks that had not ended.

use std::collections::BTreeMap;

use tare_format::abi::Flags;
use tare_format::file::Description;
use tare_format::ledger::{FollowMode, Ledger};
use tare_format::record::TaskRead;
use tare_profile::{EventId, Profile, StringId};

/// The counts of tasks that ended, by event and by the name that they had then.
#[derive(Debug, Default)]
pub(super) struct TaskCounts {
    sums: BTreeMap<(usize, StringId), Sum>,
}

/// Counts of events that may share counters. A task has a copy of an event for each CPU: all of
/// them are enabled wherever it runs, and the one of that CPU is running.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.value = self.value.saturating_add(other.value);
        self.enabled_ns = self.enabled_ns.saturating_add(other.enabled_ns);
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
    }

    /// What there would have been had no event shared a counter.
    fn scaled(self, copies: usize) -> u64 {
        let enabled_ns = (self.enabled_ns / copies.max(1) as u64).max(self.running_ns);
        let whole = (u128::from(self.value) * u128::from(enabled_ns))
            .checked_div(self.running_ns.into())
            .unwrap_or(0);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }
}

impl TaskCounts {
    /// Takes in what the event with this index had counted in a task that ended.
    pub(super) fn add(&mut self, event: usize, comm: StringId, read: &TaskRead<'_>, value: u64) {
        let count = Sum {
            value,
            enabled_ns: read.values.enabled_ns.unwrap_or(1),
            running_ns: read.values.running_ns.unwrap_or(1),
        };
        self.sums.entry((event, comm)).or_default().add(count);
    }

    /// The sums by event and name; empty where not all of it is known. `last_name` is what the
    /// thread with a number was called last.
    pub(super) fn by_name(
        &self,
        profile: &mut Profile,
        last_name: impl Fn(&mut Profile, i32) -> StringId,
        events: &[EventId],
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
            let Some(id) = events.get(index).copied() else { continue };
            let of_event = || self.sums.iter().filter(|((event, _), _)| *event == index);
            // Kernels that write no such records leave nothing to tell the tasks apart by.
            if follow.tasks.is_some_and(|tasks| tasks > 1) && of_event().next().is_none() {
                continue;
            }
            let mut rest = counted;
            for ((_, name), sum) in of_event() {
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
