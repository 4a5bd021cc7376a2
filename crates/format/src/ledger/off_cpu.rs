//! The time that tasks were not on a CPU.

use serde::{Deserialize, Serialize};

/// The recorded off-CPU time, and what it lacks. In a series of files the figures are cumulative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct OffCpu {
    /// Number of waits. The time on a run queue that ends a wait counts as a wait of its own.
    pub waits: u64,
    /// Their time, in nanoseconds.
    pub ns: u64,
    /// Number of waits that didn't fit in the tables, or whose end wasn't observed.
    pub missing_waits: u64,
    /// The time of those that didn't fit, in nanoseconds.
    pub missing_ns: u64,
    /// Number of times that a user stack couldn't be copied because the buffer was full. A later
    /// wait with the same stack tries again.
    pub missing_copies: u64,
    /// Number of sums of waits without kernel frames or frame-pointer chains, as newer stacks had
    /// taken their place in the table.
    pub missing_stacks: u64,
    /// Number of waits below the limit of `--off-cpu-min`.
    pub short_waits: u64,
    /// Their time, in nanoseconds.
    pub short_ns: u64,
}
