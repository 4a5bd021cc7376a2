//! The step back from BPF programs to perf events.

use std::fmt;

use super::load::BpfError;

/// BPF programs can't be used, and perf events take their place.
#[derive(Debug)]
pub struct PerfFallback {
    /// Why the programs can't be used.
    pub cause: BpfError,
    /// What perf events cost and what they don't report.
    pub limits: &'static str,
}

impl fmt::Display for PerfFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, limits } = self;
        let remedy = match cause {
            BpfError::NotPermitted(_) => "; root, or CAP_BPF with CAP_PERFMON, has all of it",
            _ => "",
        };
        write!(f, "{}: by perf events instead, {limits}{remedy}", cause.first_line())
    }
}
