//! Merges the rows of several runs.

use super::{CountOutcome, CountRow, Key};

/// A row of all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RepeatedRow {
    /// What the row covers.
    pub key: Key,
    /// The number of locations in the first run that had the row.
    pub locations: usize,
    /// The index of the subject, as returned by the callback of [`RepeatedCounts::add`].
    pub subject: usize,
    /// The scaled count of each run that counted it.
    pub values: Vec<f64>,
    /// Nanoseconds enabled, over all runs that counted it.
    pub enabled_ns: u64,
    /// Nanoseconds on a counter, over all runs that counted it.
    pub running_ns: u64,
    /// Result of the last run that counted it; if no run did, of the last run that had the row.
    pub last: CountOutcome,
}

/// The rows of all runs so far, in the order of the first run that had them.
#[derive(Clone, Debug, Default)]
pub struct RepeatedCounts {
    rows: Vec<RepeatedRow>,
}

impl RepeatedCounts {
    /// Adds the rows of a run. `subject` converts the index of a row's event to that of its
    /// subject.
    pub fn add(&mut self, rows: &[CountRow], subject: impl Fn(usize) -> usize) {
        for (nth, row) in rows.iter().enumerate() {
            let number = subject(row.event);
            let same = |known: &RepeatedRow| known.key == row.key && known.subject == number;
            // Runs of the same events usually have the same rows in the same order.
            let guess = self.rows.get(nth).is_some_and(same).then_some(nth);
            let at = guess.or_else(|| self.rows.iter().position(same)).unwrap_or_else(|| {
                self.rows.push(RepeatedRow {
                    key: row.key,
                    locations: row.locations,
                    subject: number,
                    values: Vec::new(),
                    enabled_ns: 0,
                    running_ns: 0,
                    last: row.outcome,
                });
                self.rows.len() - 1
            });
            let known = &mut self.rows[at];
            if let CountOutcome::Counted(count) = row.outcome {
                known.enabled_ns = known.enabled_ns.saturating_add(count.enabled_ns());
                known.running_ns = known.running_ns.saturating_add(count.running_ns());
                known.values.extend(count.scaled());
            }
            known.last =
                if known.values.is_empty() || matches!(row.outcome, CountOutcome::Counted(_)) {
                    row.outcome
                } else {
                    known.last
                };
        }
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[RepeatedRow] {
        &self.rows
    }
}
