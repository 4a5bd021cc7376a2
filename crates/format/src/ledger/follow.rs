//! How the command was followed, and how much of what its tasks used the samples stand for.

use serde::{Deserialize, Serialize};

/// How the command's children are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowMode {
    /// By events on a cgroup that the command runs in.
    Cgroup,
    /// Events on whole CPUs; readers show only the command's tasks.
    System,
    /// By events that children inherit.
    #[default]
    Inherit,
}

impl FollowMode {
    /// As part of a sentence.
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
    /// Why not in a way that sees more.
    pub why: Option<String>,
    /// The command's process. Its actions before its execve aren't the command's.
    pub root: i32,
    /// For later files of a series: when the command's program began, on the recording's clock.
    pub exec_ns: Option<u64>,
    /// For later files of a series with [`FollowMode::System`]: the command's other threads when
    /// the file began, sorted.
    pub members: Vec<i32>,
    /// Number of tasks, if known.
    pub tasks: Option<u64>,
    /// Tasks of which there is no sample.
    pub unseen_tasks: u64,
    /// For inherited events: whether the kernel carries an exited task's remaining count over to
    /// the next child, if known.
    pub kernel_keeps_counts: Option<bool>,
    /// Tasks that left the command's cgroup and weren't recorded from then on.
    pub left_cgroup: u64,
    /// Processes that outlived the command, and were moved back to where tare is.
    pub outlived: usize,
    /// The command's cgroup where it could not be removed: its folder's name.
    pub cgroup_kept: Option<String>,
    /// Whether the command's program has rights that its user lacks (set-user-ID, set-group-ID,
    /// capabilities, or not readable). The kernel removes an unprivileged recorder's events from
    /// such a task (`perf_event_exit_task` at execve).
    pub unrecordable: bool,
}

/// What the samples of an event stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Coverage {
    /// The sum of the periods of its samples.
    pub sampled: u64,
    /// What the tasks used: nanoseconds of CPU time, or occurrences.
    pub used: u64,
    /// Whether these are nanoseconds.
    pub is_time: bool,
    /// Whether so little was used that chance decides how many samples there are.
    pub is_little: bool,
    /// Whether the event is sampled as often as the kernel allows
    /// (`kernel.perf_event_max_sample_rate`).
    pub is_highest_rate: bool,
}

/// A fixed period used instead of a frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct FixedPeriod {
    /// Samples a second that were asked for.
    pub hz: u64,
    /// A sample every N cycles, or nanoseconds for clocks.
    pub period: u64,
    /// Cycles or nanoseconds that a busy CPU makes a second.
    pub a_second: u64,
}

impl Coverage {
    /// In percent; `None` where nothing was used.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.used > 0).then(|| 100.0 * self.sampled as f64 / self.used as f64)
    }
}
