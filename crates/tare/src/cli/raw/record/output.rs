use std::path::PathBuf;

/// Where the recording goes, and how it gets there.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Write to this file (-: stdout, in pipe mode) [default: perf.data]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Draw a flame graph of the finished recording: a page, or a picture where it ends in .svg
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,

    /// Compress with zstd: 1 (the default), fastest, to 22, smallest
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub compression_level: Option<i32>,

    /// End the recording when it has this size, as in 100M
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<String>,

    /// Go on in a new file on SIGUSR2 (signal, the default), after a size, as in 1G, or after a
    /// time, as in 30s, 10m, 1h, 1d
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "signal")]
    pub switch_output: Option<String>,

    /// Keep so many of these files, and remove the oldest
    #[arg(long, value_name = "N", requires = "switch_output", value_parser = clap::value_parser!(u32).range(1..))]
    pub switch_max_files: Option<u32>,

    /// Add the time to the file's name
    #[arg(long)]
    pub timestamp_filename: bool,

    /// How bytes get into the file: auto, write, mmap or direct [default: auto]
    #[arg(long, value_name = "PATH")]
    pub output_path: Option<String>,

    /// The window of the mmap path, in pages or with B, K, M or G [default: 64M]
    #[arg(long, value_name = "N[B|K|M|G]")]
    pub out_pages: Option<String>,

    /// Write out what is in the rings at least so often [default: 250]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub flush_interval: Option<u64>,

    /// Have each flush reach the disk
    #[arg(long)]
    pub sync: bool,

    /// The size of each ring, in pages or with B, K, M or G; rounded up to a power of two pages
    /// [default: up to 8M]
    #[arg(short = 'm', long, value_name = "N[B|K|M|G]")]
    pub mmap_pages: Option<String>,

    /// Overwrite what is oldest in the rings, and write what they hold at the end or on SIGUSR2
    /// (with --switch-output)
    #[arg(long, conflicts_with = "keep_last")]
    pub overwrite: bool,

    /// A flight recorder: keep the last so many seconds, and write them at the end or on SIGUSR2
    #[arg(long, value_name = "SECONDS")]
    pub keep_last: Option<f64>,

    /// Describe running processes when the recording ends, not when it begins
    #[arg(long)]
    pub tail_synthesize: bool,

    /// What of running processes is described: no, or a list of task, mmap, cgroup; or all
    /// [default: all]
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub synth: Vec<String>,

    /// Keep the binaries that samples can lie in, in the layout of perf's cache of build ids
    /// [default: ~/.debug, as perf]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = "~/.debug")]
    pub keep_binaries: Option<PathBuf>,

    /// Don't measure what a sample costs when the recording has ended, where nobody did on this host
    #[arg(long)]
    pub no_calibrate: bool,

    /// Leave out the table of build ids
    #[arg(short = 'B', long)]
    pub no_buildid: bool,

    /// Accepted: nothing is kept without --keep-binaries
    #[arg(short = 'N', long)]
    pub no_buildid_cache: bool,

    /// Leave out loading and unloading of BPF programs
    #[arg(long)]
    pub no_bpf_event: bool,

    /// Accepted: reading the maps of a process has no time limit
    #[arg(long, value_name = "MS")]
    pub proc_map_timeout: Option<u64>,

    /// Read the rings with so many threads [default: one for 32 CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub readers: Option<u32>,

    /// Read the rings with this SCHED_FIFO priority
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub realtime: Option<u32>,
}
