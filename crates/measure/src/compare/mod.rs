//! Compares two commands, A and B, by pairs of runs.
//!
//! ```text
//! plan ──> pairs::make ──> Vec<Pair> ──> judge ──> verdicts, one per metric ──> fail_if
//!               │                                         └──> report ──> table, document
//!               └── calls Bench::run for each run
//! ```
//!
//! [`runs`] compares two sides of one or more recordings each, for `tare diff`.
//!
//! Nothing here starts a process or reads a clock; [`pairs::Bench`] does, so tests use simulated
//! measurements.

pub mod document;
mod fail_if;
mod judge;
mod metric;
pub mod pairs;
pub mod report;
pub mod runs;
pub mod table;

pub use fail_if::{BadCondition, Condition, Judgement};
pub use judge::{
    Effect, LEVEL, MetricVerdict, PairedValues, Rules, Scale, Verdict, judge, judge_values,
};
pub use metric::{Measurement, Metric, Pair, Side};
