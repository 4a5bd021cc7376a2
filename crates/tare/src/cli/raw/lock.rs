use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tare lock -- ./server --test           who waited for locks and futexes, and how long
  tare lock -a --timeout 1000 --kernel   locks of the kernel, of the whole machine for a second
  tare lock -p 4711 --futexes --stacks   futexes of a process, with call chains
  tare lock -k max -E 10 -- make -j8     the ten callers that waited longest at a time
  tare lock -i perf.data --stacks        locks of the kernel in a recording
  tare lock --json -- ./prog | jq '.locks[0].caller'

docs/lock.md says what is counted.";

/// Arguments of `tare lock`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct LockArgs {
    /// Only locks of the kernel
    #[arg(long, conflicts_with = "futexes", help_heading = "What to show")]
    pub kernel: bool,

    /// Only futexes
    #[arg(long, help_heading = "What to show")]
    pub futexes: bool,

    /// Show the call chain of each caller that waited longest in all
    #[arg(long, help_heading = "What to show")]
    pub stacks: bool,

    /// By what callers are sorted, the greatest first
    #[arg(
        short,
        long,
        value_name = "KEY",
        default_value = "wait_total",
        help_heading = "What to show"
    )]
    pub key: LockSort,

    /// Show so many callers
    #[arg(short = 'E', long, value_name = "N", help_heading = "What to show")]
    pub entries: Option<usize>,

    /// Read this recording instead (-: standard input)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["all_cpus", "pid", "command", "timeout", "futexes"], help_heading = "Where")]
    pub input: Option<PathBuf>,

    /// Running processes, and what they start
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Where")]
    pub pid: Vec<i32>,

    /// The whole machine but tare itself
    #[arg(short, long, conflicts_with = "pid", help_heading = "Where")]
    pub all_cpus: bool,

    /// Stop after so many milliseconds; a command is ended with SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub timeout: Option<u64>,

    /// Write to this file instead of stderr (of a recording, and with --json: instead of stdout)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print a JSON document with a version
    #[arg(long, conflicts_with = "stacks", help_heading = "Output")]
    pub json: bool,

    /// The command to look at, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// Whether `--` stands before the command.
    #[arg(skip)]
    pub after_dashes: bool,
}

/// The keys of `-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LockSort {
    /// How often it was waited for
    Contended,
    /// All waits
    #[value(name = "wait_total", alias = "total")]
    WaitTotal,
    /// The longest
    #[value(name = "wait_max", alias = "max")]
    WaitMax,
    /// The mean
    #[value(name = "avg_wait", alias = "avg")]
    AvgWait,
}
