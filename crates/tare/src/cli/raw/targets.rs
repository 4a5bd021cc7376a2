//! Running tasks, CPUs and cgroups to measure, and the children of tasks.

use super::definition::options;
use super::task_list::{TaskList, parse_tasks};

options! {
    /// Running tasks, CPUs and cgroups, for `stat`, `record` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Target")]
    pub struct RunningArgs {
        /// The whole machine (default without a command or other target)
        #[arg(short, long)]
        pub all_cpus: bool,

        /// Running processes, until all have exited; several add up, also as -p "$(pidof NAME)"
        #[arg(short, long, value_name = "PID,…", value_parser = parse_tasks)]
        pub pid: Vec<TaskList>,

        /// Running threads, until all have exited; several add up
        #[arg(short, long, value_name = "TID,…", value_parser = parse_tasks, conflicts_with = "pid")]
        pub tid: Vec<TaskList>,

        /// These CPUs only, such as 0-3,8
        #[arg(short = 'C', long, value_name = "CPUS")]
        pub cpu: Option<String>,

        /// Cgroups: one name for all events, or one for each event in turn
        #[arg(short = 'G', long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["pid", "tid"])]
        pub cgroup: Vec<String>,
    }
}

options! {
    /// Running tasks, CPUs and cgroups to sample, for `record` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Target")]
    pub struct AttachArgs {
        /// Tasks, CPUs and cgroups that can be counted too.
        #[command(flatten)]
        pub running: RunningArgs,

        /// The running processes of a user, by name or number
        #[arg(short, long, value_name = "USER", conflicts_with_all = ["pid", "tid", "cgroup"])]
        pub uid: Option<String>,
    }
}

options! {
    /// Children of the target, for `stat`, `record` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Target")]
    pub struct InheritArgs {
        /// Leave out the target's children
        #[arg(short = 'i', long)]
        pub no_inherit: bool,
    }
}

/// How to follow a command's children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FollowMode {
    /// The first possible one of these
    #[default]
    Auto,
    /// Events on a cgroup of the command's own (needs `CAP_PERFMON` or
    /// kernel.perf_event_paranoid=0, and write access to the current cgroup)
    Cgroup,
    /// Events on whole CPUs, filtered to the command's samples (needs `CAP_PERFMON`)
    System,
    /// Copies of the parent's events in each child (needs no privileges, misses short-lived
    /// children)
    Inherit,
}
