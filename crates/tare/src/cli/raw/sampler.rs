//! Options of the sampler, for `record` and `top`.

use super::definition::options;

/// Default of the lowest rate in Hz to which an overhead budget reduces sampling.
pub const MIN_RATE_HZ: u64 = 19;

options! {
    /// Rate, call chains and ring buffers.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Sampling")]
    pub struct SamplerArgs {
        /// Sampling frequency in Hz, per event and CPU; `max` for the kernel's limit [default: 999;
        /// tracepoints: every occurrence]
        #[arg(short = 'F', long = "freq", value_name = "HZ|max")]
        pub frequency: Option<String>,

        /// Sampling period: one sample every N occurrences (nanoseconds for clocks)
        #[arg(short, long, value_name = "N", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(1..))]
        pub count: Option<u64>,

        /// Limit the overhead of sampling and tare to this share of the sampled CPUs' time, by
        /// lowering the rate if -F costs more
        #[arg(long, value_name = "PERCENT", conflicts_with = "count")]
        pub max_overhead: Option<String>,

        /// With --max-overhead: lowest rate, even if it exceeds the limit
        #[arg(long, value_name = "HZ", default_value_t = MIN_RATE_HZ, value_parser = clap::value_parser!(u64).range(1..))]
        pub min_rate: u64,

        /// Sample call chains (`record`: the default, except for tracepoints)
        #[arg(short = 'g')]
        pub with_call_graph: bool,

        /// How to unwind call chains: `auto[,BYTES]` (unwinds copies of the stack while recording),
        /// `fp[,defer]`, `dwarf[,BYTES]` (keeps the copies), `dwarf+fp[,BYTES]` or `lbr` [default:
        /// fp]
        #[arg(long, value_name = "HOW")]
        pub call_graph: Option<String>,

        /// Sample each task's cgroup
        #[arg(long)]
        pub all_cgroups: bool,

        /// Sample tare's own threads too
        #[arg(long)]
        pub include_self: bool,

        /// Size of each ring buffer, in pages or with B, K, M or G, rounded up to a power of two
        /// pages [default: up to 8M]
        #[arg(short = 'm', long, value_name = "N[B|K|M|G]")]
        pub mmap_pages: Option<String>,

        /// Read the ring buffers with this SCHED_FIFO priority
        #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u32).range(1..=99))]
        pub realtime: Option<u32>,
    }
}
