use crate::cli::raw::definition::options;

options! {
    /// Options of `tare record` for off-CPU time.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Events")]
    pub struct OffCpuArgs {
        /// Also record off-CPU time by reason and call chain: event offcpu-time, in nanoseconds
        /// (summed by BPF programs)
        #[arg(long)]
        pub off_cpu: bool,

        /// With --off-cpu: record which thread ends each wait; the waker's call chain is appended
        /// below the sleeper's
        #[arg(long, requires = "off_cpu")]
        pub wakers: bool,

        /// With --off-cpu: ignore shorter waits, such as 1us or 2ms (default unit: us)
        #[arg(long, value_name = "TIME", requires = "off_cpu")]
        pub off_cpu_min: Option<String>,

        /// With --off-cpu: each wait of at least this length is a sample of its own, with its time,
        /// such as 10ms (default unit: ms)
        #[arg(long, value_name = "TIME", requires = "off_cpu")]
        pub off_cpu_thresh: Option<String>,
    }
}
