//! `tare export`: samples in the formats of other tools.

use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;

use anyhow::Context;
use tare_profile::Profile;
#[cfg(feature = "parquet")]
use tare_render::export::Parquet;
#[cfg(feature = "pprof")]
use tare_render::export::Pprof;
use tare_render::export::{Chrome, ExportWriter, Exporter, Firefox, Folded, JsonLines, Speedscope};
use tare_render::{Sample, SampleSink};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw::{self, ExportFormat};
use crate::cli::resolved::export::Export;
use crate::command::output::{create, named};
use crate::command::samples::replay;
use crate::exit::{Exit, Refusal};

pub(crate) fn run(raw: raw::ExportArgs) -> Outcome {
    let export = Export::resolve(raw)?;
    if export.is_binary() && export.output == Path::new("-") && io::stdout().is_terminal() {
        let why = "this format is no text: name a file with -o, or pipe it";
        return Err(Refusal::usage(why).into());
    }
    // Where the recording can't be opened no file is made.
    crate::command::recording::exists(&export.samples.input)?;
    let out: ExportWriter = Box::new(BufWriter::with_capacity(1 << 18, create(&export.output)?));
    let failed = || named(&export.output);
    let exporter = exporter(export.format, out).with_context(failed)?;
    let mut taking = Taking { exporter };
    let is_stdout = export.output == Path::new("-");
    let progress = if is_stdout { ProgressLine::beside_stdout() } else { ProgressLine::begin() };
    let read = replay(&export.samples, export.has_traces(), &mut taking, &progress)?;
    progress.go_on("writing");
    taking.exporter.finish(&read.whole()).with_context(failed)?;
    Ok(Exit::Success)
}

fn exporter(format: ExportFormat, out: ExportWriter) -> io::Result<Box<dyn Exporter>> {
    Ok(match format {
        ExportFormat::Folded => Box::new(Folded::new(out)),
        #[cfg(feature = "pprof")]
        ExportFormat::Pprof => Box::new(Pprof::new(out)),
        ExportFormat::Firefox => Box::new(Firefox::new(out)),
        ExportFormat::Speedscope => Box::new(Speedscope::new(out)),
        ExportFormat::Chrome => Box::new(Chrome::new(out)),
        #[cfg(feature = "parquet")]
        ExportFormat::Parquet => Box::new(Parquet::new(out)?),
        ExportFormat::Jsonl => Box::new(JsonLines::new(out)),
    })
}

struct Taking {
    exporter: Box<dyn Exporter>,
}

impl SampleSink for Taking {
    fn sample(&mut self, profile: &Profile, sample: &Sample) -> io::Result<()> {
        self.exporter.sample(profile, sample)
    }
}
