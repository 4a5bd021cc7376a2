use crate::cli::raw::definition::options;
use crate::cli::raw::{AttachArgs, FollowMode};

options! {
    /// Target and schedule of `tare record`.
    #[derive(Debug, clap::Args)]
    pub struct TargetArgs {
        /// Running tasks, CPUs and cgroups.
        #[command(flatten)]
        pub attach: AttachArgs,

        /// How to follow the command's children
        #[arg(
            long,
            value_enum,
            value_name = "HOW",
            default_value_t = FollowMode::Auto,
            hide_default_value = true,
            conflicts_with_all = ["all_cpus", "pid", "tid", "uid", "cpu", "cgroup"],
            help_heading = "Target"
        )]
        pub follow: FollowMode,

        /// Don't record the target's children
        #[arg(short = 'i', long, visible_alias = "per-thread", help_heading = "Target")]
        pub no_inherit: bool,

        /// Start recording MS milliseconds after the command (-1: when --control enables it)
        #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, help_heading = "Schedule")]
        pub delay: Option<String>,

        /// Stop after MS milliseconds; a command gets SIGTERM
        #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Schedule")]
        pub timeout: Option<u64>,

        /// Read enable, disable, ping and stop from a descriptor or FIFO, and answer "ack":
        /// `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`
        #[arg(long, value_name = "WHERE", help_heading = "Schedule")]
        pub control: Option<String>,
    }
}
