use std::ffi::OsString;

/// Arguments of `tare stat --vs`.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Comparing")]
pub struct VersusArgs {
    /// Compare the command (A) with this one (B) in pairs of runs; split into words like a shell's,
    /// run without one
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

    /// Pairs of runs before the first that counts [default: 1]
    #[arg(long, value_name = "N", requires = "vs")]
    pub warmup: Option<usize>,

    /// Make at least so many pairs [default: 10, or what so many events need]
    #[arg(long, value_name = "N", requires = "vs")]
    pub min_runs: Option<usize>,

    /// Make at most so many pairs [default: 10000]
    #[arg(long, value_name = "N", requires = "vs")]
    pub max_runs: Option<usize>,

    /// Start no pair after so many seconds, once --min-runs are made [default: 60]
    #[arg(long, value_name = "SECONDS", requires = "vs")]
    pub max_time: Option<f64>,

    /// The smallest difference that matters, in percent: runs go on until the time is known to half
    /// of it [default: 1%]
    #[arg(long, value_name = "PERCENT", requires = "vs")]
    pub min_effect: Option<String>,

    /// Exit with 3 if B is surely beyond this, as in 'time>+2%' or 'page-faults>5%'
    #[arg(long, value_name = "CONDITION", requires = "vs")]
    pub fail_if: Vec<String>,

    /// Draw the order within pairs from this seed
    #[arg(long, value_name = "N", requires = "vs")]
    pub seed: Option<u64>,

    /// Use runs that end with another status than 0 too
    #[arg(long, requires = "vs")]
    pub ignore_failure: bool,

    /// Where the commands' stdout and stderr go: null, inherit, or a file for stdout [default:
    /// null]
    #[arg(long, value_name = "WHERE", requires = "vs")]
    pub command_output: Option<OsString>,
}
