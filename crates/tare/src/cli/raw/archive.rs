use std::path::PathBuf;

use super::{DEFAULT_RECORDING, SymbolSearch};

const EXAMPLES: &str = "\
Examples:
  tare archive                      perf.data with its binaries and symbols, as perf.data.tar.zst
  tare archive x.data -o x.tar.zst
  tare report -i x.tar.zst          on any machine, with the same symbols
  tar --zstd -xf x.tar.zst && perf --buildid-dir .debug report -i perf.data

The archive holds the binaries, debug files, source files, perf maps and kernel symbols that samples
hit. Kernel symbols reveal the kernel's addresses (KASLR): share the archive only with people you
trust.";

/// Arguments of `tare archive`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ArchiveArgs {
    /// Recording to pack
    #[arg(value_name = "FILE", default_value = DEFAULT_RECORDING)]
    pub input: PathBuf,

    /// Write to this file [default: FILE.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Leave out source files
    #[arg(long)]
    pub no_source: bool,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}
