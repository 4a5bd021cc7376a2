use super::definition::options;
use super::record::MIN_RATE_HZ;
use super::{AttachArgs, RowArgs, SymbolSearch};

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
    #[command(after_help = EXAMPLES)]
    pub struct TopArgs {
        /// Events and their rate.
        #[command(flatten)]
        pub sampling: TopSamplingArgs,

        /// Running tasks, CPUs and cgroups.
        #[command(flatten)]
        pub attach: AttachArgs,

        /// Don't sample the target's children
        #[arg(short = 'i', long, help_heading = "Target")]
        pub no_inherit: bool,

        /// Sample tare itself too
        #[arg(long, help_heading = "Target")]
        pub include_self: bool,

        /// Refresh and end.
        #[command(flatten)]
        pub schedule: TopScheduleArgs,

        /// Form of the output.
        #[command(flatten)]
        pub output: TopOutputArgs,

        /// Sort keys that make up a row [default: dso,sym]; +KEY,… adds to the default
        #[arg(short, long = "sort", value_name = "KEY,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Rows")]
        pub sort: Vec<String>,

        /// Columns: overhead, overhead_children, sample, period and sort keys
        #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Rows")]
        pub fields: Vec<String>,

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
    /// Events of `tare top`, and their rate.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Sampling")]
    pub struct TopSamplingArgs {
        /// Events to sample: names, comma-separated lists; see `tare list` [default: cycles:P, or
        /// cpu-clock without a PMU]
        #[arg(short, long = "event", value_name = "EVENTS")]
        pub events: Vec<String>,

        /// Sampling frequency in Hz, per event and CPU; `max` for the kernel's limit [default: 999;
        /// tracepoints: every occurrence]
        #[arg(short = 'F', long = "freq", value_name = "HZ|max")]
        pub frequency: Option<String>,

        /// Sampling period: one sample every N occurrences (nanoseconds for clocks)
        #[arg(short, long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
        pub count: Option<u64>,

        /// Limit the overhead of sampling and tare to this share of the sampled CPUs' time, by
        /// lowering the rate [default: 1% for whole CPUs or cgroups sampled by time]
        #[arg(long, value_name = "PERCENT", conflicts_with = "count")]
        pub max_overhead: Option<String>,

        /// With --max-overhead: lowest rate, even if it exceeds the limit
        #[arg(long, value_name = "HZ", default_value_t = MIN_RATE_HZ, value_parser = clap::value_parser!(u64).range(1..))]
        pub min_rate: u64,

        /// Sample call chains
        #[arg(short = 'g')]
        pub with_call_graph: bool,

        /// How to unwind call chains: `fp[,defer]`, `dwarf[,SIZE]` or `lbr`
        #[arg(long, value_name = "HOW")]
        pub call_graph: Option<String>,

        /// Sample cgroups, for filters by cgroup
        #[arg(long)]
        pub all_cgroups: bool,

        /// Size of each ring buffer, in pages or with B, K, M or G
        #[arg(short = 'm', long, value_name = "N[B|K|M|G]")]
        pub mmap_pages: Option<String>,

        /// Read the ring buffers with this SCHED_FIFO priority
        #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u32).range(1..=99))]
        pub realtime: Option<u32>,
    }
}

options! {
    /// Refresh and end of `tare top`.
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

        /// Stop after MS milliseconds
        #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
        pub timeout: Option<u64>,
    }
}

options! {
    /// Form of `tare top`'s output.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Output")]
    pub struct TopOutputArgs {
        /// Print text at each refresh (default if stdout isn't a terminal)
        #[arg(long, overrides_with = "tui")]
        pub stdio: bool,

        /// Use the whole terminal (default if stdout is one); ? lists the keys
        #[arg(long, overrides_with = "stdio")]
        pub tui: bool,

        /// Print one versioned JSON document per line at each refresh
        #[arg(long, conflicts_with_all = ["stdio", "tui"])]
        pub json: bool,

        /// Show N rows of text or JSON [default: as many as fit the terminal, otherwise all]
        #[arg(short = 'E', long, value_name = "N")]
        pub entries: Option<usize>,

        /// Column widths of text from left to right (0: automatic)
        #[arg(short = 'w', long, value_name = "WIDTH,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub column_widths: Vec<usize>,

        /// Show addresses of functions and full paths
        #[arg(short, long, action = clap::ArgAction::Count)]
        pub verbose: u8,
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

        /// Only these commands (thread names)
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub comms: Vec<String>,

        /// Only these binaries
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub dsos: Vec<String>,

        /// Only these functions
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub symbols: Vec<String>,
    }
}
