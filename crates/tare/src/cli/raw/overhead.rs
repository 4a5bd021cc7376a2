use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `tare overhead`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --with: the study. On one CPU, for each rate: what a sample costs (perf's handler, the interrupt around
it, the time that a program does without), and what three loops lose, with 95% intervals; a line through the
rates, and the highest rates within 0.5, 1, 2 and 5%. As root it also has the kernel's trace events.
The result is kept in the user's state directory, and is what later commands predict with.

Words that a profiler's command may hold: {rate} {event} {tid} {cpu} {control} (as perf's --control takes it).

Examples:
  tare overhead                                              both tables, the lines, the recommended rate
  tare overhead -e cycles --call-graph none,fp,dwarf         what call graphs add
  tare overhead --rates 0,99,999 --report cost.html          a page with plots and all raw data
  tare overhead --profiler perf --rates 0,4000               perf record beside the event alone
  tare overhead --show                                       what was measured on this host before
  tare overhead --with 'perf record -F 999 -g -o /dev/null --' -- ./program    what a profiler costs a program")]
pub struct OverheadArgs {
    /// The command that --with runs bare and under profilers
    #[arg(last = true, value_name = "COMMAND", requires = "with")]
    pub command: Vec<OsString>,

    /// The event that samples [default: cycles, or cpu-clock where there are no hardware counters]
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    pub events: Vec<String>,

    /// Samples a second [default: 0,100,500,2000,4000,100000]
    #[arg(long, value_name = "HZ,...", value_delimiter = ',')]
    pub rates: Vec<u64>,

    /// What samples hold: none, fp or dwarf [default: none]
    #[arg(long, value_name = "HOW,...", value_delimiter = ',')]
    pub call_graph: Vec<String>,

    /// Measure a profiler too: perf, tare, or a command that attaches to {tid} and heeds {control}
    #[arg(long, value_name = "COMMAND")]
    pub profiler: Vec<OsString>,

    /// The CPU that the loops run on [default: the last one that is allowed]
    #[arg(short = 'C', long, value_name = "CPU")]
    pub cpu: Option<u32>,

    /// Pairs of slices for each rate and loop: more make intervals narrower [default: 200]
    #[arg(long, value_name = "N")]
    pub pairs: Option<usize>,

    /// Loops to watch: counting, memory, branchy [default: all]
    #[arg(long, value_name = "LOOP,...", value_delimiter = ',')]
    pub loops: Vec<String>,

    /// Print one versioned JSON document, with the raw data
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,

    /// Print a line for each figure
    #[arg(long)]
    pub csv: bool,

    /// Write a page with plots, method and raw data
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Show the figures published for a Xeon E5530 in 2014 beside these
    #[arg(long)]
    pub overlay: bool,

    /// Show what was measured on this host before
    #[arg(long, conflicts_with_all = ["rates", "profiler", "cpu", "pairs", "loops", "no_save", "with"])]
    pub show: bool,

    /// Don't keep the result
    #[arg(long)]
    pub no_save: bool,

    /// Draw the orders from this seed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// What a profiler costs COMMAND: --with 'PROFILER OPTIONS --'
    #[command(flatten)]
    pub with: ProfilerArgs,
}

/// Arguments of `tare overhead --with`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A program under profilers")]
pub struct ProfilerArgs {
    /// Run the command under this profiler too: the command's words are put behind these
    #[arg(
        long,
        value_name = "PROFILER",
        requires = "command",
        conflicts_with_all = ["events", "rates", "call_graph", "profiler", "cpu", "pairs", "loops", "report", "overlay", "no_save"]
    )]
    pub with: Vec<OsString>,

    /// Rounds before the first that counts [default: 1]
    #[arg(long, value_name = "N", requires = "with")]
    pub warmup: Option<usize>,

    /// Make at least so many rounds [default: 10]
    #[arg(long, value_name = "N", requires = "with")]
    pub min_runs: Option<usize>,

    /// Make at most so many rounds [default: 1000]
    #[arg(long, value_name = "N", requires = "with")]
    pub max_runs: Option<usize>,

    /// Start no round after so many seconds, once --min-runs are made [default: 60]
    #[arg(long, value_name = "SECONDS", requires = "with")]
    pub max_time: Option<f64>,

    /// The smallest difference that matters, in percent [default: 1%]
    #[arg(long, value_name = "PERCENT", requires = "with")]
    pub min_effect: Option<String>,

    /// Use runs that end with another status than 0 too
    #[arg(long, requires = "with")]
    pub ignore_failure: bool,
}
