use std::path::PathBuf;

use super::{
    EventFilterArgs, ForceArgs, InterfaceArgs, JsonArgs, NameFilterArgs, OwnSampleArgs,
    PercentageArgs, SeparatedArgs, StoreArgs, SymbolSearch, TaskFilterArgs,
};

const EXAMPLES: &str = "\
Examples:
  tare diff old.data new.data                 compare two recordings
  tare diff old*.data -- new*.data            several recordings per side: tell changes from noise
  tare diff --fail-if 'malloc>+1%' old*.data -- new*.data
  tare diff --per instructions --json a*.data -- b*.data
  tare diff --flame diff.html a*.data -- b*.data
  tare diff --store profiles --where service=api,version=1.4 --versus-where version=1.5
  tare diff --store profiles --since 2h --until 1h --versus-since 1h

With --fail-if the exit status is 3 if a condition is met. tare-diff(1) explains the columns.";

/// Arguments of `tare diff`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "tare diff [OPTIONS] [A] [B]\n       tare diff [OPTIONS] A… -- B…",
    mut_arg("comms", |arg| arg.short('C')),
    mut_arg("dsos", |arg| arg.short('d')),
    mut_arg("symbols", |arg| arg.short('S')),
    // In perf diff, -C names commands.
    mut_arg("cpu", |arg| arg.short(None)),
    mut_arg("json", |arg| arg.conflicts_with_all(["tui", "stdio"])),
    mut_arg("store", |arg| arg.conflicts_with_all([
        "files", "after", "pid", "tid", "cpu", "time", "include_self",
    ])),
)]
pub struct DiffArgs {
    /// Recordings: one of A and one of B [default: perf.data.old perf.data]; or all of A before
    /// `--`; or one of A and several of B, which are compared with it one by one
    #[arg(value_name = "A")]
    pub files: Vec<PathBuf>,

    /// Recordings of B
    #[arg(value_name = "B", last = true)]
    pub after: Vec<PathBuf>,

    /// A's samples in a store.
    #[command(flatten)]
    pub stored: StoreArgs,

    /// B's samples in a store.
    #[command(flatten)]
    pub versus: VersusStoreArgs,

    /// Unit of weights: run, time (per second of recording), or an event that counts work [default:
    /// run; with --store: time]
    #[arg(long, value_name = "UNIT", help_heading = "Comparison")]
    pub per: Option<String>,

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

    /// The base of shares.
    #[command(flatten, next_help_heading = "Rows")]
    pub percentage: PercentageArgs,

    /// Add the weight of B
    #[arg(short, long, help_heading = "Rows")]
    pub period: bool,

    /// Add p-values and numbers of samples
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Rows")]
    pub verbose: u8,

    /// Text for other programs.
    #[command(flatten, next_help_heading = "Output")]
    pub text: SeparatedArgs,

    /// JSON.
    #[command(flatten, next_help_heading = "Output")]
    pub json: JsonArgs,

    /// Also draw a differential flame graph: HTML, or SVG if FILE ends in .svg
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub flame: Option<PathBuf>,

    /// Text or the whole terminal.
    #[command(flatten, next_help_heading = "Output")]
    pub interface: InterfaceArgs,

    /// Recorded events.
    #[command(flatten, next_help_heading = "Filters")]
    pub events: EventFilterArgs,

    /// Commands, binaries and functions.
    #[command(flatten)]
    pub names: NameFilterArgs,

    /// Processes, threads, CPUs and times.
    #[command(flatten)]
    pub tasks: TaskFilterArgs,

    /// The recorder's own samples.
    #[command(flatten, next_help_heading = "Filters")]
    pub own: OwnSampleArgs,

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub force: ForceArgs,

    /// No effect: symbols of kernel modules are always looked up
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

/// B's samples, where they differ from A's.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub struct VersusStoreArgs {
    /// B's conditions: each replaces A's on the same label; the others hold for B too
    #[arg(long, value_name = "LABEL=VALUE,…", requires = "store", value_delimiter = ',')]
    pub versus_where: Vec<String>,

    /// B's windows start in the last TIME, or not before a date. Replaces --since and --until
    #[arg(long, value_name = "TIME", requires = "store")]
    pub versus_since: Option<String>,

    /// B's windows start before this time. Replaces --since and --until
    #[arg(long, value_name = "TIME", requires = "store")]
    pub versus_until: Option<String>,

    /// B's store, if it isn't A's
    #[arg(long, value_name = "DIR", requires = "store")]
    pub versus_store: Option<PathBuf>,
}
