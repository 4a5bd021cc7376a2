//! Blocks of code between branches, with their cycles.

use crate::ids::{EventId, StringId};
use crate::tables::SourceLine;

/// The blocks in the branch stacks of an event's samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The event.
    pub event: EventId,
    /// Cycles of all branches, including those outside of named functions.
    pub cycles: u64,
    /// The blocks, those with the most cycles first.
    pub blocks: Vec<Block>,
}

/// A run of instructions without a taken branch, up to the branch that ends it. Runs that end at
/// the same branch are merged, with the lowest start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The function's name. Untrusted.
    pub function: StringId,
    /// The short name of its file. Untrusted.
    pub dso: StringId,
    /// Its start, in bytes from the function's first address; 0 if unknown.
    pub start: u64,
    /// The branch at its end, in bytes from the function's first address.
    pub end: u64,
    /// The source line of its start.
    pub start_line: Option<SourceLine>,
    /// The source line of its end.
    pub end_line: Option<SourceLine>,
    /// Cycles of all runs.
    pub cycles: u64,
    /// Number of runs.
    pub runs: u64,
}

impl Block {
    /// Returns the average cycles of a run, rounded down.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.cycles.checked_div(self.runs).unwrap_or(0)
    }
}
