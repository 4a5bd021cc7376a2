use super::definition::{options, with_default};
use super::{
    ChainLengthArgs, ColumnArgs, EventSwitchArgs, FilePartArgs, InlineArgs, InterfaceArgs,
    JsonArgs, NameFilterArgs, OwnSampleArgs, RecordingArgs, ReportLayout, RowArgs, SeparatedArgs,
    StoreArgs, SymbolSearch, TaskFilterArgs,
};

const EXAMPLES: &str = "\
Examples:
  tare report                            on a terminal: interactive; ? lists the keys
  tare report new.data                   another recording than perf.data
  tare report --stdio                    perf.data or tare.data as text, by command, file and function
  tare report --sort comm,cpu            by other keys
  tare report --no-children -g callee    each function's own cost, and its callers
  tare report --dsos libc.so.6 --percent-limit 1
  tare report --stats                    number of records of each kind
  tare record -o - ./prog | tare report -i -";

options! {
    /// Arguments of `tare report`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(
        after_help = format!("{EXAMPLES}\n\n{}", tare_render::column_help()),
        mut_arg("store", |arg| arg.conflicts_with_all([
            "file", "input", "tui", "pid", "tid", "cpu", "time", "header", "header_only", "show_info",
            "dump_raw_trace", "stats", "tasks_list", "mmaps", "branch_stack", "total_cycles", "mem_mode",
            "latency", "threads", "weight",
        ])),
        mut_arg("sort", |arg| with_default(arg, "comm,dso,sym")),
        mut_arg("fields", |arg| arg.short('F')),
        mut_arg("comms", |arg| arg.short('c')),
        mut_arg("dsos", |arg| arg.short('d')),
        mut_arg("symbols", |arg| arg.short('S')),
        mut_arg("field_separator", |arg| arg.conflicts_with("json")),
        mut_arg("column_widths", |arg| arg.conflicts_with("json")),
        mut_arg("quiet", |arg| arg.conflicts_with_all(["json", "tui"])),
    )]
    pub struct ReportArgs {
        /// The recording.
        #[command(flatten)]
        pub recording: RecordingArgs,

        /// A store in place of a recording.
        #[command(flatten)]
        pub stored: StoreArgs,

        /// Sort keys and columns.
        #[command(flatten)]
        pub keys: KeyArgs,

        /// Figures and rows.
        #[command(flatten)]
        pub rows: RowArgs,

        /// Call graphs.
        #[command(flatten)]
        pub calls: CallGraphArgs,

        /// The shown samples.
        #[command(flatten)]
        pub filters: ReportFilterArgs,

        /// Layout of the text.
        #[command(flatten)]
        pub layout: ReportLayout,

        /// What is printed, and in which form.
        #[command(flatten)]
        pub output: ReportOutputArgs,

        /// Sources of symbols.
        #[command(flatten)]
        pub symbol_search: SymbolSearch,
    }
}

options! {
    /// Kinds of rows, sort keys, columns and weights of `tare report`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Rows")]
    pub struct KeyArgs {
        /// Sort keys and columns.
        #[command(flatten)]
        pub columns: ColumnArgs,

        /// Show a row per branch instead of samples (default if branches were recorded)
        #[arg(short = 'b', long, conflicts_with = "mem_mode", overrides_with = "no_branch_stack")]
        pub branch_stack: bool,

        /// Show samples even if branches were recorded
        #[arg(long, overrides_with = "branch_stack")]
        pub no_branch_stack: bool,

        /// Show basic blocks between branches, by their cycles, instead of samples
        #[arg(long, conflicts_with_all = ["mem_mode", "json", "tui"])]
        pub total_cycles: bool,

        /// Show tracepoint fields one by one instead of in the tracepoint's format
        #[arg(long)]
        pub raw_trace: bool,

        /// Weigh samples by the cost of their memory accesses
        #[arg(long)]
        pub mem_mode: bool,

        /// Slice length of the key `time`
        #[arg(long, value_name = "TIME", default_value = "100ms")]
        pub time_quantum: String,

        /// Sort by the share of the time that passed instead of the CPU time (record --latency)
        #[arg(long, conflicts_with = "tui")]
        pub latency: bool,

        /// Add columns with the shares of kernel and user space
        #[arg(long, alias = "showcpuutilization")]
        pub show_cpu_utilization: bool,

        /// Weight of a sample: its period, or the exact count of its command's tasks (recordings
        /// with inherited events)
        #[arg(long, value_name = "WEIGHT", value_enum, default_value_t = SampleWeight::Sampled, hide_default_value = true, conflicts_with = "time")]
        pub weight: SampleWeight,
    }
}

options! {
    /// Call graphs of `tare report`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Call graphs")]
    pub struct CallGraphArgs {
        /// Call graphs: graph, fractal, flat, folded or none; from the caller or the callee; with
        /// percent, period or count; and the percentage below which branches are hidden
        #[arg(short = 'g', long, value_name = "STYLE,ORDER,PERCENT", num_args = 0..=1, default_missing_value = "graph")]
        pub call_graph: Option<String>,

        /// No call graphs, and no rows for functions that only call others
        #[arg(long, conflicts_with = "call_graph")]
        pub no_call_graph: bool,

        /// Show call graphs from the caller, like -g caller
        #[arg(short = 'G', long)]
        pub inverted: bool,

        /// Inlined functions.
        #[command(flatten)]
        pub inline: InlineArgs,

        /// Length of call chains.
        #[command(flatten)]
        pub length: ChainLengthArgs,

        /// Functions that count as parents for the key `parent` [default: ^sys_|^do_page_fault]
        #[arg(short = 'p', long, value_name = "REGEX")]
        pub parent: Option<String>,

        /// Charge callees of the matching functions to these functions
        #[arg(long, value_name = "REGEX")]
        pub ignore_callees: Option<String>,
    }
}

options! {
    /// Filters of `tare report`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Filters")]
    pub struct ReportFilterArgs {
        /// Only samples with a parent in their call chain
        #[arg(short = 'x', long)]
        pub exclude_other: bool,

        /// Only samples taken while one of these numbers of recorded threads ran: 1, or 2,8-16
        /// (record --latency)
        #[arg(long, value_name = "LIST", conflicts_with = "tui")]
        pub parallelism: Option<String>,

        /// Only samples of this socket
        #[arg(long, value_name = "N")]
        pub socket_filter: Option<u64>,

        /// Events that switch samples on and off.
        #[command(flatten)]
        pub switch: EventSwitchArgs,

        /// Commands, binaries and functions.
        #[command(flatten)]
        pub names: NameFilterArgs,

        /// Only functions whose name contains TEXT
        #[arg(long, value_name = "TEXT")]
        pub symbol_filter: Option<String>,

        /// Only samples with a symbol
        #[arg(short = 'U', long)]
        pub hide_unresolved: bool,

        /// Processes, threads, CPUs and times.
        #[command(flatten)]
        pub tasks: TaskFilterArgs,

        /// The recorder's own samples.
        #[command(flatten)]
        pub own: OwnSampleArgs,
    }
}

options! {
    /// Output of `tare report`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(
        next_help_heading = "Output",
        group = clap::ArgGroup::new("part")
            .args(["header_only", "stats", "tasks_list", "mmaps", "dump_raw_trace"])
            .conflicts_with("json"),
    )]
    pub struct ReportOutputArgs {
        /// Text or the whole terminal.
        #[command(flatten)]
        pub interface: InterfaceArgs,

        /// Text for other programs.
        #[command(flatten)]
        pub text: SeparatedArgs,

        /// Print text through $PAGER, or less
        #[arg(long, conflicts_with_all = ["tui", "json"])]
        pub pager: bool,

        /// Panics once the screen is shown, to test that the terminal is restored
        #[arg(long, hide = true)]
        pub tui_panic: bool,

        /// Print the counts of each thread (recorded with `record -s`)
        #[arg(short = 'T', long)]
        pub threads: bool,

        /// Parts of the file itself.
        #[command(flatten)]
        pub file: FilePartArgs,

        /// Print the number of records of each kind
        #[arg(long)]
        pub stats: bool,

        /// Print the recorded tasks as a tree
        #[arg(long = "tasks")]
        pub tasks_list: bool,

        /// Print the recorded tasks as a tree, with their mappings
        #[arg(long)]
        pub mmaps: bool,

        /// JSON.
        #[command(flatten)]
        pub json: JsonArgs,
    }
}

/// The weight of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SampleWeight {
    /// The sample's period
    Sampled,
    /// The exact count of the command's tasks, spread over its samples
    Exact,
}
