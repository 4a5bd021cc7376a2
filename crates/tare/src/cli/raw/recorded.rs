//! Arguments of the small commands about a recording, the kernel or tare itself.

use std::path::PathBuf;

/// Arguments of `tare evlist`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare evlist                the events of perf.data
  tare evlist -v             with every field of perf_event_attr
  tare evlist --json         for programs")]
pub struct EvlistArgs {
    /// Recording to read (-: standard input)
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// Print each event's sampling frequency
    #[arg(short = 'F', long)]
    pub freq: bool,

    /// Print every field of perf_event_attr
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Print the events of a group together
    #[arg(short, long)]
    pub group: bool,

    /// Print the fields of tracepoints
    #[arg(long)]
    pub trace_fields: bool,

    /// Accepted: files of other users are always read
    #[arg(short, long, hide = true)]
    pub force: bool,

    /// Print one versioned JSON document
    #[arg(long, conflicts_with_all = ["freq", "verbose", "group", "trace_fields"])]
    pub json: bool,
}

/// Arguments of `tare buildid-list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare buildid-list              the files of perf.data that have build ids
  tare buildid-list -H           files with samples only
  tare buildid-list -k           the running kernel
  tare buildid-list -i /bin/ls   a binary")]
pub struct BuildidListArgs {
    /// Recording (-: standard input) or binary to read
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// Only files with samples
    #[arg(short = 'H', long)]
    pub with_hits: bool,

    /// Print the build id of the running kernel
    #[arg(short, long, conflicts_with_all = ["with_hits", "input"])]
    pub kernel: bool,

    /// Accepted: files of other users are always read
    #[arg(short, long, hide = true)]
    pub force: bool,

    /// Accepted without effect
    #[arg(short, long, hide = true)]
    pub verbose: bool,

    /// Print one versioned JSON document
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tare kallsyms`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare kallsyms schedule vfs_read      their addresses in the running kernel
  tare kallsyms --kallsyms copy _text  in a copy of /proc/kallsyms")]
pub struct KallsymsArgs {
    /// Kernel functions and variables to look up
    #[arg(required = true, value_name = "SYMBOL")]
    pub symbols: Vec<String>,

    /// Copy of /proc/kallsyms to read
    #[arg(long, value_name = "FILE", default_value = "/proc/kallsyms")]
    pub kallsyms: PathBuf,

    /// Accepted without effect
    #[arg(short, long, hide = true)]
    pub verbose: bool,

    /// Print one versioned JSON document
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tare version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare version
  tare version --build-options   with build options")]
pub struct VersionArgs {
    /// Print build options
    #[arg(long)]
    pub build_options: bool,

    /// Print build options
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}
