//! The recording that a command reads.

use std::path::PathBuf;

use super::definition::options;

/// The recording that commands read and write by default, as in perf.
pub const DEFAULT_RECORDING: &str = "perf.data";

options! {
    /// The recording to read.
    #[derive(Clone, Debug, clap::Args)]
    pub struct InputArgs {
        /// Recording to read (-: standard input)
        #[arg(short, long, value_name = "FILE")]
        pub input: Option<PathBuf>,
    }
}

impl InputArgs {
    /// Returns the named recording, or the default one.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.input.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_RECORDING))
    }
}

options! {
    /// The recording to read, with or without `-i`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct RecordingArgs {
        /// Recording to read (-: standard input) [default: perf.data]
        #[arg(value_name = "FILE", conflicts_with = "input")]
        pub file: Option<PathBuf>,

        /// The recording, as an option.
        #[command(flatten)]
        pub input: InputArgs,
    }
}

impl RecordingArgs {
    /// Returns the named recording, or the default one.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.input.path())
    }
}

options! {
    /// Parts of the file itself, for `report` and `script`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct FilePartArgs {
        /// Print the recording's header first: machine, events
        #[arg(long)]
        pub header: bool,

        /// Print the recording's header only
        #[arg(long)]
        pub header_only: bool,

        /// Add topology, caches and build ids to the header
        #[arg(short = 'I', long)]
        pub show_info: bool,

        /// Print every record as bytes and decoded, in file order
        #[arg(short = 'D', long)]
        pub dump_raw_trace: bool,
    }
}

/// perf's `-f`.
#[derive(Clone, Debug, clap::Args)]
pub struct ForceArgs {
    /// No effect: recordings of other users are always read
    #[arg(short, long, hide = true)]
    pub force: bool,
}
