use std::path::PathBuf;

/// Where names of functions come from, for every command that shows them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Symbols")]
pub struct SymbolSearch {
    /// Symbols of the kernel: a copy of /proc/kallsyms of the recorded machine
    #[arg(long, value_name = "FILE")]
    pub kallsyms: Option<PathBuf>,

    /// The kernel's ELF file with symbols and lines, of the recorded build [default: found by build id]
    #[arg(short = 'k', long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,

    /// The folder that recorded paths begin in
    #[arg(long, value_name = "FOLDER")]
    pub symfs: Option<PathBuf>,

    /// A folder of separate debug files, searched before /usr/lib/debug (repeatable)
    #[arg(long, value_name = "FOLDER", action = clap::ArgAction::Append)]
    pub debug_dir: Vec<PathBuf>,

    /// The folder of files kept by build id, by perf or tare record --keep-binaries [default: ~/.debug]
    #[arg(long, value_name = "FOLDER")]
    pub buildid_dir: Option<PathBuf>,

    /// Neither use what was looked up before nor keep it ($XDG_CACHE_HOME/tare)
    #[arg(long)]
    pub no_cache: bool,

    /// Names as in the file, not as in source code
    #[arg(long)]
    pub no_demangle: bool,
}
