//! What is to be done, worked out from what was typed and from this machine.

pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod flame;
pub(crate) mod lock;
pub mod overhead;
pub mod record;
pub mod report;
mod report_columns;
mod report_graph;
mod report_options;
pub(crate) mod samples;
pub(crate) mod sched;
pub(crate) mod script;
mod size;
pub mod stat;
pub(crate) mod symbols;
mod targets;
pub(crate) mod top;
pub(crate) mod trace;
pub mod versus;

/// How much of what a recording says of itself is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Without what can be long.
    Usual,
    /// Also what can be long: topology, caches, build ids (`-I`).
    Full,
}
