//! Blocks of code between branches, with the cycles that they took.

use crate::ids::{EventId, StringId};
use crate::tables::SourceLine;

/// The blocks that the branch stacks of an event's samples tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The event.
    pub event: EventId,
    /// Cycles of all branches, those too that end no block with a name.
    pub cycles: u64,
    /// Each block once, the one with the most cycles first.
    pub blocks: Vec<Block>,
}

/// A block: what ran up to a branch, without another one between. Those that end at the same branch
/// are one, with the lowest start that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The function's name. Untrusted.
    pub function: StringId,
    /// The short name of its file. Untrusted.
    pub dso: StringId,
    /// Where it begins, in bytes behind the function's first address; 0 where that isn't known.
    pub start: u64,
    /// The branch at its end, in bytes behind the function's first address.
    pub end: u64,
    /// The line of its start.
    pub start_line: Option<SourceLine>,
    /// The line of its end.
    pub end_line: Option<SourceLine>,
    /// The sum of its cycles.
    pub cycles: u64,
    /// How often it ran.
    pub runs: u64,
}

impl Block {
    /// Cycles of one run, rounded down.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.cycles.checked_div(self.runs).unwrap_or(0)
    }
}
