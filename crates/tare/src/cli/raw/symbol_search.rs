use std::path::PathBuf;

use super::definition::options;

options! {
    /// Sources of symbols, for the commands of `perf::WITH_BUILDID_DIR`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Symbols")]
    pub struct SymbolSearch {
        /// Kernel symbols: a copy of /proc/kallsyms of the recorded machine
        #[arg(long, value_name = "FILE")]
        pub kallsyms: Option<PathBuf>,

        /// The recorded kernel's ELF file, with symbols and lines [default: found by build id]
        #[arg(short = 'k', long, value_name = "FILE")]
        pub vmlinux: Option<PathBuf>,

        /// Look up recorded paths below this folder
        #[arg(long, value_name = "FOLDER")]
        pub symfs: Option<PathBuf>,

        /// Folder of separate debug files, searched before /usr/lib/debug (repeatable)
        #[arg(long, value_name = "FOLDER", action = clap::ArgAction::Append)]
        pub debug_dir: Vec<PathBuf>,

        /// Build-id cache, as kept by perf or `tare record --keep-binaries` [default: ~/.debug]
        #[arg(long, value_name = "FOLDER")]
        pub buildid_dir: Option<PathBuf>,

        /// Neither read nor write the symbol cache ($XDG_CACHE_HOME/tare)
        #[arg(long)]
        pub no_cache: bool,

        /// Show symbols as in the binary, not as in source code
        #[arg(long)]
        pub no_demangle: bool,
    }
}
