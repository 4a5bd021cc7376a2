//! `tare export`: samples in the formats of other tools.

use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;

use anyhow::Context;
use tare_profile::Profile;
use tare_render::export::{ExportWriter, Exporter};
use tare_render::{LocatedSample, SampleSink};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::export::Export;
use crate::command::output::{create_whole, named};
use crate::command::samples::{NeededParts, replay};
use crate::command::stored;
use crate::exit::{Exit, Refusal};

/// Formats in which a sample without a time has no place.
const NEED_TIMES: [&str; 2] = ["chrome", "firefox"];

/// The format of a store's own tables.
const TABLES: &str = "parquet";

pub(crate) fn run(raw: raw::ExportArgs) -> Outcome {
    let export = Export::resolve(raw)?;
    let format = export.format;
    let is_stdout = export.output == Path::new("-");
    if let Some(stored) = export.samples.stored.as_ref().filter(|_| format.name == TABLES) {
        check_extract(&export)?;
        return stored::extract(stored, &export.output);
    }
    if format.is_binary && is_stdout && io::stdout().is_terminal() {
        return Err(Refusal::usage(format!(
            "{} is a binary format: write a file (-o profile.{}), or pipe it",
            format.name, format.extension
        ))
        .into());
    }
    // Before the output is created: a missing recording leaves no file behind.
    match &export.samples.stored {
        None => crate::command::recording::exists(&export.samples.input)?,
        Some(_) if NEED_TIMES.contains(&format.name) => {
            return Err(Refusal::usage(format!(
                "{} shows samples over time, and a store has the sums of windows: choose another format",
                format.name
            ))
            .into());
        }
        Some(_) => {}
    }
    let (out, file) = create_whole(&export.output)?;
    let out: ExportWriter = Box::new(BufWriter::with_capacity(1 << 18, out));
    let failed = || named(&export.output);
    let exporter = format.create(out).with_context(failed)?;
    let mut sink = ExportSink { exporter };
    let needed =
        NeededParts { traces: format.has_traces, addresses: format.has_addresses, windows: false };
    let progress = if is_stdout { ProgressLine::beside_stdout() } else { ProgressLine::begin() };
    let read = replay(&export.samples, needed, &mut sink, &progress)?;
    progress.show_step("writing");
    sink.exporter.finish(&read.whole()).and_then(|()| file.publish()).with_context(failed)?;
    Ok(Exit::Success)
}

/// Refuses options that a part of a store can't have.
fn check_extract(export: &Export) -> Result<(), Refusal> {
    if export.output == Path::new("-") {
        return Err(Refusal::usage("a store's tables are a folder: name it with -o DIR"));
    }
    if export.samples.wall_clock || !export.samples.events.is_empty() {
        return Err(Refusal::usage(
            "--event and --wall-clock don't select a store's rows: use --where event=NAME",
        ));
    }
    Ok(())
}

/// Passes samples to an exporter.
struct ExportSink {
    exporter: Box<dyn Exporter>,
}

impl SampleSink for ExportSink {
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        self.exporter.sample(profile, sample)
    }
}
