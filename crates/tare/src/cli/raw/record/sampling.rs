/// How events are sampled, and what a sample holds.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "How to sample")]
pub struct SamplingArgs {
    /// So many samples a second of each event and CPU, or max [default: 999; tracepoints: each one]
    #[arg(short = 'F', long = "freq", value_name = "HZ|max")]
    pub frequency: Option<String>,

    /// Fail where the kernel doesn't allow this frequency, rather than lower it
    #[arg(long, requires = "frequency")]
    pub strict_freq: bool,

    /// Keep sampling and recorder together below this share of the recorded CPUs' time, by lower
    /// rates where -F costs more
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["count", "no_samples"])]
    pub max_overhead: Option<String>,

    /// With --max-overhead: no lower rate than this, even where it costs more [default: 19]
    #[arg(long, value_name = "HZ", requires = "max_overhead", value_parser = clap::value_parser!(u64).range(1..))]
    pub min_rate: Option<u64>,

    /// A sample every so many occurrences (nanoseconds for the clocks)
    #[arg(short, long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// No samples: only what processes do (start, map, switch)
    #[arg(short = 'n', long, conflicts_with_all = ["frequency", "count"])]
    pub no_samples: bool,

    /// Call chains, also of tracepoints (other events have them anyway)
    #[arg(short = 'g')]
    pub with_call_graph: bool,

    /// How call chains are taken: `fp[,defer]`, `dwarf[,BYTES]` (a copy of the stack),
    /// `dwarf+fp[,BYTES]` or `lbr`; `fp` where nothing is said
    #[arg(long, value_name = "HOW")]
    pub call_graph: Option<String>,

    /// No call chains
    #[arg(long, conflicts_with_all = ["with_call_graph", "call_graph"])]
    pub no_call_graph: bool,

    /// Only the user's part of call chains
    #[arg(long, conflicts_with_all = ["kernel_callchains", "no_call_graph"])]
    pub user_callchains: bool,

    /// Only the kernel's part of call chains
    #[arg(long, conflicts_with = "no_call_graph")]
    pub kernel_callchains: bool,

    /// The last branches, of any kind
    #[arg(short = 'b', long, conflicts_with = "branch_filter")]
    pub branch_any: bool,

    /// The last branches of these kinds, as in any_call,u
    #[arg(short = 'j', long, value_name = "KIND,…", value_delimiter = ',')]
    pub branch_filter: Vec<String>,

    /// Addresses of the data that samples touch
    #[arg(short, long)]
    pub data: bool,

    /// Physical addresses of that data
    #[arg(long)]
    pub phys_data: bool,

    /// Sizes of the pages of that data
    #[arg(long)]
    pub data_page_size: bool,

    /// Sizes of the pages of sampled instructions
    #[arg(long)]
    pub code_page_size: bool,

    /// What the sampled access cost (memory events)
    #[arg(short = 'W', long)]
    pub weight: bool,

    /// Flags of memory transactions
    #[arg(long)]
    pub transaction: bool,

    /// User registers: all, or those named; ? lists them
    #[arg(long, value_name = "REG,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub user_regs: Option<String>,

    /// Registers at the interrupt: all, or those named; ? lists them
    #[arg(short = 'I', long, value_name = "REG,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub intr_regs: Option<String>,

    /// Times: accepted, samples have them
    #[arg(short = 'T', long)]
    pub timestamp: bool,

    /// The period of each sample, also where it is fixed
    #[arg(short = 'P', long)]
    pub period: bool,

    /// The CPU of each sample (with -a, -C, -G and tracepoints it is there anyway)
    #[arg(long)]
    pub sample_cpu: bool,

    /// Raw data of every event (tracepoints have it anyway)
    #[arg(short = 'R', long)]
    pub raw_samples: bool,

    /// The clock of times: mono, raw, real, boot, tai, a number, or perf for the kernel's own
    /// [default: mono]
    #[arg(short = 'k', long, value_name = "CLOCK")]
    pub clockid: Option<String>,

    /// Exact counts of each thread, written when it ends
    #[arg(short, long)]
    pub stat: bool,

    /// Context switches, as records of their own
    #[arg(long)]
    pub switch_events: bool,

    /// Namespaces of processes
    #[arg(long)]
    pub namespaces: bool,

    /// Cgroups of samples
    #[arg(long)]
    pub all_cgroups: bool,

    /// Have the kernel write the build id of what a process maps
    #[arg(long)]
    pub buildid_mmap: bool,

    /// Only user space, for every event
    #[arg(long, conflicts_with = "all_kernel")]
    pub all_user: bool,

    /// Only the kernel, for every event
    #[arg(long)]
    pub all_kernel: bool,

    /// Leave tare's own threads out: accepted, it is the rule
    #[arg(long, conflicts_with = "include_self")]
    pub exclude_perf: bool,

    /// Record tare's own threads too
    #[arg(long)]
    pub include_self: bool,
}
