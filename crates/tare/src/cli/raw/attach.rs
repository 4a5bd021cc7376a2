use super::definition::options;

options! {
    /// Running tasks, CPUs and cgroups to sample, for `record` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Target")]
    pub struct AttachArgs {
        /// Sample the whole machine (default without a command or other target)
        #[arg(short, long, conflicts_with_all = ["pid", "tid", "uid"])]
        pub all_cpus: bool,

        /// Sample running processes, until all have exited
        #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub pid: Vec<i32>,

        /// Sample running threads, until all have exited
        #[arg(short, long, value_name = "TID,…", value_delimiter = ',', action = clap::ArgAction::Set, conflicts_with = "pid")]
        pub tid: Vec<i32>,

        /// Sample the running processes of a user, by name or number
        #[arg(short, long, value_name = "USER", conflicts_with_all = ["pid", "tid"])]
        pub uid: Option<String>,

        /// Sample on these CPUs only, such as 0-3,8; with -p, -t or -u only the tasks' time there
        #[arg(short = 'C', long, value_name = "CPUS")]
        pub cpu: Option<String>,

        /// Sample cgroups: one name for all events, or one for each event in turn
        #[arg(short = 'G', long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["pid", "tid", "uid"])]
        pub cgroup: Vec<String>,
    }
}
