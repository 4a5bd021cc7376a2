//! Counting: events opened on a scope, read as snapshots, summed into rows.
//!
//! ```text
//! [EventGroup] x Scope -> Counters -> Snapshot -> (difference, sum) -> [Row] -> metrics
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

pub use aggregate::{Aggregation, Key, Outcome, Row, rows};
pub use counters::{Counter, Counters, Inheritance, Options, Start, Subject, needed_files};
pub use exact::{ExactSets, plan_exact};
pub use metric::{Metric, MetricInput, metric};
pub use repeated::{RepeatedCounts, RepeatedRow};
pub use scope::{Cgroup, Location, Pairing, Scope};
pub use snapshot::Snapshot;
