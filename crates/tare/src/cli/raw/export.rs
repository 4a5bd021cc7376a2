use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tare_render::export::{FORMATS, FormatInfo};

use super::samples::SampleArgs;

const EXAMPLES: &str = "\
Examples:
  tare export --format firefox -o profile.json            load it in the Firefox Profiler
  tare export --format pprof -o profile.pb.gz             for go tool pprof -symbolize=none
  tare export --format parquet -o profile                 tables for DuckDB or pandas, a store
  tare export --format folded -e cpu-clock | flamegraph.pl > out.svg
  tare export --format jsonl other.data | jq .period

tare-export(1) describes the contents of each format.";

/// Arguments of `tare export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Format to write
    #[arg(short, long, value_name = "FORMAT", value_parser = format_parser())]
    pub format: &'static FormatInfo,

    /// Write to FILE (-: standard output); parquet: into a new folder [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The exported samples.
    #[command(flatten)]
    pub samples: SampleArgs,
}

/// Accepts the names of the formats.
fn format_parser() -> impl TypedValueParser<Value = &'static FormatInfo> {
    let names = FORMATS.iter().map(|format| {
        let help = format!("{} ({})", format.help, format.readers);
        PossibleValue::new(format.name).help(help)
    });
    PossibleValuesParser::new(names)
        .try_map(|name| FormatInfo::from_name(&name).ok_or("there is no such format"))
}
