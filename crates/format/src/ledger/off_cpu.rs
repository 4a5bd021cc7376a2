//! The time that tasks were not on a CPU.

use serde::{Deserialize, Serialize};

/// The recorded off-CPU time, and what is missing of it. In a series of files the figures are
/// cumulative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct OffCpu {
    /// Waits; of one that ends on a run queue each part counts.
    pub waits: u64,
    /// Their time, in nanoseconds.
    pub ns: u64,
    /// Waits that didn't fit in the kernel's tables.
    pub missing_waits: u64,
    /// Their time, in nanoseconds.
    pub missing_ns: u64,
    /// User stacks that couldn't be copied because the buffer was full; each is tried again.
    pub missing_copies: u64,
    /// Waits that were too short (`--off-cpu-min`).
    pub short_waits: u64,
    /// Their time, in nanoseconds.
    pub short_ns: u64,
}
