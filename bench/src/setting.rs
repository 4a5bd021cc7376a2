//! What a benchmark is run with.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a benchmark is run with.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The binary to measure, as a path from here: the raw results name it.
    pub(crate) tare: PathBuf,
    /// The folder of the built workloads.
    pub(crate) workloads: PathBuf,
    /// The binary before a change, which the measured one is held against.
    pub(crate) before: Option<PathBuf>,
    /// What of the two is compared; all where none is named.
    pub(crate) cases: Vec<String>,
    /// How many rounds, where the user said so.
    pub(crate) rounds: Option<usize>,
    /// What addresses are drawn by, where the user said so.
    pub(crate) seed: Option<u64>,
}

impl Setting {
    pub(crate) fn tare(&self) -> String {
        self.tare.display().to_string()
    }

    /// The first recording of a host measures what a sample costs there. Benchmarks are about those
    /// that come later.
    pub(crate) fn calibrate(&self) {
        for chains in ["-g", "--no-call-graph"] {
            let recording = ["record", "-q", chains, "-o", "/dev/null", "true"];
            // Where it fails, so does the benchmark, which says why.
            let _ = Command::new(&self.tare).args(recording).stderr(Stdio::null()).status();
        }
    }

    pub(crate) fn workload(&self, name: &str) -> String {
        self.workloads.join(name).display().to_string()
    }
}
