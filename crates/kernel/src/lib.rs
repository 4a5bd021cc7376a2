//! tare's interface to the Linux kernel: opening and reading events, ring buffers, the waiting
//! child, signals, BPF programs, files mapped into memory, cgroups, and facts about the host.
//!
//! The only crate with `unsafe` code of its own; each block states why it is sound. Nothing here
//! prints, and only forked children exit.

pub mod bpf;
mod bus_error;
pub mod calendar_time;
pub mod call_samples;
pub mod capabilities;
pub mod cgroup;
pub mod child;
mod clock_pair;
pub mod command;
pub mod ending;
pub mod exit;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod file_identity;
pub mod file_view;
pub mod file_window;
pub mod foreign_folder;
pub mod functions;
pub mod heap;
pub mod histogram;
pub mod host;
mod inherited;
pub mod kept_counts;
mod lean_exec;
mod mapping;
pub mod mounts;
pub mod open;
pub mod page_buffer;
pub mod probe;
pub mod procfs;
pub mod pseudo_file;
pub mod ptrace;
pub mod ring;
pub mod schedule;
pub mod signals;
#[cfg(any(test, feature = "fake"))]
pub mod simulated;
pub mod targets;
pub mod timestamp;
pub mod tracefs;

pub use clock_pair::clock_pair;
pub use inherited::{enter, inherited_descriptor};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
