//! Settings of a benchmark run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Settings of a benchmark run.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Path of the binary to measure; raw results name it.
    pub(crate) tare: PathBuf,
    /// The folder of the built workloads.
    pub(crate) workloads: PathBuf,
    /// The binary before a change, for `against`.
    pub(crate) before: Option<PathBuf>,
    /// The cases of `against`, or the parts of `stacks`; all of them if empty.
    pub(crate) cases: Vec<String>,
    /// The number of rounds, if given.
    pub(crate) rounds: Option<usize>,
    /// The seed of random addresses, if given.
    pub(crate) seed: Option<u64>,
    /// The length of a run in seconds, if given.
    pub(crate) seconds: Option<u64>,
    /// Another profiler to compare with.
    pub(crate) peer: Option<PathBuf>,
}

impl Setting {
    pub(crate) fn tare(&self) -> String {
        self.tare.display().to_string()
    }

    /// Makes a recording with call chains and one without. They measure and store the cost of a
    /// sample on this host, so that later recordings don't.
    pub(crate) fn calibrate(&self) {
        for chains in ["-g", "--no-call-graph"] {
            let recording = ["record", "-q", chains, "-o", "/dev/null", "true"];
            // If this fails, a benchmark that records fails too and reports the reason.
            let _ = Command::new(&self.tare).args(recording).stderr(Stdio::null()).status();
        }
    }

    /// Whether a case is to be measured.
    pub(crate) fn has_case(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|case| case == name)
    }

    pub(crate) fn workload(&self, name: &str) -> String {
        self.workloads.join(name).display().to_string()
    }
}
