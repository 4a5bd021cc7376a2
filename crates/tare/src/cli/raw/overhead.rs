use std::ffi::OsString;
use std::path::PathBuf;

use super::{JsonArgs, RoundArgs};

/// Arguments of `tare overhead`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --with, tare studies the cost of sampling on one CPU. For each rate it measures the cost of
a sample (perf's handler, the interrupt around it, the time lost to the program) and the slowdown of
three loops, with 95% intervals. It fits a line through the rates and finds the highest rates within
0.5, 1, 2 and 5%. As root it also uses the kernel's trace events. It keeps the result in the user's
state directory; later commands predict with it.

Placeholders in a profiler's command: {rate} {event} {tid} {cpu} {control} (the argument of perf's
--control).

Examples:
  tare overhead                                              the study
  tare overhead -e cycles --call-graph none,fp,auto          cost of call chains
  tare overhead --rates 0,99,999 --report cost.html          an HTML page with plots and raw data
  tare overhead --profiler perf --rates 0,4000               perf record beside the bare event
  tare overhead --show                                       earlier results of this host
  tare overhead --with 'perf record -g -o /dev/null --' -- ./program    a profiler on a program")]
pub struct OverheadArgs {
    /// Command that --with runs alone and under profilers
    #[arg(last = true, value_name = "COMMAND", requires = "with")]
    pub command: Vec<OsString>,

    /// Sampled event [default: cycles, or cpu-clock without hardware counters]
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    pub events: Vec<String>,

    /// Sampling frequencies in Hz [default: 0,100,500,2000,4000,100000]
    #[arg(long, value_name = "HZ,...", value_delimiter = ',')]
    pub rates: Vec<u64>,

    /// Call chains in samples: none, fp, dwarf or auto [default: none]
    #[arg(long, value_name = "HOW,...", value_delimiter = ',')]
    pub call_graph: Vec<String>,

    /// Measure a profiler too: perf, tare, or a command that attaches to {tid} and obeys {control}
    #[arg(long, value_name = "COMMAND")]
    pub profiler: Vec<OsString>,

    /// CPU to run the loops on [default: the last allowed one]
    #[arg(short = 'C', long, value_name = "CPU")]
    pub cpu: Option<u32>,

    /// Pairs of time slices for each rate and loop; more narrow the intervals
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub pairs: usize,

    /// Loops to run: counting, memory, branchy [default: all]
    #[arg(long, value_name = "LOOP,...", value_delimiter = ',')]
    pub loops: Vec<String>,

    /// JSON, with the raw data.
    #[command(flatten)]
    pub json: JsonArgs,

    /// Print one CSV line per figure
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,

    /// Write an HTML page with plots, method and raw data
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Add the figures published for a Xeon E5530 in 2014
    #[arg(long)]
    pub overlay: bool,

    /// Show earlier results of this host
    #[arg(long, conflicts_with_all = ["rates", "profiler", "cpu", "pairs", "loops", "no_save", "with"])]
    pub show: bool,

    /// Don't save the result
    #[arg(long)]
    pub no_save: bool,

    /// Overhead of profilers on a command.
    #[command(flatten)]
    pub with: ProfilerArgs,
}

/// Arguments of `tare overhead --with`.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Overhead on a program",
    mut_arg("max_runs", |arg| arg.default_value("1000")),
)]
pub struct ProfilerArgs {
    /// Run the command under this profiler too; the command is appended to these words
    #[arg(
        long,
        value_name = "PROFILER",
        group = "compared",
        requires = "command",
        conflicts_with_all = ["events", "rates", "call_graph", "profiler", "cpu", "pairs", "loops", "report", "overlay", "no_save"]
    )]
    pub with: Vec<OsString>,

    /// Number of rounds.
    #[command(flatten)]
    pub rounds: RoundArgs,
}
