use super::definition::{options, with_default};
use super::events::DEFAULT_EVENT;
use super::{
    AttachArgs, ColumnArgs, EntryArgs, EventListArgs, InheritArgs, InterfaceArgs, NameFilterArgs,
    RowArgs, SamplerArgs, SymbolSearch, TableArgs, TimeoutArgs,
};

const EXAMPLES: &str = "\
Examples:
  tare top                              the whole machine, over the last ten seconds
  tare top -p 4711 -g                   a process, with call chains
  tare top -e page-faults -c 1 -s comm  page faults by command
  tare top -a --sort comm,dso -d 1      by command and file, refreshed every second
  tare top --window 60 --max-overhead 0.2%
                                        the last minute, at a fifth of the usual cost
  tare top --stdio -E 10 | tee log      text, every two seconds
  tare top --json --timeout 60000       one JSON document per line, every two seconds for a minute";

options! {
    /// Arguments of `tare top`.
    #[derive(Debug, clap::Args)]
    #[command(
        after_help = EXAMPLES,
        mut_arg("events", |arg| with_default(arg, DEFAULT_EVENT)),
        mut_arg("max_overhead", |arg| with_default(arg, "1% for whole CPUs or cgroups sampled by time")),
        mut_arg("entries", |arg| with_default(arg, "as many as fit the terminal, otherwise all")),
        mut_arg("sort", |arg| with_default(arg, "dso,sym")),
    )]
    pub struct TopArgs {
        /// Events to sample.
        #[command(flatten, next_help_heading = "Sampling")]
        pub events: EventListArgs,

        /// Rate, call chains and ring buffers.
        #[command(flatten)]
        pub sampler: SamplerArgs,

        /// Running tasks, CPUs and cgroups.
        #[command(flatten)]
        pub attach: AttachArgs,

        /// The target's children.
        #[command(flatten)]
        pub children: InheritArgs,

        /// Refresh interval, window and timeout.
        #[command(flatten)]
        pub schedule: TopScheduleArgs,

        /// Form of the output.
        #[command(flatten)]
        pub output: TopOutputArgs,

        /// Sort keys and columns.
        #[command(flatten)]
        pub columns: ColumnArgs,

        /// Figures and rows.
        #[command(flatten)]
        pub rows: RowArgs,

        /// The shown samples.
        #[command(flatten)]
        pub filters: TopFilterArgs,

        /// Sources of symbols.
        #[command(flatten)]
        pub symbol_search: SymbolSearch,
    }
}

options! {
    /// Refresh interval, window and timeout of `tare top`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Schedule")]
    pub struct TopScheduleArgs {
        /// Time between refreshes
        #[arg(short, long, value_name = "SECONDS", default_value = "2")]
        pub delay: String,

        /// Show samples of the last SECONDS; older samples are dropped
        #[arg(long, value_name = "SECONDS", default_value = "10")]
        pub window: String,

        /// Show only samples since the last refresh
        #[arg(short, long)]
        pub zero: bool,

        /// End.
        #[command(flatten)]
        pub end: TimeoutArgs,
    }
}

options! {
    /// Form of `tare top`'s output.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Output")]
    pub struct TopOutputArgs {
        /// Text or the whole terminal.
        #[command(flatten)]
        pub interface: InterfaceArgs,

        /// Print one versioned JSON document per line at each refresh
        #[arg(long, conflicts_with_all = ["stdio", "tui"])]
        pub json: bool,

        /// Number of rows.
        #[command(flatten)]
        pub rows: EntryArgs,

        /// Columns of text.
        #[command(flatten)]
        pub table: TableArgs,
    }
}

options! {
    /// Filters of `tare top`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Filters")]
    pub struct TopFilterArgs {
        /// Hide samples in the kernel
        #[arg(short = 'K', long = "hide_kernel_symbols", visible_alias = "hide-kernel-symbols")]
        pub hide_kernel: bool,

        /// Hide samples in user space
        #[arg(short = 'U', long = "hide_user_symbols", visible_alias = "hide-user-symbols")]
        pub hide_user: bool,

        /// Commands, binaries and functions.
        #[command(flatten)]
        pub names: NameFilterArgs,
    }
}
