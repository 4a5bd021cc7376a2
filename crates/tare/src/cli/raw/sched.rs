use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tare sched -- make -j8                 run time and wait time of a build's tasks
  tare sched -a --timeout 1000 --hist    the whole machine for a second, with a histogram of waits
  tare sched -p 4711 --sort max          threads of a process, the longest wait first
  tare sched -a --timehist --timeout 100    each context switch as it happens
  tare sched -i perf.data --timehist -w --state    switches of a recording, with wake-ups and states
  tare sched -i perf.data --json | jq '.tasks[0].wait.p99_ns'
  tare record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new -- sleep 1
                                         a recording for `tare sched -i`

docs/sched.md describes the columns.";

/// Arguments of `tare sched`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct SchedArgs {
    /// List each context switch, like perf sched timehist, instead of totals
    #[arg(long, help_heading = "Report")]
    pub timehist: bool,

    /// Show wake-ups between the switches
    #[arg(short, long, requires = "timehist", help_heading = "Report")]
    pub wakeups: bool,

    /// Show migrations between the switches
    #[arg(short = 'M', long, requires = "timehist", help_heading = "Report")]
    pub migrations: bool,

    /// Show the next task
    #[arg(short, long, requires = "timehist", help_heading = "Report")]
    pub next: bool,

    /// Show the state in which a task leaves its CPU
    #[arg(long, requires = "timehist", help_heading = "Report")]
    pub state: bool,

    /// Show a histogram of waits
    #[arg(long, conflicts_with = "timehist", help_heading = "Report")]
    pub hist: bool,

    /// Sort key of tasks, in descending order
    #[arg(
        long,
        value_name = "KEY",
        default_value = "runtime",
        conflicts_with = "timehist",
        help_heading = "Report"
    )]
    pub sort: SchedSort,

    /// Read this recording (-: standard input)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["all_cpus", "command", "timeout", "ring_size"], help_heading = "Target")]
    pub input: Option<PathBuf>,

    /// Trace running processes and their children; with -i only these processes
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Target")]
    pub pid: Vec<i32>,

    /// With -i: only these threads
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', action = clap::ArgAction::Set, requires = "input", help_heading = "Target")]
    pub tid: Vec<i32>,

    /// Trace the whole machine except tare itself
    #[arg(short, long, conflicts_with = "pid", help_heading = "Target")]
    pub all_cpus: bool,

    /// Only events on these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST", help_heading = "Target")]
    pub cpu: Option<String>,

    /// With -i: only this range of time in seconds, such as 12.5,13; FROM or TO may be omitted
    #[arg(long, value_name = "FROM,TO", requires = "input", help_heading = "Schedule")]
    pub time: Option<String>,

    /// Stop after MS milliseconds; a command gets SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Schedule")]
    pub timeout: Option<u64>,

    /// Write to FILE instead of stderr (with a recording or --json: instead of stdout)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Size of the ring buffer: a power of two from 64K to 1G [default: 8M]
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub ring_size: Option<String>,

    /// Print one versioned JSON document; with --timehist one object per line
    #[arg(long, conflicts_with = "hist", help_heading = "Output")]
    pub json: bool,

    /// Command to trace, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// Whether `--` stands before the command.
    #[arg(skip)]
    pub after_dashes: bool,
}

/// The keys of `--sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SchedSort {
    /// Longest wait
    Max,
    /// Mean wait
    Avg,
    /// Run time
    Runtime,
    /// Number of context switches
    Switch,
    /// Total wait
    Wait,
}
