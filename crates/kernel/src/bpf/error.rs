//! Why BPF programs can't be used, and the perf events that replace them.

use std::fmt;

use aya::maps::MapError;
use aya::programs::ProgramError;
use aya::{BtfError, EbpfError};
use rustix::io::Errno;
use thiserror::Error;

/// Why programs can't be loaded, attached or read.
#[derive(Debug, Error)]
pub enum BpfError {
    /// bpf(2) refuses this process.
    #[error("BPF programs are not allowed to this user")]
    NotPermitted(Errno),
    /// The kernel doesn't describe its types.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux)")]
    NoBtf(#[source] BtfError),
    /// The object doesn't fit the running kernel, or its maps can't be created.
    #[error("a BPF object can't be loaded: {0}")]
    Object(#[source] Box<EbpfError>),
    /// A program can't be loaded or attached, for example because the verifier rejects it or the
    /// kernel lacks its tracepoint.
    #[error("the BPF program '{name}' can't be attached: {}", without_log(&error.to_string()))]
    Program {
        /// The program's name in its object.
        name: &'static str,
        /// The loader's error.
        error: Box<ProgramError>,
    },
    /// A map can't be read or written.
    #[error("a BPF map can't be used: {0}")]
    Map(#[source] Box<MapError>),
    /// A process to be followed doesn't exist.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// Another error of the kernel; `ENOENT` also if the object lacks a program or map.
    #[error("bpf(2): {0}")]
    Kernel(#[from] Errno),
}

/// Returns the text before the verifier's log, which can have thousands of lines.
fn without_log(text: &str) -> &str {
    text.split(". Verifier output").next().unwrap_or_default()
}

impl BpfError {
    /// Returns the message's first line, without the verifier's log.
    #[must_use]
    pub fn first_line(&self) -> String {
        let text = self.to_string();
        without_log(text.lines().next().unwrap_or_default()).to_owned()
    }
}

impl From<MapError> for BpfError {
    fn from(error: MapError) -> Self {
        Self::Map(Box::new(error))
    }
}

/// BPF programs can't be used, and perf events replace them.
#[derive(Debug)]
pub struct PerfFallback {
    /// Why the programs can't be used.
    pub cause: BpfError,
    /// The cost of perf events, and the facts that they don't report.
    pub limits: &'static str,
}

impl fmt::Display for PerfFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, limits } = self;
        let remedy = match cause {
            BpfError::NotPermitted(_) => {
                "; root, or CAP_BPF with CAP_PERFMON, may load the programs"
            }
            _ => "",
        };
        write!(f, "{}: by perf events instead, {limits}{remedy}", cause.first_line())
    }
}
