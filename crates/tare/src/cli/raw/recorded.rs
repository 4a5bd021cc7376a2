//! Arguments of the small commands that say what a recording, the kernel or tare itself has.

use std::path::PathBuf;

/// Arguments of `tare evlist`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare evlist                the events of perf.data
  tare evlist -v             with all that the kernel was asked for
  tare evlist --json         for programs")]
pub struct EvlistArgs {
    /// The recording (-: standard input)
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// How often each event was sampled
    #[arg(short = 'F', long)]
    pub freq: bool,

    /// All that the kernel was asked for
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Events of a group together
    #[arg(short, long)]
    pub group: bool,

    /// The fields of tracepoints
    #[arg(long)]
    pub trace_fields: bool,

    /// Files of other users are read anyway
    #[arg(short, long, hide = true)]
    pub force: bool,

    /// One versioned JSON document
    #[arg(long, conflicts_with_all = ["freq", "verbose", "group", "trace_fields"])]
    pub json: bool,
}

/// Arguments of `tare buildid-list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare buildid-list              the files of perf.data that have build ids
  tare buildid-list -H           those that samples lie in
  tare buildid-list -k           the kernel that runs here
  tare buildid-list -i /bin/ls   a binary")]
pub struct BuildidListArgs {
    /// The recording (-: standard input), or a binary
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// Only files that samples lie in
    #[arg(short = 'H', long)]
    pub with_hits: bool,

    /// Of the kernel that runs here
    #[arg(short, long, conflicts_with_all = ["with_hits", "input"])]
    pub kernel: bool,

    /// Files of other users are read anyway
    #[arg(short, long, hide = true)]
    pub force: bool,

    /// Nothing more is said
    #[arg(short, long, hide = true)]
    pub verbose: bool,

    /// One versioned JSON document
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tare kallsyms`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare kallsyms schedule vfs_read      where these lie in the running kernel
  tare kallsyms --kallsyms copy _text  in a copy of /proc/kallsyms")]
pub struct KallsymsArgs {
    /// Names of the kernel's functions and variables
    #[arg(required = true, value_name = "SYMBOL")]
    pub symbols: Vec<String>,

    /// A copy of /proc/kallsyms
    #[arg(long, value_name = "FILE", default_value = "/proc/kallsyms")]
    pub kallsyms: PathBuf,

    /// Nothing more is said
    #[arg(short, long, hide = true)]
    pub verbose: bool,

    /// One versioned JSON document
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tare version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare version
  tare version --build-options   what it was built with")]
pub struct VersionArgs {
    /// What it was built with
    #[arg(long)]
    pub build_options: bool,

    /// The same
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}
