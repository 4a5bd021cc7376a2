//! Perf events in place of BPF programs.

use std::fmt;

use super::load::BpfError;

/// BPF programs can't be had, and perf events take their place.
#[derive(Debug)]
pub struct StepBack {
    /// Why they can't be had.
    pub why: BpfError,
    /// What perf events cost and lack.
    pub lacks: &'static str,
}

impl fmt::Display for StepBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, lacks } = self;
        let remedy = match why {
            BpfError::NotPermitted(_) => "; root, or CAP_BPF with CAP_PERFMON, has all of it",
            _ => "",
        };
        write!(f, "{}: by perf events instead, {lacks}{remedy}", why.line())
    }
}
