use std::path::PathBuf;

use super::SymbolSearch;
use super::diff::Percentage;
use super::report_layout::ReportLayout;
use super::samples::TaskArgs;

const EXAMPLES: &str = "\
Examples:
  tare report                            on a terminal: interactive, with ? for the keys
  tare report --stdio                    what perf.data or tare.data holds, by command, file and function
  tare report --sort comm,cpu            by other keys
  tare report --no-children -g callee    what each function cost itself, and who called it
  tare report --dsos libc.so.6 --percent-limit 1
  tare report --stats                    how many records of each kind
  tare record -o - ./prog | tare report -i -";

/// Arguments of `tare report`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", tare_render::column_help()))]
pub struct ReportArgs {
    /// The recording (-: standard input)
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// As text (the default where stdout is no terminal)
    #[arg(long, overrides_with = "tui", help_heading = "Output")]
    pub stdio: bool,

    /// On the terminal: keys are explained by `?` (the default where stdout is one)
    #[arg(long, overrides_with = "stdio", help_heading = "Output")]
    pub tui: bool,

    /// As text through $PAGER, else less
    #[arg(long, conflicts_with_all = ["tui", "json"], help_heading = "Output")]
    pub pager: bool,

    /// Panics once something is shown: a test of what that leaves of the terminal
    #[arg(long, hide = true)]
    pub tui_panic: bool,

    /// Group samples by these sort keys, such as comm,dso,sym; +KEY,… adds to the default keys
    #[arg(
        short,
        long = "sort",
        value_name = "KEY,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        help_heading = "Rows"
    )]
    pub sort: Vec<String>,

    /// Show these columns: figures and sort keys, listed below; +COLUMN,… adds to the default columns
    #[arg(
        short = 'F',
        long,
        value_name = "COLUMN,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        help_heading = "Rows"
    )]
    pub fields: Vec<String>,

    /// A column with the number of samples
    #[arg(short = 'n', long, help_heading = "Rows")]
    pub show_nr_samples: bool,

    /// A column with the sum of periods
    #[arg(long, help_heading = "Rows")]
    pub show_total_period: bool,

    /// Also rows for what only calls others (the default where call chains were recorded)
    #[arg(long, overrides_with = "no_children", help_heading = "Rows")]
    pub children: bool,

    /// Only rows for what was sampled itself
    #[arg(long, help_heading = "Rows")]
    pub no_children: bool,

    /// Call graphs: graph, fractal, flat, folded or none, from the caller or the callee on, with
    /// percent, period or count, and the percentage below which branches are not shown
    #[arg(short = 'g', long, value_name = "STYLE,ORDER,PERCENT", num_args = 0..=1, default_missing_value = "graph", help_heading = "Rows")]
    pub call_graph: Option<String>,

    /// No call graphs, and no rows for what only calls others
    #[arg(long, conflicts_with = "call_graph", help_heading = "Rows")]
    pub no_call_graph: bool,

    /// Inlined functions as functions of their own in call chains, as debug info has them
    #[arg(long, overrides_with = "no_inline", help_heading = "Rows")]
    pub inline: bool,

    /// No look for inlined functions (the default)
    #[arg(long, help_heading = "Rows")]
    pub no_inline: bool,

    /// Call graphs from the callers on, as -g caller
    #[arg(short = 'G', long, help_heading = "Rows")]
    pub inverted: bool,

    /// At most so many addresses of a call chain
    #[arg(long, value_name = "N", help_heading = "Rows")]
    pub max_stack: Option<usize>,

    /// Functions that this pattern fits are what a call chain's samples are counted for (the key
    /// parent) [default: ^sys_|^do_page_fault]
    #[arg(short = 'p', long, value_name = "REGEX", help_heading = "Rows")]
    pub parent: Option<String>,

    /// Only what has such a function in its call chain
    #[arg(short = 'x', long, help_heading = "Which")]
    pub exclude_other: bool,

    /// What functions that this pattern fits call is counted for them
    #[arg(long, value_name = "REGEX", help_heading = "Rows")]
    pub ignore_callees: Option<String>,

    /// A row for each branch, instead of samples (the default where branches were recorded)
    #[arg(
        short = 'b',
        long,
        help_heading = "Rows",
        conflicts_with = "mem_mode",
        overrides_with = "no_branch_stack"
    )]
    pub branch_stack: bool,

    /// Samples, also where branches were recorded
    #[arg(long, help_heading = "Rows", overrides_with = "branch_stack")]
    pub no_branch_stack: bool,

    /// Blocks of code between branches, by the cycles that they took, instead of samples
    #[arg(long, help_heading = "Rows", conflicts_with_all = ["mem_mode", "json", "tui"])]
    pub total_cycles: bool,

    /// Fields of tracepoints one by one, instead of in the tracepoint's own words
    #[arg(long, help_heading = "Rows")]
    pub raw_trace: bool,

    /// Samples weigh what their memory accesses cost
    #[arg(long, help_heading = "Rows")]
    pub mem_mode: bool,

    /// The slices of the key time: such as 10ms
    #[arg(long, value_name = "TIME", default_value = "100ms", help_heading = "Rows")]
    pub time_quantum: String,

    /// Columns with the shares in the kernel and in programs
    #[arg(long, alias = "showcpuutilization", help_heading = "Rows")]
    pub show_cpu_utilization: bool,

    /// Shares of all samples, or of those that the filters let pass
    #[arg(
        long,
        value_name = "OF",
        default_value = "absolute",
        hide_default_value = true,
        help_heading = "Rows"
    )]
    pub percentage: Percentage,

    /// Only samples of this socket
    #[arg(long, value_name = "N", help_heading = "Which")]
    pub socket_filter: Option<u64>,

    /// Samples from a sample of this event on
    #[arg(long, value_name = "EVENT", help_heading = "Which")]
    pub switch_on: Option<String>,

    /// Samples up to a sample of this event
    #[arg(long, value_name = "EVENT", help_heading = "Which")]
    pub switch_off: Option<String>,

    /// Also the samples that switch on and off
    #[arg(long, help_heading = "Which")]
    pub show_on_off_events: bool,

    /// How text is laid out.
    #[command(flatten)]
    pub layout: ReportLayout,

    /// Hide rows below so many percent
    #[arg(long, value_name = "PERCENT", help_heading = "Which")]
    pub percent_limit: Option<f64>,

    /// Only these commands
    #[arg(
        short,
        long,
        alias = "comm",
        value_name = "NAME,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        help_heading = "Which"
    )]
    pub comms: Vec<String>,

    /// Only these files
    #[arg(
        short,
        long,
        alias = "dso",
        value_name = "NAME,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        help_heading = "Which"
    )]
    pub dsos: Vec<String>,

    /// Only these functions
    #[arg(
        short = 'S',
        long,
        alias = "symbol",
        value_name = "NAME,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        help_heading = "Which"
    )]
    pub symbols: Vec<String>,

    /// Only functions with this in their names
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    pub symbol_filter: Option<String>,

    /// Only what has a symbol
    #[arg(short = 'U', long, help_heading = "Which")]
    pub hide_unresolved: bool,

    /// Whose samples.
    #[command(flatten)]
    pub tasks: TaskArgs,

    /// Only samples of these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST", help_heading = "Which")]
    pub cpu: Option<String>,

    /// Only samples from one time to another: seconds as in `tare script`, either may be left out
    /// ('1,2 3,' are two ranges); or parts of the recording: 10%-20%, 10%/2 which is the second
    /// tenth, several with commas between them
    #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N", help_heading = "Which")]
    pub time: Option<String>,

    /// What samples weigh: what they stand for, or what their commands' tasks counted exactly
    /// (recordings with inherited events)
    #[arg(
        long,
        value_name = "HOW",
        default_value = "sampled",
        hide_default_value = true,
        conflicts_with = "time",
        help_heading = "Rows"
    )]
    pub weight: Weight,

    /// Keep samples of the recorder itself
    #[arg(long, help_heading = "Which")]
    pub include_self: bool,

    /// What each thread counted, where `record -s` was used
    #[arg(short = 'T', long, help_heading = "Output")]
    pub threads: bool,

    /// What the recording says of its machine and its events, then the report
    #[arg(long, group = "part", help_heading = "Output")]
    pub header: bool,

    /// Topology, caches and build ids with it
    #[arg(short = 'I', long, help_heading = "Output")]
    pub show_info: bool,

    /// Only the rows: nothing about the recording and what it lacks
    #[arg(short, long, conflicts_with_all = ["json", "tui"], help_heading = "Output")]
    pub quiet: bool,

    /// Only what the recording says of its machine and its events
    #[arg(long, group = "part", help_heading = "Output")]
    pub header_only: bool,

    /// How many records of each kind there are
    #[arg(long, group = "part", help_heading = "Output")]
    pub stats: bool,

    /// The tasks that were seen, with what they descend from
    #[arg(long = "tasks", group = "part", help_heading = "Output")]
    pub tasks_list: bool,

    /// The same, with what each process had mapped
    #[arg(long, group = "part", help_heading = "Output")]
    pub mmaps: bool,

    /// Each record, byte by byte and decoded
    #[arg(short = 'D', long, group = "part", help_heading = "Output")]
    pub dump_raw_trace: bool,

    /// One versioned JSON document
    #[arg(long, conflicts_with = "part", help_heading = "Output")]
    pub json: bool,

    /// Where names of functions come from
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// What samples weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// The occurrences that they stand for
    Sampled,
    /// So much that all of a command name weigh what its tasks counted
    Exact,
}
