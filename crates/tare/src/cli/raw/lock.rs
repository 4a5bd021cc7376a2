use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tare lock -- ./server --test           callers that waited for locks and futexes, and for how long
  tare lock -a --timeout 1000 --kernel   kernel locks of the whole machine for a second
  tare lock -p 4711 --futexes --stacks   futexes of a process, with call chains
  tare lock -k max -E 10 -- make -j8     the ten callers with the longest single wait
  tare lock -i perf.data --stacks        kernel locks in a recording
  tare lock --json -- ./prog | jq '.locks[0].caller'

docs/lock.md describes the counted waits.";

/// Arguments of `tare lock`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct LockArgs {
    /// Only kernel locks
    #[arg(long, conflicts_with = "futexes", help_heading = "Report")]
    pub kernel: bool,

    /// Only futexes
    #[arg(long, help_heading = "Report")]
    pub futexes: bool,

    /// Show call chains of the callers with the longest total wait
    #[arg(long, help_heading = "Report")]
    pub stacks: bool,

    /// Sort key of callers, in descending order
    #[arg(short, long, value_name = "KEY", default_value = "wait_total", help_heading = "Report")]
    pub key: LockSort,

    /// Show at most N callers
    #[arg(short = 'E', long, value_name = "N", help_heading = "Report")]
    pub entries: Option<usize>,

    /// Read this recording (-: standard input)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["all_cpus", "pid", "command", "timeout", "futexes"], help_heading = "Target")]
    pub input: Option<PathBuf>,

    /// Trace running processes and their children
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Target")]
    pub pid: Vec<i32>,

    /// Trace the whole machine except tare itself
    #[arg(short, long, conflicts_with = "pid", help_heading = "Target")]
    pub all_cpus: bool,

    /// Stop after MS milliseconds; a command gets SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Schedule")]
    pub timeout: Option<u64>,

    /// Write to FILE instead of stderr (with a recording or --json: instead of stdout)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print one versioned JSON document
    #[arg(long, conflicts_with = "stacks", help_heading = "Output")]
    pub json: bool,

    /// Command to trace, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// Whether `--` stands before the command.
    #[arg(skip)]
    pub after_dashes: bool,
}

/// The keys of `-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LockSort {
    /// Number of waits
    Contended,
    /// Total wait
    #[value(name = "wait_total", alias = "total")]
    WaitTotal,
    /// Longest wait
    #[value(name = "wait_max", alias = "max")]
    WaitMax,
    /// Mean wait
    #[value(name = "avg_wait", alias = "avg")]
    AvgWait,
}
