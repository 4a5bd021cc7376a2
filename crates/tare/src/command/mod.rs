//! One module per command, and the modules that commands share: `control` reads orders, `header`
//! prints a recording's header, `output` creates files, `recording` opens recordings, `remedy`
//! words errors, `samples` reads samples, `stored` reads a store, `supervise` runs a command beside a measurement,
//! `unnamed` reports missing symbols, and `vmlinux` checks the kernel image.

#[cfg(feature = "agent")]
pub(crate) mod agent;
pub(crate) mod annotate;
pub(crate) mod archive;
pub(crate) mod bench;
pub(crate) mod buildid_list;
pub mod completions;
mod control;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod evlist;
pub(crate) mod export;
pub(crate) mod flame;
#[cfg(feature = "agent")]
pub(crate) mod fleet;
pub(crate) mod header;
pub(crate) mod inject;
pub(crate) mod kallsyms;
pub(crate) mod list;
pub(crate) mod lock;
mod output;
pub(crate) mod overhead;
pub(crate) mod record;
mod recording;
mod remedy;
pub(crate) mod report;
mod samples;
pub(crate) mod sched;
pub(crate) mod script;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod stat;
#[cfg(feature = "agent")]
pub(crate) mod store;
#[cfg(feature = "agent")]
mod stored;
#[cfg(not(feature = "agent"))]
#[path = "stored_absent.rs"]
mod stored;
mod supervise;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod version;
mod vmlinux;
