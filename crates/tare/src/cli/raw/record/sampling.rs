use crate::cli::raw::definition::options;

/// Lowest rate in Hz to which an overhead budget reduces sampling, for `record` and `top`.
pub const MIN_RATE_HZ: u64 = 19;

options! {
    /// Rate of sampling and contents of a sample.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Sampling")]
    pub struct SamplingArgs {
        /// Sampling frequency in Hz, per event and CPU; `max` for the kernel's limit [default: 999;
        /// tracepoints: every occurrence]
        #[arg(short = 'F', long = "freq", value_name = "HZ|max")]
        pub frequency: Option<String>,

        /// Fail if the kernel doesn't allow this frequency, instead of lowering it
        #[arg(long, requires = "frequency")]
        pub strict_freq: bool,

        /// Limit the overhead of sampling and recorder to this share of the recorded CPUs' time, by
        /// lowering the rate if -F costs more
        #[arg(long, value_name = "PERCENT", conflicts_with_all = ["count", "no_samples"])]
        pub max_overhead: Option<String>,

        /// With --max-overhead: lowest rate, even if it exceeds the limit
        #[arg(long, value_name = "HZ", requires = "max_overhead", default_value_t = MIN_RATE_HZ, value_parser = clap::value_parser!(u64).range(1..))]
        pub min_rate: u64,

        /// Sampling period: one sample every N occurrences (nanoseconds for clocks)
        #[arg(short, long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
        pub count: Option<u64>,

        /// Take no samples, record only task events (start, map, switch)
        #[arg(short = 'n', long, conflicts_with_all = ["frequency", "count"])]
        pub no_samples: bool,

        /// Record call chains for tracepoints too (other events have them by default)
        #[arg(short = 'g')]
        pub with_call_graph: bool,

        /// How to unwind call chains: `fp[,defer]`, `dwarf[,BYTES]` (copies the stack),
        /// `dwarf+fp[,BYTES]` or `lbr` [default: fp]
        #[arg(long, value_name = "HOW")]
        pub call_graph: Option<String>,

        /// Record no call chains
        #[arg(long, conflicts_with_all = ["with_call_graph", "call_graph"])]
        pub no_call_graph: bool,

        /// Record only the user part of call chains
        #[arg(long, conflicts_with_all = ["kernel_callchains", "no_call_graph"])]
        pub user_callchains: bool,

        /// Record only the kernel part of call chains
        #[arg(long, conflicts_with = "no_call_graph")]
        pub kernel_callchains: bool,

        /// Record the last taken branches, of any kind
        #[arg(short = 'b', long, conflicts_with = "branch_filter")]
        pub branch_any: bool,

        /// Record the last taken branches of these kinds, such as any_call,u
        #[arg(short = 'j', long, value_name = "KIND,…", value_delimiter = ',')]
        pub branch_filter: Vec<String>,

        /// Record data addresses
        #[arg(short, long)]
        pub data: bool,

        /// Record physical data addresses
        #[arg(long)]
        pub phys_data: bool,

        /// Record page sizes of data addresses
        #[arg(long)]
        pub data_page_size: bool,

        /// Record page sizes of sampled instructions
        #[arg(long)]
        pub code_page_size: bool,

        /// Record the cost of the sampled access (memory events)
        #[arg(short = 'W', long)]
        pub weight: bool,

        /// Record flags of memory transactions
        #[arg(long)]
        pub transaction: bool,

        /// Record user registers: all, or the named ones; ? lists them
        #[arg(long, value_name = "REG,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
        pub user_regs: Option<String>,

        /// Record registers at the interrupt: all, or the named ones; ? lists them
        #[arg(short = 'I', long, value_name = "REG,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
        pub intr_regs: Option<String>,

        /// Accepted: samples always have a timestamp
        #[arg(short = 'T', long)]
        pub timestamp: bool,

        /// Record each sample's period, even if it is fixed
        #[arg(short = 'P', long)]
        pub period: bool,

        /// Record each sample's CPU (always recorded with -a, -C, -G and tracepoints)
        #[arg(long)]
        pub sample_cpu: bool,

        /// Record raw data of every event (always recorded for tracepoints)
        #[arg(short = 'R', long)]
        pub raw_samples: bool,

        /// Clock of timestamps: mono, raw, real, boot, tai, a number, or perf for the kernel's own
        /// [default: mono]
        #[arg(short = 'k', long, value_name = "CLOCK")]
        pub clockid: Option<String>,

        /// Record exact counts of each thread, written at its exit
        #[arg(short, long)]
        pub stat: bool,

        /// Record context switches
        #[arg(long)]
        pub switch_events: bool,

        /// Record the processes' namespaces
        #[arg(long)]
        pub namespaces: bool,

        /// Record each sample's cgroup
        #[arg(long)]
        pub all_cgroups: bool,

        /// Let the kernel record the build id of each mapped file
        #[arg(long)]
        pub buildid_mmap: bool,

        /// Sample every event in user space only
        #[arg(long, conflicts_with = "all_kernel")]
        pub all_user: bool,

        /// Sample every event in the kernel only
        #[arg(long)]
        pub all_kernel: bool,

        /// Accepted: tare's own threads are excluded by default
        #[arg(long, conflicts_with = "include_self")]
        pub exclude_perf: bool,

        /// Record tare's own threads too
        #[arg(long)]
        pub include_self: bool,
    }
}
