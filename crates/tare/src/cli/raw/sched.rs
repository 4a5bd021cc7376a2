use super::task_list::{TaskList, parse_tasks};
use super::{InputArgs, RangeArgs, ResultFileArgs, RingArgs, TracedArgs};

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

tare-sched(1) describes the columns.";

const ONE_RANGE: &str = "Only this range of time: seconds as printed by `tare script`, FROM or TO may be omitted; or a part of the recording: 10%-20%, or 10%/2 for the second tenth";

/// Arguments of `tare sched`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("input", |arg| arg.conflicts_with_all(["all_cpus", "command", "timeout", "ring_size"])),
    mut_arg("time", |arg| arg.requires("input").help(ONE_RANGE).long_help(ONE_RANGE)),
)]
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

    /// One line per thread instead of one per command; --json always lists threads
    #[arg(long, conflicts_with = "timehist", help_heading = "Report")]
    pub per_thread: bool,

    /// Show the task on each CPU after each switch, like perf sched map
    #[arg(long, conflicts_with_all = ["timehist", "hist", "json"], help_heading = "Report")]
    pub map: bool,

    /// Show a histogram of waits
    #[arg(long, conflicts_with = "timehist", help_heading = "Report")]
    pub hist: bool,

    /// Sort key of the lines, in descending order
    #[arg(
        long,
        value_name = "KEY",
        default_value = "runtime",
        conflicts_with_all = ["timehist", "map"],
        help_heading = "Report"
    )]
    pub sort: SchedSort,

    /// A recording to read instead of tracing.
    #[command(flatten, next_help_heading = "Target")]
    pub input: InputArgs,

    /// Tasks to trace; with `-i`, the processes to show.
    #[command(flatten)]
    pub traced: TracedArgs,

    /// With -i: only these threads
    #[arg(short, long, value_name = "TID,…", value_parser = parse_tasks, requires = "input", help_heading = "Target")]
    pub tid: Vec<TaskList>,

    /// CPUs and times to show.
    #[command(flatten, next_help_heading = "Target")]
    pub range: RangeArgs,

    /// Destination of the table.
    #[command(flatten)]
    pub result: ResultFileArgs,

    /// Ring buffer.
    #[command(flatten)]
    pub ring: RingArgs,

    /// Print one versioned JSON document; with --timehist one object per line
    #[arg(long, conflicts_with = "hist", help_heading = "Output")]
    pub json: bool,
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
