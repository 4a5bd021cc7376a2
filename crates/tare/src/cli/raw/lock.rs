use super::{EntryArgs, InputArgs, JsonArgs, ResultFileArgs, TracedArgs};

const EXAMPLES: &str = "\
Examples:
  tare lock -- ./server --test           callers that waited for locks and futexes, and for how long
  tare lock -a --timeout 1000 --kernel   kernel locks of the whole machine for a second
  tare lock -p 4711 --futexes --stacks   futexes of a process, with call chains
  tare lock -k max -E 10 -- make -j8     the ten callers with the longest single wait
  tare lock -i perf.data --stacks        kernel locks in a recording
  tare lock --json -- ./prog | jq '.locks[0].caller'

tare-lock(1) describes the counted waits.";

/// Arguments of `tare lock`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("input", |arg| arg.conflicts_with_all(["all_cpus", "pid", "command", "timeout", "futexes"])),
    mut_arg("json", |arg| arg.conflicts_with("stacks")),
)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct LockArgs {
    /// Only kernel locks
    #[arg(long, conflicts_with = "futexes", help_heading = "Report")]
    pub kernel: bool,

    /// Only futexes
    #[arg(long, help_heading = "Report")]
    pub futexes: bool,

    /// Show below each caller its call chain with the longest total wait
    #[arg(long, help_heading = "Report")]
    pub stacks: bool,

    /// Sort key of callers, in descending order
    #[arg(short, long, value_name = "KEY", default_value = "wait_total", help_heading = "Report")]
    pub key: LockSort,

    /// Number of callers.
    #[command(flatten, next_help_heading = "Report")]
    pub rows: EntryArgs,

    /// A recording to read instead of tracing.
    #[command(flatten, next_help_heading = "Target")]
    pub input: InputArgs,

    /// Tasks to trace, and the end of tracing.
    #[command(flatten)]
    pub traced: TracedArgs,

    /// Destination of the table.
    #[command(flatten)]
    pub result: ResultFileArgs,

    /// JSON.
    #[command(flatten, next_help_heading = "Output")]
    pub json: JsonArgs,
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
