/// What is recorded, and when.
#[derive(Debug, Default, clap::Args)]
pub struct TargetArgs {
    /// Record the whole machine (the default without a command and other targets)
    #[arg(short, long, conflicts_with_all = ["pid", "tid", "uid"], help_heading = "Where")]
    pub all_cpus: bool,

    /// Record running processes
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Where")]
    pub pid: Vec<i32>,

    /// Record running threads
    #[arg(
        short,
        long,
        value_name = "TID,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        conflicts_with = "pid",
        help_heading = "Where"
    )]
    pub tid: Vec<i32>,

    /// Record the running processes of a user, by name or number
    #[arg(short, long, value_name = "USER", conflicts_with_all = ["pid", "tid"], help_heading = "Where")]
    pub uid: Option<String>,

    /// Record these CPUs only, as in 0-3,8; with -p, -t and -u what the tasks do there
    #[arg(short = 'C', long, value_name = "CPUS", help_heading = "Where")]
    pub cpu: Option<String>,

    /// Record cgroups: one for all events, or one for each event in turn
    #[arg(short = 'G', long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["pid", "tid", "uid"], help_heading = "Where")]
    pub cgroup: Vec<String>,

    /// How to follow what the command starts
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "auto",
        hide_default_value = true,
        conflicts_with_all = ["all_cpus", "pid", "tid", "uid", "cpu", "cgroup"],
        help_heading = "Where"
    )]
    pub follow: crate::cli::raw::FollowMode,

    /// Don't record what the task starts
    #[arg(short = 'i', long, visible_alias = "per-thread", help_heading = "Where")]
    pub no_inherit: bool,

    /// Start recording so many milliseconds after the command (-1: when --control says so)
    #[arg(
        short = 'D',
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help_heading = "When"
    )]
    pub delay: Option<String>,

    /// Stop after so many milliseconds; a command is ended with SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub timeout: Option<u64>,

    /// Take enable, disable, ping and stop from a descriptor or FIFO and answer "ack":
    /// `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`
    #[arg(long, value_name = "WHERE", help_heading = "When")]
    pub control: Option<String>,
}
