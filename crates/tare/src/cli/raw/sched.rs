use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tare sched -- make -j8                 who of a build ran how long, and waited how long for a CPU
  tare sched -a --timeout 1000 --hist    the whole machine for a second, with the distribution of waits
  tare sched -p 4711 --sort max          the threads of a process, the longest wait first
  tare sched -a --timehist --timeout 100    each context switch as it happens
  tare sched -i perf.data --timehist -w --state    those of a recording, with wake-ups and states
  tare sched -i perf.data --json | jq '.tasks[0].wait.p99_ns'
  tare record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new -- sleep 1
                                         a recording for it

docs/sched.md says what each column is.";

/// Arguments of `tare sched`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct SchedArgs {
    /// List each context switch, as perf sched timehist does, instead of sums
    #[arg(long, help_heading = "What to show")]
    pub timehist: bool,

    /// Show wake-ups between the switches
    #[arg(short, long, requires = "timehist", help_heading = "What to show")]
    pub wakeups: bool,

    /// Show migrations between the switches
    #[arg(short = 'M', long, requires = "timehist", help_heading = "What to show")]
    pub migrations: bool,

    /// Show the task that comes next
    #[arg(short, long, requires = "timehist", help_heading = "What to show")]
    pub next: bool,

    /// Show the state in which a task leaves its CPU
    #[arg(long, requires = "timehist", help_heading = "What to show")]
    pub state: bool,

    /// How the waits are distributed
    #[arg(long, conflicts_with = "timehist", help_heading = "What to show")]
    pub hist: bool,

    /// By what tasks are sorted, the greatest first
    #[arg(
        long,
        value_name = "KEY",
        default_value = "runtime",
        conflicts_with = "timehist",
        help_heading = "What to show"
    )]
    pub sort: SchedSort,

    /// Read this recording instead (-: standard input)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["all_cpus", "command", "timeout", "ring_size"], help_heading = "Where")]
    pub input: Option<PathBuf>,

    /// Running processes, and what they start; of a recording these processes
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Where")]
    pub pid: Vec<i32>,

    /// Of a recording these threads
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', action = clap::ArgAction::Set, requires = "input", help_heading = "Where")]
    pub tid: Vec<i32>,

    /// The whole machine but tare itself
    #[arg(short, long, conflicts_with = "pid", help_heading = "Where")]
    pub all_cpus: bool,

    /// Only what happens on these CPUs: a list as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST", help_heading = "Where")]
    pub cpu: Option<String>,

    /// Only from one time of the recording to another, in seconds; either may be left out: 12.5,13
    #[arg(long, value_name = "FROM,TO", requires = "input", help_heading = "When")]
    pub time: Option<String>,

    /// Stop after so many milliseconds; a command is ended with SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub timeout: Option<u64>,

    /// Write to this file instead of stderr (of a recording, and with --json: instead of stdout)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// How much may wait in the kernel for tare: 64K to 1G, a power of two [default: 8M]
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub ring_size: Option<String>,

    /// Print JSON: a document with a version; with --timehist an object a line
    #[arg(long, conflicts_with = "hist", help_heading = "Output")]
    pub json: bool,

    /// The command to look at, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// Whether `--` stands before the command.
    #[arg(skip)]
    pub after_dashes: bool,
}

/// The keys of `--sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SchedSort {
    /// The longest wait
    Max,
    /// The mean of waits
    Avg,
    /// The time that it ran
    Runtime,
    /// How often it left a CPU
    Switch,
    /// All its waits
    Wait,
}
