//! How the command was followed, which share of its tasks' usage the samples represent, and periods
//! that replaced frequencies.

use serde::{Deserialize, Serialize};

/// How the command's children are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowMode {
    /// Events on a cgroup that the command runs in.
    Cgroup,
    /// Events on whole CPUs; readers show only the command's tasks.
    System,
    /// Events that children inherit.
    #[default]
    Inherit,
}

impl FollowMode {
    /// Describes the mode, as the end of a sentence like "it follows the command ...".
    #[must_use]
    pub fn how(self) -> &'static str {
        match self {
            Self::Cgroup => "by a cgroup of its own",
            Self::System => "on all CPUs, and keeps what its tasks do",
            Self::Inherit => "by inherited events",
        }
    }
}

/// How the command was followed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Follow {
    /// The mode.
    pub mode: FollowMode,
    /// Why a mode that covers more tasks wasn't used.
    pub why: Option<String>,
    /// The command's process. Its actions before its execve aren't the command's.
    pub root: i32,
    /// In later files of a series: when the command's program began, in nanoseconds of the
    /// recording's clock; `None` if unknown.
    pub exec_ns: Option<u64>,
    /// In later files of a series with [`FollowMode::System`]: the command's threads when the file
    /// began, sorted.
    pub members: Vec<i32>,
    /// Number of the command's tasks, if known.
    pub tasks: Option<u64>,
    /// Tasks without a sample.
    pub unseen_tasks: u64,
    /// With [`FollowMode::Inherit`] and several tasks: whether the kernel carries an exited task's
    /// remaining count over to the next child, if known.
    pub kernel_keeps_counts: Option<bool>,
    /// Tasks that left the command's cgroup and weren't recorded from then on.
    pub left_cgroup: u64,
    /// Processes that outlived the command, and were moved to tare's own cgroup.
    pub outlived: usize,
    /// The folder name of the command's cgroup, if it could not be removed.
    pub cgroup_kept: Option<String>,
    /// Whether the command's program has rights that its user lacks (set-user-ID, set-group-ID,
    /// capabilities), or isn't readable. The kernel removes the events of such a task at its execve
    /// (`perf_event_exit_task`), except those on cgroups and CPUs.
    pub unrecordable: bool,
}

/// Which part of the tasks' usage the samples of an event represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Coverage {
    /// The sum of the samples' periods: nanoseconds of CPU time, or occurrences.
    pub sampled: u64,
    /// The tasks' usage, in the same unit.
    pub used: u64,
    /// Whether the unit is nanoseconds.
    pub is_time: bool,
    /// Whether the usage is so small that the number of samples is a matter of chance.
    pub is_little: bool,
    /// Whether the requested frequency is the highest that the kernel allows
    /// (`kernel.perf_event_max_sample_rate`).
    pub is_highest_rate: bool,
}

/// A fixed period used instead of a frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct FixedPeriod {
    /// The requested frequency, in Hz.
    pub hz: u64,
    /// Cycles between two samples (nanoseconds for clocks).
    pub period: u64,
    /// Cycles (nanoseconds for clocks) per second of a busy CPU.
    pub a_second: u64,
}

impl Coverage {
    /// Returns the represented share in percent; `None` if nothing was used.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.used > 0).then(|| 100.0 * self.sampled as f64 / self.used as f64)
    }
}
