use std::ffi::OsString;

use super::RoundArgs;
use super::definition::options;

options! {
    /// Arguments of `tare stat --vs`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Comparison", mut_arg("seed", |arg| arg.requires("vs")))]
    pub struct VersusArgs {
        /// Compare the command (A) with this one (B) in pairs of runs. It is split into words like
        /// a shell's, and run without a shell
        #[arg(
            long,
            value_name = "COMMAND B",
            group = "compared",
            requires = "command",
            conflicts_with_all = [
                "pid", "tid", "all_cpus", "cpu", "cgroup", "for_each_cgroup", "repeat", "interval_print", "delay", "timeout", "control", "exact",
                "json_lines", "metric_only"
            ]
        )]
        pub vs: Option<OsString>,

        /// Run both commands with `sh -c`
        #[arg(long, requires = "vs")]
        pub shell: bool,

        /// Number of rounds.
        #[command(flatten)]
        pub rounds: RoundArgs,

        /// Exit with status 3 if B certainly exceeds this, such as 'time>+2%' or 'page-faults>5%'
        #[arg(long, value_name = "CONDITION", requires = "vs")]
        pub fail_if: Vec<String>,

        /// Destination of the commands' stdout and stderr: null, inherit, or a file for stdout
        /// [default: null]
        #[arg(long, value_name = "WHERE", requires = "vs")]
        pub command_output: Option<OsString>,
    }
}
