use std::path::PathBuf;

use crate::cli::raw::DEFAULT_RECORDING;
use crate::cli::raw::definition::options;

/// Default of `--flush-interval` in milliseconds; also the limit of `tare top`'s flush interval.
pub const FLUSH_INTERVAL_MS: u64 = 250;

options! {
    /// Output of `tare record`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Output")]
    pub struct OutputArgs {
        /// Write to FILE (-: stdout, in pipe mode)
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_RECORDING)]
        pub output: PathBuf,

        /// Draw a flame graph of the finished recording: HTML, or SVG if FILE ends in .svg
        #[arg(long, value_name = "FILE")]
        pub flame: Option<PathBuf>,

        /// Compress with zstd: 1 (fastest, the default) to 22 (smallest)
        #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
        pub compression_level: Option<i32>,

        /// End the recording at this size, such as 100M
        #[arg(long, value_name = "SIZE")]
        pub max_size: Option<String>,

        /// Continue in a new file on SIGUSR2 (signal, the default), at a size such as 1G, or after
        /// a time such as 30s, 10m, 1h, 1d
        #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "signal")]
        pub switch_output: Option<String>,

        /// Keep the N latest of these files, and remove older ones
        #[arg(long, value_name = "N", requires = "switch_output", value_parser = clap::value_parser!(u32).range(1..))]
        pub switch_max_files: Option<u32>,

        /// Append the time to the file's name
        #[arg(long)]
        pub timestamp_filename: bool,

        /// How to write the file: auto, write, mmap or direct [default: auto]
        #[arg(long, value_name = "PATH")]
        pub output_path: Option<String>,

        /// Window of the mmap path, in pages or with B, K, M or G [default: 64M]
        #[arg(long, value_name = "N[B|K|M|G]")]
        pub out_pages: Option<String>,

        /// Read the ring buffers at least every MS milliseconds
        #[arg(long, value_name = "MS", default_value_t = FLUSH_INTERVAL_MS, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
        pub flush_interval: u64,

        /// Force each flush to disk
        #[arg(long)]
        pub sync: bool,

        /// Overwrite the oldest records in the ring buffers; write the buffers at the end or on
        /// SIGUSR2 (with --switch-output)
        #[arg(long, conflicts_with = "keep_last")]
        pub overwrite: bool,

        /// Flight recorder: keep the last SECONDS, and write them at the end or on SIGUSR2
        #[arg(long, value_name = "SECONDS")]
        pub keep_last: Option<f64>,

        /// Describe running processes at the end of the recording instead of the start
        #[arg(long)]
        pub tail_synthesize: bool,

        /// Describe running processes: no, all, or a list of task, mmap, cgroup
        /// [default: all]
        #[arg(long, value_name = "WHAT,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub synth: Vec<String>,

        /// Keep the binaries that samples can hit, in the layout of perf's build-id cache
        /// [default: ~/.debug, as perf]
        #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, default_missing_value = "~/.debug")]
        pub keep_binaries: Option<PathBuf>,

        /// Don't measure the cost of a sample after the recording on a host where it is unknown
        #[arg(long)]
        pub no_calibrate: bool,

        /// Omit the build-id table
        #[arg(short = 'B', long)]
        pub no_buildid: bool,

        /// No effect: binaries are kept only with --keep-binaries
        #[arg(short = 'N', long)]
        pub no_buildid_cache: bool,

        /// Omit records of BPF programs that are loaded or unloaded
        #[arg(long)]
        pub no_bpf_event: bool,

        /// No effect: reading the maps of a process has no time limit
        #[arg(long, value_name = "MS")]
        pub proc_map_timeout: Option<u64>,

        /// Number of threads that read the ring buffers [default: one per 32 CPUs]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
        pub readers: Option<u32>,
    }
}
