use std::path::PathBuf;

use super::SymbolSearch;
use super::samples::TaskArgs;

const EXAMPLES: &str = "\
Examples:
  tare diff old.data new.data                 two recordings: what differs between them
  tare diff old*.data -- new*.data            several a side: what differs beyond chance
  tare diff --fail-if 'malloc>+1%' old*.data -- new*.data
  tare diff --per instructions --json a*.data -- b*.data
  tare diff --flame diff.html a*.data -- b*.data

With --fail-if it ends with 3 where a condition fails. docs/diff.md says what the columns mean.";

/// Arguments of `tare diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "tare diff [OPTIONS] [A] [B]\n       tare diff [OPTIONS] A… -- B…")]
pub struct DiffArgs {
    /// The recordings: one of A and one of B [default: perf.data.old perf.data], or all of A before
    /// `--`
    #[arg(value_name = "A")]
    pub files: Vec<PathBuf>,

    /// All of B
    #[arg(value_name = "B", last = true)]
    pub after: Vec<PathBuf>,

    /// What weights are told by: run, time (a second of recording), or an event that counts work
    #[arg(long, value_name = "UNIT", default_value = "run", help_heading = "What")]
    pub per: String,

    /// What rows are told apart by: comm, dso, symbol
    #[arg(short, long, value_name = "KEY,…", default_value = "symbol", help_heading = "What")]
    pub sort: String,

    /// Compare whole call chains
    #[arg(long, conflicts_with = "children", help_heading = "What")]
    pub stacks: bool,

    /// A function weighs what it called, too
    #[arg(long, help_heading = "What")]
    pub children: bool,

    /// Fail (exit status 3) where a function, or any (*), takes more or less: 'malloc>+1%' of its
    /// weight, 'malloc>+0.5pp' of all samples (repeatable)
    #[arg(long, value_name = "CONDITION", action = clap::ArgAction::Append, help_heading = "What")]
    pub fail_if: Vec<String>,

    /// Seed of the permutations
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What")]
    pub seed: u64,

    /// What rows are ordered by: delta-abs, delta, ratio, wdiff:WEIGHT_A,WEIGHT_B
    #[arg(short, long, value_name = "HOW", default_value = "delta-abs", help_heading = "Rows")]
    pub compute: String,

    /// 0: rows by the share of A, 1: as -c has it
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1), help_heading = "Rows")]
    pub order: u8,

    /// Only what A has
    #[arg(short, long, help_heading = "Rows")]
    pub baseline_only: bool,

    /// Hide rows without a change below so many percent on both sides
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, help_heading = "Rows")]
    pub percent_limit: f64,

    /// Shares of what filters leave (relative), or of all
    #[arg(long, value_name = "OF", default_value = "absolute", help_heading = "Rows")]
    pub percentage: Percentage,

    /// Also the weight of B
    #[arg(short, long, help_heading = "Rows")]
    pub period: bool,

    /// Also p and numbers of samples
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Rows")]
    pub verbose: u8,

    /// Stands between columns, which are then not aligned
    #[arg(short = 't', long, value_name = "TEXT", help_heading = "Output")]
    pub field_separator: Option<String>,

    /// Only the rows
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// One versioned JSON document
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Also draw a differential flame graph: a page, or a picture where it ends in .svg
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub flame: Option<PathBuf>,

    /// On the terminal's whole screen, or refuse
    #[arg(long, conflicts_with_all = ["json", "stdio"], help_heading = "Output")]
    pub tui: bool,

    /// As text, also on a terminal
    #[arg(long, help_heading = "Output")]
    pub stdio: bool,

    /// Only these events, such as cpu-clock,page-faults
    #[arg(short, long = "event", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub events: Vec<String>,

    /// Only these commands (names of threads)
    #[arg(short = 'C', long, alias = "comm", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub comms: Vec<String>,

    /// Only these files
    #[arg(short, long, alias = "dso", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub dsos: Vec<String>,

    /// Only these functions
    #[arg(short = 'S', long, alias = "symbol", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub symbols: Vec<String>,

    /// Whose samples.
    #[command(flatten)]
    pub tasks: TaskArgs,

    /// Only these CPUs, such as 0,2-3
    #[arg(long, value_name = "LIST", help_heading = "Which")]
    pub cpu: Option<String>,

    /// Only samples from one time to another: seconds as in `tare script`, either may be left out
    /// ('1,2 3,' are two ranges); or parts of the recording: 10%-20%, 10%/2 which is the second
    /// tenth, several with commas between them
    #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N", help_heading = "Which")]
    pub time: Option<String>,

    /// Keep samples of the recorder itself
    #[arg(long, help_heading = "Which")]
    pub include_self: bool,

    /// Nothing: recordings of other users are read anyway
    #[arg(short, long, hide = true)]
    pub force: bool,

    /// Nothing: symbols of kernel modules are looked up anyway
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

    /// Refused: of -c cycles.
    #[arg(long, hide = true)]
    pub cycles_hist: bool,

    /// Where names of functions come from
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// What shares are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Percentage {
    /// Of what passes the filters
    Relative,
    /// Of all samples
    Absolute,
}
