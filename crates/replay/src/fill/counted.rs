//! What inherited events counted in each task, which the kernel writes when a task ends
//! (`inherit_stat`), by command name.
//!
//! The kernel writes no such record of the task that has the original events, the command's own.
//! What all tasks counted together is in the ledger, and what is missing from that is its count,
//! with that of tasks that had not ended.

use std::collections::BTreeMap;

use tare_format::abi::Flags;
use tare_format::file::Description;
use tare_format::record::TaskRead;
use tare_profile::{EventId, Profile, StringId};

use super::history::History;
use tare_format::ledger::{FollowMode, Ledger};

/// The counts of tasks.
#[derive(Default)]
pub(crate) struct Counts {
    reads: Vec<Read>,
}

struct Read {
    place: usize,
    tid: i32,
    time_ns: u64,
    count: Sum,
}

/// Counts of events that may share counters. A task has a copy of an event for each CPU: all of
/// them are enabled wherever it runs, and the one of that CPU is running.
#[derive(Clone, Copy, Default)]
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

impl Counts {
    /// Takes in what the event at a place had counted in a task that ended then.
    pub(crate) fn add(&mut self, place: usize, read: &TaskRead<'_>, value: u64, time_ns: u64) {
        let count = Sum {
            value,
            enabled_ns: read.values.enabled_ns.unwrap_or(1),
            running_ns: read.values.running_ns.unwrap_or(1),
        };
        self.reads.push(Read { place, tid: read.tid, time_ns, count });
    }

    /// The sums by event and name, as tasks were called when they ended; empty where not all of it
    /// is known.
    pub(crate) fn by_name(
        &self,
        profile: &mut Profile,
        history: &History,
        events: &[EventId],
        description: &Description,
        ledger: Option<&Ledger>,
    ) -> BTreeMap<(EventId, StringId), u64> {
        let mut sums = BTreeMap::new();
        let Some(ledger) = ledger else { return sums };
        let Some(follow) =
            ledger.follow.as_ref().filter(|follow| follow.mode == FollowMode::Inherit)
        else {
            return sums;
        };
        let holder = follow.root;
        for (place, event) in description.events().iter().enumerate() {
            let Some(counted) = ledger.events.get(place).and_then(|event| event.counted) else {
                continue;
            };
            if !event.attr.flags.contains(Flags::INHERIT_STAT) {
                continue;
            }
            let Some(id) = events.get(place).copied() else { continue };
            // Kernels that write no such records leave nothing to tell the tasks apart by.
            if follow.tasks.is_some_and(|tasks| tasks > 1)
                && !self.reads.iter().any(|read| read.place == place)
            {
                continue;
            }
            let mut of_event: BTreeMap<StringId, Sum> = BTreeMap::new();
            for read in self.reads.iter().filter(|read| read.place == place) {
                let name = history
                    .at(read.tid, read.time_ns)
                    .unwrap_or_else(|| profile.add_string(format!(":{}", read.tid).as_bytes()));
                of_event.entry(name).or_default().add(read.count);
            }
            let mut rest = counted;
            for (name, sum) in of_event {
                let count = sum.scaled(event.ids.len());
                sums.insert((id, name), count);
                rest = rest.saturating_sub(count);
            }
            let name = history
                .last(holder)
                .unwrap_or_else(|| profile.add_string(format!(":{holder}").as_bytes()));
            let sum: &mut u64 = sums.entry((id, name)).or_default();
            *sum = sum.saturating_add(rest);
        }
        sums
    }
}
