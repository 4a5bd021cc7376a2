//! `tare script`: prints a recording as lines of text or as JSON, a sample at a time.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tare_annotate::SourceRoot;
use tare_format::file::Description;
use tare_format::ledger::Ledger;
use tare_record::own_file;
use tare_replay::{Recording, Replay, ReplayOptions, SampleFilter};
use tare_script::{HeaderWriter, JsonLayout, JsonSink, OpenEventOutput, ScriptError, TextSink};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::Extent;
use crate::cli::resolved::script::{Script, ScriptForm};
use crate::command::header;
use crate::command::output::{create_whole, named};
use crate::command::recording::{self, open};
use crate::command::report::dump;
use crate::exit::{self, Exit, Refusal};

pub(crate) fn run(raw: &raw::ScriptArgs) -> Outcome {
    let mut script = Script::new(raw)?;
    let progress = ProgressLine::beside_stdout();
    let recording = open(&script.input, &mut script.symbols, &progress)?;
    script.options.sources = SourceRoot::new(&script.symbols, None);
    match &script.output {
        &ScriptForm::Header(extent) => {
            let captured = header::file_time(&script.input);
            write_text(|text| header::write_only(text, recording, captured, extent))?;
        }
        &ScriptForm::Text(extent) => text(&script, recording, extent)?,
        ScriptForm::Dump => write_text(|text| dump(text, recording, &script.input))?,
        ScriptForm::Json => json(&script, recording)?,
        ScriptForm::PerfJson(path) => perf_json(&script, recording, path)?,
    }
    Ok(Exit::Success)
}

fn write_text(write: impl FnOnce(&mut Vec<u8>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    write(&mut text)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&text)?;
    Ok(stdout.flush()?)
}

fn replay(script: &Script) -> Replay {
    let symbols = script.symbols.clone();
    Replay::new(ReplayOptions { symbols, reads_ahead: true, ..ReplayOptions::default() })
}

fn text(script: &Script, mut recording: Recording, header: Option<Extent>) -> anyhow::Result<()> {
    let description = recording.description();
    let filter =
        SampleFilter::new(script.filter.clone(), description).map_err(recording::refusal)?;
    let mut dumps = EventDumps { input: &script.input, files: Vec::new() };
    let open_event: Option<OpenEventOutput<'_>> =
        script.per_event_dump.then_some(Box::new(|event: &[u8]| dumps.create(event)));
    let stdout = Box::new(io::stdout().lock());
    let write_header = header.map(|extent| -> HeaderWriter<'_> {
        Box::new(move |text, description| header::write(text, description, extent))
    });
    let mut sink = TextSink::new(&script.options, description, filter, stdout, open_event)
        .with_header(write_header);
    let losses = replay(script).run(&mut recording, &mut sink);
    let has_samples = sink.has_samples();
    let samples = sink.samples_per_event();
    drop(sink);
    dumps.write_summary(&samples)?;
    let losses = losses.map_err(refusal)?;
    if losses.stat_records > 0 && !has_samples {
        let name = script.input.display();
        let message = format!(
            "{name}: it holds counts of perf stat record, and no samples (perf stat report -i {name})"
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    tare_render::loss_lines(&losses).iter().for_each(|line| exit::say(line));
    Ok(())
}

fn json(script: &Script, mut recording: Recording) -> anyhow::Result<()> {
    let filter = SampleFilter::new(script.filter.clone(), recording.description())
        .map_err(recording::refusal)?;
    let out = io::stdout().lock();
    let mut sink = JsonSink::new(&script.options, filter, out, JsonLayout::Lines)?;
    let losses = replay(script).run(&mut recording, &mut sink).map_err(refusal)?;
    let ledger = ledger(recording.description());
    Ok(sink.finish(&losses, ledger.as_ref())?)
}

fn perf_json(script: &Script, mut recording: Recording, path: &Path) -> anyhow::Result<()> {
    let filter = SampleFilter::new(script.filter.clone(), recording.description())
        .map_err(recording::refusal)?;
    let (out, file) = create_whole(path)?;
    let failed = || named(path);
    let sink = JsonSink::new(&script.options, filter, out, JsonLayout::PerfDocument);
    let mut sink = sink.with_context(failed)?;
    let losses = replay(script).run(&mut recording, &mut sink).map_err(refusal)?;
    let features = recording.description().features();
    sink.finish_document(features).and_then(|()| file.publish()).with_context(failed)?;
    tare_render::loss_lines(&losses).iter().for_each(|line| exit::say(line));
    Ok(())
}

fn refusal(error: ScriptError) -> anyhow::Error {
    match error {
        ScriptError::MissingField(message) => Refusal::usage(message).into(),
        ScriptError::Replay(error) => error.into(),
        ScriptError::Open { path, source } => {
            anyhow::Error::new(source).context(format!("--per-event-dump: {}", path.display()))
        }
        ScriptError::Write(error) => error.into(),
    }
}

/// Returns the last ledger in the recording.
fn ledger(description: &Description) -> Option<Ledger> {
    description.notes().iter().rev().find_map(|note| Ledger::from_note(note))
}

/// The files of `--per-event-dump`.
struct EventDumps<'a> {
    /// The recording.
    input: &'a Path,
    files: Vec<(PathBuf, File)>,
}

impl EventDumps<'_> {
    fn create(&mut self, event: &[u8]) -> Result<Box<dyn Write>, ScriptError> {
        let path = dump_path(self.input, event);
        let created = own_file::create(&path).and_then(|file| Ok((file.try_clone()?, file)));
        match created {
            Ok((out, file)) => {
                self.files.push((path, file));
                Ok(Box::new(out))
            }
            Err(source) => Err(ScriptError::Open { path, source }),
        }
    }

    /// Prints the size of each file, as perf does.
    fn write_summary(&self, samples: &[u64]) -> anyhow::Result<()> {
        let mut stdout = io::stdout().lock();
        for ((path, file), samples) in self.files.iter().zip(samples) {
            let metadata = file.metadata().with_context(|| path.display().to_string())?;
            let megabytes = metadata.len() as f64 / 1024.0 / 1024.0;
            let name = path.display().to_string();
            let name = tare_format::printable(name.as_bytes());
            writeln!(
                stdout,
                "[ tare script: Wrote {megabytes:.3} MB {name} ({samples} samples) ]"
            )?;
        }
        Ok(stdout.flush()?)
    }
}

/// `perf.data.cycles.dump`, beside the recording; for standard input in the current folder.
fn dump_path(input: &Path, event: &[u8]) -> PathBuf {
    let event = tare_format::printable(event).replace('/', "_");
    let input = if input == Path::new("-") { Path::new(raw::DEFAULT_RECORDING) } else { input };
    let mut name = input.as_os_str().to_owned();
    name.push(format!(".{event}.dump"));
    PathBuf::from(name)
}
