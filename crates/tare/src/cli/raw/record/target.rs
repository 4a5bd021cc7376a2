use crate::cli::raw::definition::options;
use crate::cli::raw::{AttachArgs, ControlArgs, FollowMode, InheritArgs, TimeoutArgs};

options! {
    /// Target and schedule of `tare record`.
    #[derive(Debug, clap::Args)]
    #[command(mut_arg("no_inherit", |arg| arg.visible_alias("per-thread")))]
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

        /// The target's children.
        #[command(flatten)]
        pub children: InheritArgs,

        /// Start, and control from outside.
        #[command(flatten)]
        pub start: ControlArgs,

        /// End.
        #[command(flatten)]
        pub end: TimeoutArgs,
    }
}
