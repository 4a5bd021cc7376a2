//! Options of the libraries, resolved from the typed options and this machine.

#[cfg(feature = "agent")]
pub(crate) mod agent;
pub mod bench;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod flame;
#[cfg(feature = "agent")]
pub(crate) mod fleet;
pub(crate) mod lock;
pub mod overhead;
pub mod record;
pub mod report;
mod report_columns;
mod report_graph;
mod report_options;
mod rounds;
pub(crate) mod samples;
pub(crate) mod sched;
pub mod schedule;
pub(crate) mod script;
#[cfg(feature = "serve")]
pub(crate) mod serve;
mod size;
pub mod stat;
#[cfg(feature = "agent")]
pub(crate) mod store;
#[cfg(feature = "agent")]
pub(crate) mod stored;
#[cfg(not(feature = "agent"))]
#[path = "stored_absent.rs"]
pub(crate) mod stored;
pub(crate) mod symbols;
mod targets;
pub(crate) mod top;
pub(crate) mod trace;
pub mod versus;

/// Extent of a recording's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Without topology, caches and build ids.
    Usual,
    /// With topology, caches and build ids (`-I`).
    Full,
}
