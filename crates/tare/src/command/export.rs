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
use crate::cli::resolved::samples::SampleSelection;
use crate::command::output::{create_whole, named};
use crate::command::recording;
use crate::command::samples::{NeededParts, replay};
#[cfg(feature = "parquet")]
use crate::command::samples::{SampleTaker, replay_recording};
use crate::command::stored;
use crate::exit::{Exit, Refusal};

/// Formats in which a sample without a time has no place.
const NEED_TIMES: [&str; 2] = ["chrome", "firefox"];

pub(crate) fn run(raw: raw::ExportArgs) -> Outcome {
    let export = Export::resolve(raw)?;
    let format = export.format;
    let is_stdout = export.output == Path::new("-");
    let Some(create) = format.create else {
        check_tables(&export)?;
        return match &export.samples.stored {
            Some(stored) => stored::extract(stored, &export.output),
            None => write_tables(&export.samples, &export.output),
        };
    };
    if format.is_binary && is_stdout && io::stdout().is_terminal() {
        return Err(Refusal::usage(format!(
            "{} is a binary format: write a file (-o profile.{}), or pipe it",
            format.name, format.extension
        ))
        .into());
    }
    // Before the output is created: a missing recording leaves no file behind.
    match &export.samples.stored {
        None => recording::exists(&export.samples.input)?,
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
    let exporter = create(out).with_context(failed)?;
    let mut sink = ExportSink { exporter };
    let needed =
        NeededParts { traces: format.has_traces, addresses: format.has_addresses, windows: false };
    let progress = if is_stdout { ProgressLine::beside_stdout() } else { ProgressLine::begin() };
    let read = replay(&export.samples, needed, &mut sink, &progress)?;
    progress.show_step("writing");
    sink.exporter.finish(&read.whole()).and_then(|()| file.publish()).with_context(failed)?;
    Ok(Exit::Success)
}

/// Can't be called: such a build lacks the format.
#[cfg(not(feature = "parquet"))]
fn write_tables(_: &SampleSelection, _: &Path) -> Outcome {
    Ok(Exit::Failure)
}

/// Writes the samples of a recording into a new store.
#[cfg(feature = "parquet")]
fn write_tables(samples: &SampleSelection, to: &Path) -> Outcome {
    recording::exists(&samples.input)?;
    let mut export = tare_agent::RecordingExport::begin(to, env!("CARGO_PKG_VERSION"))?;
    let progress = ProgressLine::begin();
    let taker = SampleTaker::Windows(&mut export);
    let read = replay_recording(samples, NeededParts::default(), taker, &progress)?;
    export.finish(&read.profile.losses, read.ledger.as_ref())?;
    Ok(Exit::Success)
}

/// Refuses options that tables can't have.
fn check_tables(export: &Export) -> Result<(), Refusal> {
    let is_file = export.output.extension().is_some_and(|extension| extension == "parquet");
    if export.output == Path::new("-") || is_file {
        return Err(Refusal::usage(
            "parquet writes three tables into a folder, as a store has them: name it with -o DIR",
        ));
    }
    if export.samples.wall_clock || export.samples.inline {
        return Err(Refusal::usage("--wall-clock and --inline have no effect on a store's tables"));
    }
    if export.samples.stored.is_some() && !export.samples.events.is_empty() {
        return Err(Refusal::usage(
            "--event doesn't select a store's rows: use --where event=NAME",
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
