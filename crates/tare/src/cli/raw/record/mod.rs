//! Arguments of `tare record`.

use std::ffi::OsString;

mod off_cpu;
mod output;
mod sampling;
mod target;

pub use off_cpu::OffCpuArgs;
pub use output::{FLUSH_INTERVAL_MS, OutputArgs};
pub use sampling::SamplingArgs;
pub use target::TargetArgs;

use super::definition::{options, with_default};
use super::events::DEFAULT_EVENT;
use super::{EventArgs, StepArgs};

const EXAMPLES: &str = "\
Examples:
  tare record ./prog                           profile a program: 999 Hz, with call chains
  tare record -F 4000 --call-graph dwarf ./prog
                                               a program built without frame pointers
  tare record -a -- sleep 10                   the whole machine for ten seconds
  tare record -p 4711 --timeout 5000           a running process for five seconds
  tare record -e page-faults -c 1 -d ./prog    every page fault, with its address
  tare record -a -e 'sched:*' --filter 'prev_pid != 0' -- sleep 1
                                               tracepoints, without tare's own
  tare record -e uprobe:./prog:main ./prog     calls of a function
  tare record --off-cpu ./prog                 waits and their reasons too: event offcpu-time, in nanoseconds
  tare record -a --keep-last 30                a flight recorder: the last 30 seconds, on SIGUSR2 or Ctrl-C
  tare record --keep-binaries make             symbols even of binaries that are deleted or rebuilt
  tare record -o - ./prog | perf report -i -   into a pipe";

options! {
    /// Arguments of `tare record`.
    #[derive(Debug, clap::Args)]
    #[command(after_help = EXAMPLES, mut_arg("events", |arg| with_default(arg, DEFAULT_EVENT)))]
    pub struct RecordArgs {
        /// Events to record.
        #[command(flatten)]
        pub events: EventArgs,

        /// Off-CPU time.
        #[command(flatten)]
        pub off_cpu: OffCpuArgs,

        /// Rate and contents of samples.
        #[command(flatten)]
        pub sampling: SamplingArgs,

        /// Target and schedule.
        #[command(flatten)]
        pub target: TargetArgs,

        /// Output.
        #[command(flatten)]
        pub output: OutputArgs,

        /// Messages about each step.
        #[command(flatten, next_help_heading = "Output")]
        pub steps: StepArgs,

        /// Print errors only
        #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
        pub quiet: bool,

        /// Print every perf_event_attr that would be opened, and record nothing
        #[arg(long, help_heading = "Output")]
        pub dry_run: bool,

        /// Command to record, and its arguments
        #[arg(trailing_var_arg = true, value_name = "COMMAND", help_heading = None::<&'static str>)]
        pub command: Vec<OsString>,
    }
}
