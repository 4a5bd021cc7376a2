//! `tare script`: a recording as text, a line or more for each sample, or as JSON, an object for
//! each.

mod chain;
mod code;
mod events;
mod extra;
mod inline;
mod json;
mod line;
mod outputs;
mod sample;

use std::io::Write;
use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::file::features::ARCH;
use tare_format::record::{Record, Sample, kind};
use tare_kernel::file_window::catch_bus_errors;
use tare_replay::{Machine, ReplayOptions, Recording, Replay, Replayed, Sink};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::Extent;
use crate::cli::resolved::script::{Script, ScriptForm};
use crate::command::filter::Passing;
use crate::command::header;
use crate::command::recording::open;
use crate::command::report::dump;
use crate::exit::{self, Exit, Refusal};
use json::Objects;
use line::Lines;
use outputs::Outputs;
use tare_format::ledger::Ledger;

pub(crate) fn run(raw: &raw::ScriptArgs) -> Outcome {
    let mut script = Script::new(raw)?;
    let progress = ProgressLine::beside_stdout();
    let recording = open(&script.input, &mut script.symbols, &progress)?;
    // A file with debug info may be truncated while it is read.
    catch_bus_errors();
    let mut lines = Lines::new(std::io::stdout().lock());
    match script.output {
        ScriptForm::Header(extent) => header::write_only(lines.text(), recording, extent)?,
        ScriptForm::Text(extent) => text(&script, recording, extent)?,
        ScriptForm::Dump => dump(lines.text(), recording, &script.input)?,
        ScriptForm::Json => objects(&script, recording, &mut lines)?,
    }
    lines.flush()?;
    Ok(Exit::Success)
}

fn replay(script: &Script) -> Replay {
    let symbols = script.symbols.clone();
    Replay::new(ReplayOptions { symbols, reads_ahead: true, ..ReplayOptions::default() })
}

fn text(script: &Script, mut recording: Recording, header: Option<Extent>) -> anyhow::Result<()> {
    let description = recording.description();
    let arch = description.features().text(ARCH).unwrap_or_default();
    let filter = Passing::new(&script.filter, description)?;
    let outputs = Outputs::new(script, arch, Box::new(std::io::stdout()));
    let has_samples = false;
    let callchains = script.callchains;
    let mut sink = TextSink { outputs, filter, header, has_samples, callchains };
    let losses = replay(script).run(&mut recording, &mut sink);
    let has_samples = sink.has_samples;
    sink.outputs.finish()?;
    let ledger = ledger(recording.description());
    let recorder = ledger.as_ref().map(tare_render::ledger_lines).unwrap_or_default();
    let losses = losses?;
    if losses.stat_records > 0 && !has_samples {
        let name = script.input.display();
        let message = format!(
            "{name}: it holds counts of perf stat record, and no samples (perf stat report -i {name})"
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    let losses = tare_render::loss_lines(&losses);
    losses.iter().chain(&recorder).for_each(|line| exit::say(line));
    Ok(())
}

/// Prints each record as lines.
struct TextSink<'a> {
    outputs: Outputs<'a>,
    filter: Passing<'a>,
    /// Still to be printed.
    header: Option<Extent>,
    has_samples: bool,
    callchains: bool,
}

impl TextSink<'_> {
    /// What a stream says of itself comes before the kernel's first record.
    fn begin<T>(&mut self, record: &Replayed<'_, T>) -> anyhow::Result<()> {
        if let Some(extent) = self.header.take_if(|_| record.raw.kind < kind::USER_TYPE_START) {
            header::write(self.outputs.stdout().lines.text(), record.description, extent)?;
        }
        self.outputs.learn(record.description)
    }
}

impl Sink for TextSink<'_> {
    type Error = anyhow::Error;

    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        self.callchains && self.filter.may_pass(sample)
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        if self.filter.is_past(sample.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        self.has_samples = true;
        self.begin(sample)?;
        if self.filter.passes(machine, sample) {
            let output = self.outputs.of(sample.event.unwrap_or(0));
            let text = output.lines.text();
            output.printer.sample(text, machine, sample).map_err(Refusal::usage)?;
            output.end_record(machine)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        if self.filter.is_past(record.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        self.begin(record)?;
        let output = self.outputs.stdout();
        let text = output.lines.text();
        output.printer.other(text, machine, record).map_err(Refusal::usage)?;
        output.end_record(machine)?;
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        Ok(self.outputs.end(machine)?)
    }
}

fn objects(
    script: &Script,
    mut recording: Recording,
    lines: &mut Lines<impl Write>,
) -> anyhow::Result<()> {
    let objects = Objects::new(script);
    let filter = Passing::new(&script.filter, recording.description())?;
    Objects::begin(lines.text())?;
    let mut sink = ObjectSink { objects, filter, lines, callchains: script.callchains };
    let losses = replay(script).run(&mut recording, &mut sink)?;
    let ledger = ledger(recording.description());
    sink.objects.end(sink.lines.text(), &losses, ledger.as_ref())?;
    Ok(())
}

/// Prints each sample as a JSON object.
struct ObjectSink<'a, W> {
    objects: Objects<'a>,
    filter: Passing<'a>,
    lines: &'a mut Lines<W>,
    callchains: bool,
}

impl<W: Write> Sink for ObjectSink<'_, W> {
    type Error = anyhow::Error;

    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        self.callchains && self.filter.may_pass(sample)
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        if self.filter.is_past(sample.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        if self.filter.passes(machine, sample) {
            self.objects.sample(self.lines.text(), machine, sample)?;
            self.lines.end()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        Ok(self.objects.write_waiting(self.lines.text(), machine)?)
    }
}

/// What the recorder said about itself last.
fn ledger(description: &Description) -> Option<Ledger> {
    description.notes().iter().rev().find_map(|note| Ledger::from_note(note))
}
