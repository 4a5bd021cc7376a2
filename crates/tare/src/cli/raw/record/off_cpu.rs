/// The time that tasks are not on a CPU.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "What to record")]
pub struct OffCpuArgs {
    /// Also the time that tasks are not on a CPU, by reason and call chain: event offcpu-time, in
    /// nanoseconds (summed up by BPF programs)
    #[arg(long)]
    pub off_cpu: bool,

    /// With --off-cpu: who ends waits; the waker's call chain stands below the sleeper's
    #[arg(long, requires = "off_cpu")]
    pub wakers: bool,

    /// With --off-cpu: leave out waits that are shorter, as in 1us or 2ms (without unit: us)
    #[arg(long, value_name = "TIME", requires = "off_cpu")]
    pub off_cpu_min: Option<String>,

    /// With --off-cpu: waits from this length on are samples of their own, with their time, as in
    /// 10ms (without unit: ms)
    #[arg(long, value_name = "TIME", requires = "off_cpu")]
    pub off_cpu_thresh: Option<String>,
}
