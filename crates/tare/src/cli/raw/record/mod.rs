//! Arguments of `tare record`, in perf's spelling where perf has the option.

use std::ffi::OsString;

mod off_cpu;
mod output;
mod sampling;
mod target;

pub use off_cpu::OffCpuArgs;
pub use output::OutputArgs;
pub use sampling::SamplingArgs;
pub use target::TargetArgs;

const EXAMPLES: &str = "\
Examples:
  tare record ./prog                           what the program spends its time in: 999 Hz, with call chains
  tare record -F 4000 --call-graph dwarf ./prog
                                               for programs built without frame pointers
  tare record -a -- sleep 10                   the whole machine for ten seconds
  tare record -p 4711 --timeout 5000           a running process, for five seconds
  tare record -e page-faults -c 1 -d ./prog    every page fault, with its address
  tare record -a -e 'sched:*' --filter 'prev_pid != 0' -- sleep 1
                                               tracepoints, without tare's own
  tare record -e uprobe:./prog:main ./prog     calls of a function
  tare record --off-cpu ./prog                 where it waits and for what, too: event offcpu-time, in nanoseconds
  tare record -a --keep-last 30                a flight recorder: the last 30 seconds, on SIGUSR2 or Ctrl-C
  tare record --keep-binaries make             names also of what is deleted or built again meanwhile
  tare record -o - ./prog | perf report -i -   into a pipe";

/// Arguments of `tare record`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    /// Events to record: names, groups in braces, comma lists; see `tare list` [default: cycles:P,
    /// or cpu-clock without a PMU]
    #[arg(short, long = "event", value_name = "EVENTS", help_heading = "What to record")]
    pub events: Vec<String>,

    /// Record only occurrences of the preceding tracepoint whose fields fit
    #[arg(
        long = "filter",
        value_name = "EXPR",
        allow_hyphen_values = true,
        help_heading = "What to record"
    )]
    pub filters: Vec<String>,

    /// For each --filter the number of -e before it, as typed.
    #[arg(skip)]
    pub filter_positions: Vec<usize>,

    /// How events are sampled.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// The time off the CPUs.
    #[command(flatten)]
    pub off_cpu: OffCpuArgs,

    /// What is recorded.
    #[command(flatten)]
    pub target: TargetArgs,

    /// Where the recording goes.
    #[command(flatten)]
    pub output: OutputArgs,

    /// Say what is done; -vv shows every perf_event_attr
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,

    /// Show what would be opened, every perf_event_attr, and record nothing
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,

    /// The command to record, and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
