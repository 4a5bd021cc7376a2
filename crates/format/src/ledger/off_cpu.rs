//! The time that tasks were not on a CPU.

use serde::{Deserialize, Serialize};

/// What of the time that tasks were not on a CPU is in a recording, and what is not. Of several files the
/// figures are those of all up to here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct OffCpu {
    /// Waits; of one that ends on a run queue each part counts.
    pub waits: u64,
    /// Their time, in nanoseconds.
    pub ns: u64,
    /// Waits that found no room in the kernel's tables.
    pub missing_waits: u64,
    /// Their time, in nanoseconds.
    pub missing_ns: u64,
    /// User stacks that found no room when they were to be copied; each is tried again.
    pub missing_copies: u64,
    /// Waits that were too short (`--off-cpu-min`).
    pub short_waits: u64,
    /// Their time, in nanoseconds.
    pub short_ns: u64,
}
