use std::path::PathBuf;

use super::samples::SampleArgs;

const EXAMPLES: &str = "\
Examples:
  tare export --format firefox -o profile.json            then load it in the Firefox Profiler
  tare export --format pprof -o profile.pb.gz             for go tool pprof -symbolize=none
  tare export --format parquet -o samples.parquet         a row a sample, for DuckDB or pandas
  tare export --format folded -e cpu-clock | flamegraph.pl > out.svg
  tare export --format jsonl other.data | jq .period

docs/export.md says what each format holds.";

/// Arguments of `tare export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// In which format
    #[arg(short, long, value_name = "FORMAT")]
    pub format: ExportFormat,

    /// Write this file (-: standard output) [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Which samples.
    #[command(flatten)]
    pub samples: SampleArgs,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// A line for each call chain, for flamegraph.pl and its kin
    Folded,
    /// A compressed profile for pprof
    #[cfg(feature = "pprof")]
    Pprof,
    /// A profile for the Firefox Profiler
    Firefox,
    /// A profile for speedscope
    Speedscope,
    /// Trace events, for Perfetto and chrome://tracing
    Chrome,
    /// A row for each sample
    #[cfg(feature = "parquet")]
    Parquet,
    /// A JSON object for each sample
    Jsonl,
}
