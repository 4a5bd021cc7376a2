//! Arguments of the small commands about a recording, the kernel or tare itself.

use std::path::PathBuf;

use super::definition::with_default;
use super::{DEFAULT_RECORDING, ForceArgs, InputArgs, JsonArgs};

/// Arguments of `tare evlist`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare evlist                the events of perf.data
  tare evlist -v             with every field of perf_event_attr
  tare evlist --json         for programs",
    mut_arg("input", |arg| with_default(arg, DEFAULT_RECORDING)),
    mut_arg("json", |arg| arg.conflicts_with_all(["freq", "verbose", "group", "trace_fields"])),
)]
pub struct EvlistArgs {
    /// The recording.
    #[command(flatten)]
    pub input: InputArgs,

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

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub force: ForceArgs,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Arguments of `tare buildid-list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare buildid-list              the files of perf.data that have build ids
  tare buildid-list -H           files with samples only
  tare buildid-list -k           the running kernel
  tare buildid-list -i /bin/ls   a binary",
    mut_arg("input", |arg| with_default(arg, DEFAULT_RECORDING)),
)]
pub struct BuildidListArgs {
    /// The recording, or a binary.
    #[command(flatten)]
    pub input: InputArgs,

    /// Only files with samples
    #[arg(short = 'H', long)]
    pub with_hits: bool,

    /// Print the build id of the running kernel
    #[arg(short, long, conflicts_with_all = ["with_hits", "input"])]
    pub kernel: bool,

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub force: ForceArgs,

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub verbose: IgnoredVerboseArgs,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// perf's `-v`, where tare has nothing more to print.
#[derive(Clone, Debug, clap::Args)]
pub struct IgnoredVerboseArgs {
    /// No effect
    #[arg(short, long, hide = true)]
    pub verbose: bool,
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

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub verbose: IgnoredVerboseArgs,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Arguments of `tare inject`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare inject -b -i perf.data -o new.data    a copy, which tare reads as it reads perf.data
  tare inject -j -o new.data                 of standard input")]
pub struct InjectArgs {
    /// Recording to copy
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub input: PathBuf,

    /// Where to write the copy
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,

    /// No effect: tare reads the build ids of files where it shows the recording
    #[arg(short, long, hide = true)]
    pub build_ids: bool,

    /// No effect, like `-b`
    #[arg(short = 'B', long, hide = true)]
    pub buildid_all: bool,

    /// No effect, like `-b`
    #[arg(long, hide = true)]
    pub mmap2_buildids: bool,

    /// No effect: tare reads the files of JIT compilers where it shows the recording
    #[arg(short, long, hide = true)]
    pub jit: bool,

    /// No effect: tare unwinds copied stacks where it shows the recording
    #[arg(long, hide = true)]
    pub convert_callchain: bool,

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub force: ForceArgs,

    /// Accepted for perf's scripts.
    #[command(flatten)]
    pub verbose: IgnoredVerboseArgs,
}

/// Arguments of `tare completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare completions bash > ~/.local/share/bash-completion/completions/tare
  tare completions zsh > ~/.zfunc/_tare   with fpath+=(~/.zfunc) in .zshrc, before compinit
  tare completions fish > ~/.config/fish/completions/tare.fish")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: tare_complete::Shell,
}

/// Arguments of `tare version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare version
  tare version --build-options   with build options
  tare version --json            the same, for a program")]
pub struct VersionArgs {
    /// Print build options
    #[arg(long)]
    pub build_options: bool,

    /// Version and build options as JSON.
    #[command(flatten)]
    pub json: JsonArgs,

    /// Print build options
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}
