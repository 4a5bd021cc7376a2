//! A description of the machine, without which figures can't be judged later.

use std::fmt;
use std::process::Command;

use serde::Serialize;

/// The machine and the version of tare that were measured.
#[derive(Debug, Serialize)]
pub(crate) struct HostInfo {
    kernel: String,
    cpu: String,
    cpus: usize,
    perf: String,
    /// Short hash of the checked-out commit, with `+` if a tracked file differs from it.
    tare: String,
    /// Seconds since 1970.
    time: u64,
}

impl HostInfo {
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let clean = output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
        let time =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, Into::into),
            perf: output("perf", &["--version"]),
            tare: output("git", &["rev-parse", "--short", "HEAD"]) + if clean { "" } else { "+" },
            time: time.as_secs(),
        }
    }

    /// The part of a result file's name that states time and commit.
    pub(crate) fn label(&self) -> String {
        format!("{}-{}", self.time, self.tare.trim_end_matches('+'))
    }
}

impl fmt::Display for HostInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Linux {}, {} x {}, {}, tare {}",
            self.kernel, self.cpus, self.cpu, self.perf, self.tare
        )
    }
}

/// Whether the CPUs are AMD's. The benchmark `true-cost` allows tare a larger share of perf's CPU
/// time there.
pub(crate) fn is_amd() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("AuthenticAMD"))
}

/// The first line of a program's stdout, or an empty string.
fn output(program: &str, args: &[&str]) -> String {
    let text =
        Command::new(program).args(args).output().map(|done| done.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}
