//! Compares samples with exact counts, by command name, and scales samples to counts.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use crate::ids::{EventId, StringId};
use crate::profile::Profile;
use crate::rows::{Row, RowTable};
use crate::tables::{ExactCount, Thread, Weight};

impl Profile {
    /// Compares the rows with `counts` by event and last name. `last_name` returns a thread's last
    /// name. See [`Profile::counted`] for the result.
    pub fn compare_with_counts(
        &mut self,
        counts: &BTreeMap<(EventId, StringId), u64>,
        last_name: impl Fn(&Thread) -> Option<StringId>,
    ) {
        let mut sampled: IndexMap<(EventId, StringId), Weight> =
            counts.keys().map(|key| (*key, Weight::default())).collect();
        let events: BTreeSet<EventId> = counts.keys().map(|(event, _)| *event).collect();
        for (row, weight) in self.rows().filter(|(row, _)| events.contains(&row.event)) {
            if let Some(comm) = self.last_comm(row, &last_name) {
                sampled.entry((row.event, comm)).or_default().add(weight);
            }
        }
        let count = |((event, comm), sampled)| ExactCount {
            event,
            comm,
            sampled,
            counted: counts.get(&(event, comm)).copied().unwrap_or(0),
        };
        self.threads.counts_by_name = sampled.into_iter().map(count).collect();
    }

    /// The result of [`Profile::compare_with_counts`]: counts and samples by event and name.
    #[must_use]
    pub fn counted(&self) -> &[ExactCount] {
        &self.threads.counts_by_name
    }

    /// Scales the rows of counted names to the counts of [`Profile::counted`]. Each of these rows
    /// gets the last name of its thread, and the rows of a name together get the count of its
    /// tasks. A name without samples gets a row without frames.
    pub fn weigh_by_counts(&mut self, last_name: impl Fn(&Thread) -> Option<StringId>) {
        let mut shares: IndexMap<(EventId, StringId), Share> = IndexMap::new();
        for known in self.counted() {
            shares.insert(
                (known.event, known.comm),
                Share { counted: known.counted, sampled: known.sampled.period, passed: 0 },
            );
        }
        let mut rows = RowTable::default();
        for (row, weight) in self.rows() {
            let comm = self.last_comm(row, &last_name);
            match comm.and_then(|comm| shares.get_mut(&(row.event, comm))) {
                Some(share) => rows.add(
                    Row { comm, ..*row },
                    Weight { period: share.take(weight.period), samples: weight.samples },
                ),
                None => rows.add(*row, weight),
            };
        }
        for known in
            self.counted().iter().filter(|known| known.sampled.period == 0 && known.counted > 0)
        {
            let row = Row { comm: Some(known.comm), ..Row::new(known.event) };
            rows.add(row, Weight { period: known.counted, samples: 0 });
        }
        self.rows = rows;
    }

    fn last_comm(
        &self,
        row: &Row,
        last_name: impl Fn(&Thread) -> Option<StringId>,
    ) -> Option<StringId> {
        row.thread.and_then(|thread| last_name(self.thread(thread)?)).or(row.comm)
    }
}

/// A name's count while it is divided among its rows. Rounding errors don't accumulate.
struct Share {
    counted: u64,
    sampled: u64,
    /// The sampled period of the rows that have their part.
    passed: u64,
}

impl Share {
    /// Returns the part of the count for a row of this period.
    fn take(&mut self, period: u64) -> u64 {
        let up_to = |passed: u64| {
            (u128::from(self.counted) * u128::from(passed))
                .checked_div(self.sampled.into())
                .unwrap_or(0)
        };
        let after = self.passed.saturating_add(period);
        let part = up_to(after) - up_to(self.passed);
        self.passed = after;
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_name_are_scaled_to_its_count() {
        let mut profile = Profile::default();
        let [name, sh, date, expr] =
            ["cycles", "sh", "date", "expr"].map(|text| profile.add_string(text.as_bytes()));
        let event = profile.name_event(0, name);
        for (tid, comm, period) in [(1, sh, 70), (2, sh, 10), (2, date, 20)] {
            let thread = Some(profile.add_thread(Thread { pid: tid, tid }));
            let row = Row { thread, comm: Some(comm), ..Row::new(event) };
            profile.add_samples(row, Weight { period, samples: 1 });
        }
        let counts =
            BTreeMap::from([((event, sh), 100), ((event, date), 1000), ((event, expr), 7)]);
        let last_name = |thread: &Thread| (thread.tid == 2).then_some(date);
        profile.compare_with_counts(&counts, last_name);
        let table: Vec<_> = profile
            .counted()
            .iter()
            .map(|row| (row.comm, row.sampled.period, row.counted))
            .collect();
        assert_eq!(table, [(sh, 70, 100), (date, 30, 1000), (expr, 0, 7)]);
        profile.weigh_by_counts(last_name);
        assert_eq!(profile.total(event), Weight { period: 1107, samples: 3 });
        let period = |name| {
            profile
                .rows()
                .filter(|(row, _)| row.comm == Some(name))
                .map(|(_, weight)| weight.period)
                .sum::<u64>()
        };
        assert_eq!((period(sh), period(date), period(expr)), (100, 1000, 7));
    }
}
