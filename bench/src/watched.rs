//! CPU time and wake-ups of all threads of a running process.

use anyhow::Context;
use serde::Serialize;

/// CPU time and wake-ups of all threads of a process, up to a moment or between two moments.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ProcessUsage {
    /// CPU time: the first field of `/proc/PID/task/TID/schedstat`.
    pub(crate) cpu_ns: u64,
    /// Voluntary context switches, hence wake-ups: `voluntary_ctxt_switches` in
    /// `/proc/PID/task/TID/status`.
    pub(crate) wake_ups: u64,
}

impl ProcessUsage {
    /// The usage up to now.
    ///
    /// # Errors
    /// The process doesn't exist.
    pub(crate) fn now(pid: u32) -> anyhow::Result<Self> {
        let folder = format!("/proc/{pid}/task");
        let tasks = std::fs::read_dir(&folder).with_context(|| format!("process {pid} is gone"))?;
        let mut sum = Self { cpu_ns: 0, wake_ups: 0 };
        for task in tasks {
            // A thread may exit while the loop runs.
            let read = |name| std::fs::read_to_string(task.as_ref().ok()?.path().join(name)).ok();
            let number = |text: &str| text.trim().parse::<u64>().ok();
            let stat = read("schedstat").unwrap_or_default();
            sum.cpu_ns += stat.split_whitespace().next().and_then(number).unwrap_or(0);
            let status = read("status").unwrap_or_default();
            let switches =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum.wake_ups += switches.and_then(number).unwrap_or(0);
        }
        Ok(sum)
    }

    /// The usage since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            wake_ups: self.wake_ups.saturating_sub(before.wake_ups),
        }
    }
}
