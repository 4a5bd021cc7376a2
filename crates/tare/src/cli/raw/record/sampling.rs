use crate::cli::raw::SamplerArgs;
use crate::cli::raw::definition::options;

options! {
    /// Sampling options of `tare record`.
    #[derive(Debug, clap::Args)]
    #[command(
        next_help_heading = "Sampling",
        mut_arg("min_rate", |arg| arg.requires("max_overhead")),
    )]
    pub struct SamplingArgs {
        /// Rate, call chains and ring buffers.
        #[command(flatten)]
        pub sampler: SamplerArgs,

        /// Fail if the kernel doesn't allow this frequency, instead of lowering it
        #[arg(long, requires = "frequency")]
        pub strict_freq: bool,

        /// Take no samples, record only task events (start, map, switch)
        #[arg(short = 'n', long, conflicts_with_all = ["frequency", "count", "max_overhead"])]
        pub no_samples: bool,

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

        /// No effect: samples always have a timestamp
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

        /// Record the exact counts of each thread that a recorded thread starts, at its exit (not with
        /// -a, -C or -G)
        #[arg(short, long)]
        pub stat: bool,

        /// Record context switches
        #[arg(long)]
        pub switch_events: bool,

        /// Record context switches, for `report --latency`: which code takes time while few threads run
        /// (not with -a or -C)
        #[arg(long)]
        pub latency: bool,

        /// Record the processes' namespaces
        #[arg(long)]
        pub namespaces: bool,

        /// Let the kernel record the build id of each mapped file
        #[arg(long)]
        pub buildid_mmap: bool,

        /// No effect: tare's own threads are excluded by default
        #[arg(long, conflicts_with = "include_self")]
        pub exclude_perf: bool,
    }
}
