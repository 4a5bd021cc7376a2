//! The outputs of lines: one for all, or one more for the samples of each event.

use std::io::{self, Write};

use tare_format::file::Description;
use tare_replay::{Machine, Tracepoints};

use crate::error::ScriptError;
use crate::lines::LineBuffer;
use crate::options::ScriptOptions;
use crate::pending;
use crate::printer::LinePrinter;

/// Opens the output of an event by the event's name, which is untrusted.
pub type OpenEventOutput<'a> =
    Box<dyn FnMut(&[u8]) -> Result<Box<dyn Write + 'a>, ScriptError> + 'a>;

/// A printer and its output.
pub(crate) struct PrinterOutput<'a> {
    pub(crate) printer: LinePrinter<'a>,
    pub(crate) lines: LineBuffer<Box<dyn Write + 'a>>,
    samples: u64,
}

impl PrinterOutput<'_> {
    /// Ends a record. Lines with gaps wait until debug info is read for many of them.
    pub(crate) fn end_record(&mut self, machine: &Machine) -> io::Result<()> {
        if !self.printer.has_gaps() {
            return self.lines.end_record();
        }
        if self.lines.text().len() + self.printer.gap_bytes() < pending::BLOCK {
            return Ok(());
        }
        self.printer.fill_gaps(machine, self.lines.text());
        self.lines.flush()
    }
}

/// The outputs of a recording.
pub(crate) struct Outputs<'a> {
    options: &'a ScriptOptions,
    arch: Vec<u8>,
    main: PrinterOutput<'a>,
    /// By event; empty without `open_event`.
    per_event: Vec<PrinterOutput<'a>>,
    open_event: Option<OpenEventOutput<'a>>,
    tracepoints: Tracepoints,
}

impl<'a> Outputs<'a> {
    /// `arch` is the recorded machine's, as `uname -m` prints it.
    pub(crate) fn new(
        options: &'a ScriptOptions,
        arch: &[u8],
        main: Box<dyn Write + 'a>,
        open_event: Option<OpenEventOutput<'a>>,
    ) -> Self {
        let printer = LinePrinter::new(options, arch);
        Self {
            options,
            arch: arch.to_vec(),
            main: PrinterOutput { printer, lines: LineBuffer::new(main), samples: 0 },
            per_event: Vec::new(),
            open_event,
            tracepoints: Tracepoints::default(),
        }
    }

    /// Returns the output of records other than samples.
    pub(crate) fn main(&mut self) -> &mut PrinterOutput<'a> {
        &mut self.main
    }

    /// Returns the output of an event's next sample, and counts the sample.
    pub(crate) fn for_sample(&mut self, event: usize) -> &mut PrinterOutput<'a> {
        let output = self.per_event.get_mut(event).unwrap_or(&mut self.main);
        output.samples += 1;
        output
    }

    /// Opens the outputs of events that became known since the last call.
    ///
    /// # Errors
    /// Fails if an output can't be opened.
    pub(crate) fn learn(&mut self, description: &Description) -> Result<(), ScriptError> {
        let Some(open_event) = &mut self.open_event else { return Ok(()) };
        if self.per_event.len() == description.events().len() {
            return Ok(());
        }
        self.tracepoints.learn(description);
        for event in &description.events()[self.per_event.len()..] {
            let lines = LineBuffer::new(open_event(&self.tracepoints.event_name(event))?);
            let printer = self.main.printer.with_same_clock(self.options, &self.arch);
            self.per_event.push(PrinterOutput { printer, lines, samples: 0 });
        }
        Ok(())
    }

    /// Writes everything that is left after the last record.
    pub(crate) fn end(&mut self, machine: &Machine) -> io::Result<()> {
        for output in self.per_event.iter_mut().chain([&mut self.main]) {
            output.printer.fill_gaps(machine, output.lines.text());
            output.lines.flush()?;
        }
        Ok(())
    }

    /// Returns the number of samples in the output of each event.
    pub(crate) fn samples_per_event(&self) -> Vec<u64> {
        self.per_event.iter().map(|output| output.samples).collect()
    }
}
