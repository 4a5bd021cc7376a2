use std::path::PathBuf;

use super::SymbolSearch;

const EXAMPLES: &str = "\
Examples:
  tare archive                      perf.data and all that names its addresses, as perf.data.tar.zst
  tare archive x.data -o x.tar.zst
  tare report -i x.tar.zst          on any machine, with the same names
  tar --zstd -xf x.tar.zst && perf --buildid-dir .debug report -i perf.data

It has the binaries, debug files, perf maps and kernel symbols that samples lie in. The kernel's symbols tell where the
kernel lies in memory: give the archive to those who may know.";

/// Arguments of `tare archive`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ArchiveArgs {
    /// The recording
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// Write to this file [default: FILE.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Where names of functions come from
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}
