//! Opens events on a scope, reads their counts as snapshots, sums these into rows, merges the rows
//! of repeated runs, and derives metrics. For `--exact`, first finds sets of groups that fit on the
//! counters.
//!
//! ```text
//! [EventGroup] x Scope -> Counters -> Snapshot -> (difference, sum) -> [CountRow] -> metrics
//! ```

mod aggregate;
mod counters;
mod exact;
mod metric;
mod repeated;
mod scope;
mod snapshot;
#[cfg(test)]
mod tests;

pub use aggregate::{Aggregation, CountOutcome, CountRow, Key, sum_counts};
pub use counters::{Counter, CounterOptions, Counters, Inheritance, Start, Subject, needed_files};
pub use exact::{ExactSets, plan_exact};
pub use metric::{Metric, MetricInput, NAMED_METRICS, NamedFigure, derive_metric};
pub use repeated::{RepeatedCounts, RepeatedRow};
pub use scope::{Cgroup, Location, Pairing, Scope};
pub use snapshot::Snapshot;
