use std::path::PathBuf;

use super::SymbolSearch;
use super::samples::TaskArgs;

const EXAMPLES: &str = "\
Examples:
  tare diff old.data new.data                 compare two recordings
  tare diff old*.data -- new*.data            several recordings per side: tell changes from noise
  tare diff --fail-if 'malloc>+1%' old*.data -- new*.data
  tare diff --per instructions --json a*.data -- b*.data
  tare diff --flame diff.html a*.data -- b*.data

With --fail-if the exit status is 3 if a condition is met. docs/diff.md explains the columns.";

/// Arguments of `tare diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "tare diff [OPTIONS] [A] [B]\n       tare diff [OPTIONS] A… -- B…")]
pub struct DiffArgs {
    /// Recordings: one of A and one of B [default: perf.data.old perf.data], or all of A before `--`
    #[arg(value_name = "A")]
    pub files: Vec<PathBuf>,

    /// Recordings of B
    #[arg(value_name = "B", last = true)]
    pub after: Vec<PathBuf>,

    /// Unit of weights: run, time (per second of recording), or an event that counts work
    #[arg(long, value_name = "UNIT", default_value = "run", help_heading = "Comparison")]
    pub per: String,

    /// Sort keys that make up a row: comm, dso, symbol
    #[arg(
        short,
        long,
        value_name = "KEY,…",
        default_value = "symbol",
        help_heading = "Comparison"
    )]
    pub sort: String,

    /// Compare whole call chains
    #[arg(long, conflicts_with = "children", help_heading = "Comparison")]
    pub stacks: bool,

    /// Include callees in a function's weight
    #[arg(long, help_heading = "Comparison")]
    pub children: bool,

    /// Exit with status 3 if a function, or any (*), exceeds a change: 'malloc>+1%' of its weight,
    /// 'malloc>+0.5pp' of all samples (repeatable)
    #[arg(long, value_name = "CONDITION", action = clap::ArgAction::Append, help_heading = "Comparison")]
    pub fail_if: Vec<String>,

    /// Seed of the permutation test
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Comparison")]
    pub seed: u64,

    /// Order of rows: delta-abs, delta, ratio, wdiff:WEIGHT_A,WEIGHT_B
    #[arg(short, long, value_name = "HOW", default_value = "delta-abs", help_heading = "Rows")]
    pub compute: String,

    /// Order rows by the share of A (0), or by -c (1)
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1), help_heading = "Rows")]
    pub order: u8,

    /// Only show rows of A
    #[arg(short, long, help_heading = "Rows")]
    pub baseline_only: bool,

    /// Hide unchanged rows below this percentage on both sides
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, help_heading = "Rows")]
    pub percent_limit: f64,

    /// Base of shares with filters: all samples (absolute), or the samples that pass (relative)
    #[arg(long, value_name = "BASE", value_enum, default_value_t = Percentage::Absolute, hide_possible_values = true, help_heading = "Rows")]
    pub percentage: Percentage,

    /// Add the weight of B
    #[arg(short, long, help_heading = "Rows")]
    pub period: bool,

    /// Add p-values and numbers of samples
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Rows")]
    pub verbose: u8,

    /// Separate columns by TEXT instead of aligning them
    #[arg(short = 't', long, value_name = "TEXT", help_heading = "Output")]
    pub field_separator: Option<String>,

    /// Print rows only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Print one versioned JSON document
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Also draw a differential flame graph: HTML, or SVG if FILE ends in .svg
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub flame: Option<PathBuf>,

    /// Use the whole terminal; an error if stdout isn't one
    #[arg(long, conflicts_with_all = ["json", "stdio"], help_heading = "Output")]
    pub tui: bool,

    /// Print text, even on a terminal
    #[arg(long, help_heading = "Output")]
    pub stdio: bool,

    /// Only these events, such as cpu-clock,page-faults
    #[arg(short, long = "event", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Filters")]
    pub events: Vec<String>,

    /// Only these commands (thread names)
    #[arg(short = 'C', long, alias = "comm", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Filters")]
    pub comms: Vec<String>,

    /// Only these binaries
    #[arg(short, long, alias = "dso", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Filters")]
    pub dsos: Vec<String>,

    /// Only these functions
    #[arg(short = 'S', long, alias = "symbol", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Filters")]
    pub symbols: Vec<String>,

    /// Processes, threads and times.
    #[command(flatten)]
    pub tasks: TaskArgs,

    /// Only these CPUs, such as 0,2-3
    #[arg(long, value_name = "LIST", help_heading = "Filters")]
    pub cpu: Option<String>,

    /// Accepted: recordings of other users are always read
    #[arg(short, long, hide = true)]
    pub force: bool,

    /// Accepted: symbols of kernel modules are always looked up
    #[arg(short, long, hide = true)]
    pub modules: bool,

    /// Refused: tare script shows records.
    #[arg(short = 'D', long, hide = true)]
    pub dump_raw_trace: bool,

    /// Refused: the manual has the formulas.
    #[arg(short = 'F', long, hide = true)]
    pub formula: bool,

    /// Refused: --stacks compares call chains.
    #[arg(long, hide = true)]
    pub stream: bool,

    /// Refused: belongs to -c cycles.
    #[arg(long, hide = true)]
    pub cycles_hist: bool,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// The base of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Percentage {
    /// The samples that pass the filters
    Relative,
    /// All samples
    Absolute,
}
