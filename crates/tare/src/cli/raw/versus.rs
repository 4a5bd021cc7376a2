use std::ffi::OsString;

use super::definition::options;

/// Fewest pairs of runs unless the events need more.
pub const MIN_PAIRS: usize = 10;

options! {
    /// Arguments of `tare stat --vs`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Comparison")]
    pub struct VersusArgs {
        /// Compare the command (A) with this one (B) in pairs of runs. It is split into words like a
        /// shell's, and run without a shell
        #[arg(
            long,
            value_name = "COMMAND B",
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

        /// Uncounted pairs of runs before the first counted one
        #[arg(long, value_name = "N", requires = "vs", default_value_t = 1)]
        pub warmup: usize,

        /// Fewest pairs of runs [default: 10, or as many as the events need]
        #[arg(long, value_name = "N", requires = "vs")]
        pub min_runs: Option<usize>,

        /// Most pairs of runs
        #[arg(long, value_name = "N", requires = "vs", default_value_t = 10_000)]
        pub max_runs: usize,

        /// Start no pair after this time, once --min-runs is reached
        #[arg(long, value_name = "SECONDS", requires = "vs", default_value_t = 60.0)]
        pub max_time: f64,

        /// Smallest relevant difference in percent; runs continue until the time is known to half
        /// of it
        #[arg(long, value_name = "PERCENT", requires = "vs", default_value = "1%")]
        pub min_effect: String,

        /// Exit with status 3 if B certainly exceeds this, such as 'time>+2%' or 'page-faults>5%'
        #[arg(long, value_name = "CONDITION", requires = "vs")]
        pub fail_if: Vec<String>,

        /// Seed for the order within pairs [default: random]
        #[arg(long, value_name = "N", requires = "vs")]
        pub seed: Option<u64>,

        /// Use runs with a nonzero exit status too
        #[arg(long, requires = "vs")]
        pub ignore_failure: bool,

        /// Destination of the commands' stdout and stderr: null, inherit, or a file for stdout
        /// [default: null]
        #[arg(long, value_name = "WHERE", requires = "vs")]
        pub command_output: Option<OsString>,
    }
}
