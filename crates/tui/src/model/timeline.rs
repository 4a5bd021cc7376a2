//! Samples over time.

use std::collections::HashMap;

use tare_profile::ThreadId;

use super::Model;
use super::query::Query;

/// What each row of the timeline stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum RowKind {
    /// Each CPU.
    #[default]
    Cpu,
    /// Each thread.
    Thread,
}

/// The samples that a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowOwner {
    /// All samples.
    All,
    /// Samples on a CPU.
    Cpu(Option<u32>),
    /// Samples of a thread.
    Thread(ThreadId),
}

/// Weights over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// Start, in nanoseconds of the recording's clock.
    pub(crate) from_ns: u64,
    /// Last nanosecond.
    pub(crate) to_ns: u64,
    /// Weights by column; the first row holds all samples.
    pub(crate) rows: Vec<(RowOwner, Vec<u64>)>,
}

impl Timeline {
    /// Returns the first and the last nanosecond of a column.
    pub(crate) fn column(&self, column: usize, columns: usize) -> (u64, u64) {
        let length = u128::from(self.to_ns - self.from_ns) + 1;
        let at = |column: usize| {
            let part = length * column as u128 / columns.max(1) as u128;
            self.from_ns.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
        };
        (at(column), at(column + 1).saturating_sub(1).max(at(column)))
    }
}

impl Model {
    /// Returns the periods of the selected samples over time, in this many columns.
    pub(crate) fn timeline(&mut self, query: &Query, by: RowKind, columns: usize) -> Timeline {
        let columns = columns.max(1);
        let selected = query.selected(self);
        let Some((first, last)) = self.samples().times() else { return Timeline::default() };
        let (from_ns, to_ns) = query.times();
        let from_ns = from_ns.max(first).max(self.since_ns());
        let to_ns = to_ns.min(last).max(from_ns);
        let length = u128::from(to_ns - from_ns) + 1;
        let samples = self.samples();
        let mut rows: HashMap<RowOwner, Vec<u64>> = HashMap::new();
        rows.insert(RowOwner::All, vec![0; columns]);
        for sample in samples.iter().filter(|sample| selected.takes(sample)) {
            let Some(time_ns) = sample.time_ns else { continue };
            let part = u128::from(time_ns.saturating_sub(from_ns)) * columns as u128 / length;
            let column = usize::try_from(part).unwrap_or(usize::MAX).min(columns - 1);
            let owner = match by {
                RowKind::Cpu => RowOwner::Cpu(sample.cpu),
                RowKind::Thread => match samples.task(sample.task) {
                    Some(task) => RowOwner::Thread(task.thread),
                    None => continue,
                },
            };
            for owner in [RowOwner::All, owner] {
                let row = rows.entry(owner).or_insert_with(|| vec![0; columns]);
                row[column] = row[column].saturating_add(sample.period);
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let weight = |row: &[u64]| row.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        match by {
            RowKind::Cpu => rows.sort_by_key(|(owner, _)| *owner),
            RowKind::Thread => {
                rows.sort_by_key(|(owner, row)| {
                    (*owner != RowOwner::All, std::cmp::Reverse(weight(row)), *owner)
                });
            }
        }
        Timeline { from_ns, to_ns, rows }
    }
}
