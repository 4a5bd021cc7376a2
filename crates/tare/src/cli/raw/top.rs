use super::SymbolSearch;
use super::diff::Percentage;

const EXAMPLES: &str = "\
Examples:
  tare top                              the whole machine: what its CPUs do, over the last ten seconds
  tare top -p 4711 -g                   a process, with call chains
  tare top -e page-faults -c 1 -s comm  who has page faults
  tare top -a --sort comm,dso -d 1      by command and file, again every second
  tare top --window 60 --max-overhead 0.2%
                                        the last minute, at a fifth of the usual cost
  tare top --stdio -E 10 | tee log      text, every two seconds
  tare top --json --timeout 60000       a JSON document in a line, every two seconds for a minute";

/// Arguments of `tare top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// Events to sample: names, comma lists; see `tare list` [default: cycles:P, or cpu-clock
    /// without a PMU]
    #[arg(short, long = "event", value_name = "EVENTS", help_heading = "What to sample")]
    pub events: Vec<String>,

    /// So many samples a second of each event and CPU, or max [default: 999; tracepoints: each one]
    #[arg(short = 'F', long = "freq", value_name = "HZ|max", help_heading = "What to sample")]
    pub frequency: Option<String>,

    /// A sample every so many occurrences (nanoseconds for the clocks)
    #[arg(short, long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..), help_heading = "What to sample")]
    pub count: Option<u64>,

    /// Keep sampling and tare together below this share of the sampled CPUs' time, by lower rates
    /// [default: 1%, where whole CPUs or cgroups are sampled by time]
    #[arg(long, value_name = "PERCENT", conflicts_with = "count", help_heading = "What to sample")]
    pub max_overhead: Option<String>,

    /// With --max-overhead: no lower rate than this, even where it costs more
    #[arg(long, value_name = "HZ", default_value_t = 19, value_parser = clap::value_parser!(u64).range(1..), help_heading = "What to sample")]
    pub min_rate: u64,

    /// Call chains
    #[arg(short = 'g', help_heading = "What to sample")]
    pub with_call_graph: bool,

    /// How call chains are taken: `fp[,defer]`, `dwarf[,SIZE]` or `lbr`
    #[arg(long, value_name = "HOW", help_heading = "What to sample")]
    pub call_graph: Option<String>,

    /// Cgroups of samples, for filters by cgroup
    #[arg(long, help_heading = "What to sample")]
    pub all_cgroups: bool,

    /// Sample the whole machine (the default without other targets)
    #[arg(short, long, conflicts_with_all = ["pid", "tid", "uid"], help_heading = "Where")]
    pub all_cpus: bool,

    /// Sample running processes, until all of them have ended
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Where")]
    pub pid: Vec<i32>,

    /// Sample running threads, until all of them have ended
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', action = clap::ArgAction::Set, conflicts_with = "pid", help_heading = "Where")]
    pub tid: Vec<i32>,

    /// Sample the running processes of a user, by name or number
    #[arg(short, long, value_name = "USER", conflicts_with_all = ["pid", "tid"], help_heading = "Where")]
    pub uid: Option<String>,

    /// Sample these CPUs only, as in 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS", help_heading = "Where")]
    pub cpu: Option<String>,

    /// Sample cgroups: one for all events, or one for each event in turn
    #[arg(short = 'G', long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["pid", "tid", "uid"], help_heading = "Where")]
    pub cgroup: Vec<String>,

    /// Don't sample what the tasks start
    #[arg(short = 'i', long, help_heading = "Where")]
    pub no_inherit: bool,

    /// Sample tare itself too
    #[arg(long, help_heading = "Where")]
    pub include_self: bool,

    /// The size of each ring, in pages or with B, K, M or G
    #[arg(short = 'm', long, value_name = "N[B|K|M|G]", help_heading = "Where")]
    pub mmap_pages: Option<String>,

    /// Record as SCHED_FIFO with this priority
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u32).range(1..=99), help_heading = "Where")]
    pub realtime: Option<u32>,

    /// Refresh every so many seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "2", help_heading = "When")]
    pub delay: String,

    /// Show the samples of the last so many seconds; what is older is forgotten
    #[arg(long, value_name = "SECONDS", default_value = "10", help_heading = "When")]
    pub window: String,

    /// Show only what came since the last refresh
    #[arg(short, long, help_heading = "When")]
    pub zero: bool,

    /// Stop after so many milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub timeout: Option<u64>,

    /// As text, a screen at each refresh (the default where stdout is no terminal)
    #[arg(long, overrides_with = "tui", help_heading = "Output")]
    pub stdio: bool,

    /// On the whole terminal (the default where stdout is one); keys: docs/top.md, or ?
    #[arg(long, overrides_with = "stdio", help_heading = "Output")]
    pub tui: bool,

    /// A versioned JSON document at each refresh, each in a line
    #[arg(long, conflicts_with_all = ["stdio", "tui"], help_heading = "Output")]
    pub json: bool,

    /// Show so many rows of text or JSON [default: as many as fit the terminal, else all]
    #[arg(short = 'E', long, value_name = "N", help_heading = "Rows")]
    pub entries: Option<usize>,

    /// What samples are put together by [default: dso,sym]; +KEY,… adds to these
    #[arg(short, long = "sort", value_name = "KEY,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Rows")]
    pub sort: Vec<String>,

    /// The columns: overhead, overhead_children, sample, period and sort keys
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Rows")]
    pub fields: Vec<String>,

    /// A column with the number of samples
    #[arg(short = 'n', long, help_heading = "Rows")]
    pub show_nr_samples: bool,

    /// A column with the sum of periods
    #[arg(long, help_heading = "Rows")]
    pub show_total_period: bool,

    /// Also rows for what only calls others (the default with call chains)
    #[arg(long, overrides_with = "no_children", help_heading = "Rows")]
    pub children: bool,

    /// Only rows for what was sampled itself
    #[arg(long, help_heading = "Rows")]
    pub no_children: bool,

    /// Widths of columns of text, from left to right (0: what fits)
    #[arg(short = 'w', long, value_name = "WIDTH,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Rows")]
    pub column_widths: Vec<usize>,

    /// Addresses of functions and whole paths
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Rows")]
    pub verbose: u8,

    /// With filters: percentages of all samples, or of those that pass
    #[arg(long, value_name = "HOW", default_value = "absolute", help_heading = "Rows")]
    pub percentage: Percentage,

    /// Without what ran in the kernel
    #[arg(
        short = 'K',
        long = "hide_kernel_symbols",
        visible_alias = "hide-kernel-symbols",
        help_heading = "Which"
    )]
    pub hide_kernel: bool,

    /// Without what ran in programs
    #[arg(
        short = 'U',
        long = "hide_user_symbols",
        visible_alias = "hide-user-symbols",
        help_heading = "Which"
    )]
    pub hide_user: bool,

    /// Hide rows below so many percent
    #[arg(long, value_name = "PERCENT", help_heading = "Which")]
    pub percent_limit: Option<f64>,

    /// Only these commands
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub comms: Vec<String>,

    /// Only these files
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub dsos: Vec<String>,

    /// Only these functions
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub symbols: Vec<String>,

    /// Where names of functions come from
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}
