//! Where lines go: to standard output, or those of each event to a file of its own.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tare_format::file::Description;
use tare_record::own_file;
use tare_replay::{Machine, Tracepoints};

use super::inline;
use super::line::Lines;
use super::sample::Printer;
use crate::cli::resolved::script::Script;

/// A printer, and what it prints to.
pub(super) struct Output<'a> {
    pub(super) printer: Printer<'a>,
    pub(super) lines: Lines<Box<dyn Write + 'a>>,
    /// Of an event: its file, and how many samples it has.
    file: Option<(PathBuf, File, u64)>,
}

impl Output<'_> {
    /// A record is complete.
    pub(super) fn end_record(&mut self, machine: &Machine) -> io::Result<()> {
        if !self.printer.has_open_lines() {
            return self.lines.end();
        }
        if self.lines.text().len() < inline::BLOCK {
            return Ok(());
        }
        self.printer.fill(machine, self.lines.text());
        self.lines.flush()
    }
}

/// Where lines go.
pub(super) struct Outputs<'a> {
    script: &'a Script,
    arch: Vec<u8>,
    stdout: Output<'a>,
    of_events: Vec<Output<'a>>,
    tracepoints: Tracepoints,
}

impl<'a> Outputs<'a> {
    /// `arch` is the recorded machine's, as `uname -m` has it.
    pub(super) fn new(script: &'a Script, arch: &[u8], stdout: Box<dyn Write + 'a>) -> Self {
        let printer = Printer::new(script, arch);
        let lines = Lines::new(stdout);
        let stdout = Output { printer, lines, file: None };
        Self {
            script,
            arch: arch.to_vec(),
            stdout,
            of_events: Vec::new(),
            tracepoints: Tracepoints::default(),
        }
    }

    /// Where records go that are no samples.
    pub(super) fn stdout(&mut self) -> &mut Output<'a> {
        &mut self.stdout
    }

    /// Where samples of an event go.
    pub(super) fn of(&mut self, event: usize) -> &mut Output<'a> {
        let Some(output) = self.of_events.get_mut(event) else { return &mut self.stdout };
        if let Some((_, _, samples)) = &mut output.file {
            *samples += 1;
        }
        output
    }

    /// Makes the files of the events that are known by now, where they have files.
    ///
    /// # Errors
    /// A file can't be made.
    pub(super) fn learn(&mut self, description: &Description) -> anyhow::Result<()> {
        if !self.script.per_event_dump || self.of_events.len() == description.events().len() {
            return Ok(());
        }
        self.tracepoints.learn(description);
        for event in &description.events()[self.of_events.len()..] {
            let path = path(&self.script.input, &self.tracepoints.event_name(event));
            let failed = || format!("--per-event-dump: {}", path.display());
            let file = own_file::create(&path, false).with_context(failed)?;
            let out = file.try_clone().with_context(failed)?;
            let lines: Lines<Box<dyn Write + 'a>> = Lines::new(Box::new(out));
            let printer = self.stdout.printer.beside(&self.arch);
            self.of_events.push(Output { printer, lines, file: Some((path, file, 0)) });
        }
        Ok(())
    }

    /// The recording has ended.
    pub(super) fn end(&mut self, machine: &Machine) -> io::Result<()> {
        for output in self.of_events.iter_mut().chain([&mut self.stdout]) {
            output.printer.fill(machine, output.lines.text());
            output.lines.flush()?;
        }
        Ok(())
    }

    /// Everything is written; says what of each event, as perf does.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        for output in &mut self.of_events {
            output.lines.flush()?;
            let Some((path, file, samples)) = &output.file else { continue };
            let megabytes = file.metadata()?.len() as f64 / 1024.0 / 1024.0;
            let name = path.display().to_string();
            let name = tare_format::printable(name.as_bytes());
            let line =
                format!("[ tare script: Wrote {megabytes:.3} MB {name} ({samples} samples) ]\n");
            self.stdout.lines.text().extend_from_slice(line.as_bytes());
        }
        self.stdout.lines.flush()
    }
}

/// `perf.data.cycles.dump`, beside the recording; of a stream in the folder that tare runs in.
fn path(input: &Path, event: &[u8]) -> PathBuf {
    let event = tare_format::printable(event).replace('/', "_");
    let input = if input == Path::new("-") { Path::new("perf.data") } else { input };
    let mut name = input.as_os_str().to_owned();
    name.push(format!(".{event}.dump"));
    PathBuf::from(name)
}
