//! The sink that prints samples and other records as lines.

use std::io::{self, Write};
use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::file::features::ARCH;
use tare_format::record::{Record, Sample, kind};
use tare_replay::{Machine, Replayed, SampleFilter, Sink};

use crate::error::ScriptError;
use crate::options::ScriptOptions;
use crate::outputs::{OpenEventOutput, Outputs};

/// Writes the recording's description above the first line.
pub type HeaderWriter<'a> = Box<dyn FnOnce(&mut Vec<u8>, &Description) -> io::Result<()> + 'a>;

/// Prints samples, and other records on request, as lines of text.
pub struct TextSink<'a> {
    outputs: Outputs<'a>,
    filter: SampleFilter,
    /// `None` once the header is printed.
    header: Option<HeaderWriter<'a>>,
    has_samples: bool,
    callchains: bool,
}

impl<'a> TextSink<'a> {
    /// Prints to `out`; with `open_event`, prints the samples of each event to the output that it
    /// opens.
    pub fn new(
        options: &'a ScriptOptions,
        description: &Description,
        filter: SampleFilter,
        out: Box<dyn Write + 'a>,
        open_event: Option<OpenEventOutput<'a>>,
    ) -> Self {
        let arch = description.features().text(ARCH).unwrap_or_default();
        Self {
            outputs: Outputs::new(options, arch, out, open_event),
            filter,
            header: None,
            has_samples: false,
            callchains: options.callchains,
        }
    }

    /// Prints a header above the first line.
    #[must_use]
    pub fn with_header(self, header: Option<HeaderWriter<'a>>) -> Self {
        Self { header, ..self }
    }

    /// Whether the recording has a sample before the end of the filter's times, printed or not.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.has_samples
    }

    /// Returns the number of samples in the output of each event; empty if all have one output.
    #[must_use]
    pub fn samples_per_event(&self) -> Vec<u64> {
        self.outputs.samples_per_event()
    }

    /// Prints the header above the first line, and learns events. A stream describes itself in
    /// records before the kernel's first one, so the header waits for that record.
    fn begin_record<T>(&mut self, record: &Replayed<'_, T>) -> Result<(), ScriptError> {
        if record.raw.kind < kind::USER_TYPE_START
            && let Some(header) = self.header.take()
        {
            header(self.outputs.main().lines.text(), record.description)?;
        }
        self.outputs.learn(record.description)
    }
}

impl Sink for TextSink<'_> {
    type Error = ScriptError;

    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        self.callchains && self.filter.may_pass(sample)
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, ScriptError> {
        if self.filter.is_past(sample.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        self.has_samples = true;
        self.begin_record(sample)?;
        if self.filter.passes(machine, sample) {
            let output = self.outputs.for_sample(sample.event.unwrap_or(0));
            output.printer.add_sample(output.lines.text(), machine, sample)?;
            output.end_record(machine)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, ScriptError> {
        if self.filter.is_past(record.time_ns) {
            return Ok(ControlFlow::Break(()));
        }
        self.begin_record(record)?;
        let output = self.outputs.main();
        output.printer.add_record(output.lines.text(), machine, record)?;
        output.end_record(machine)?;
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> Result<(), ScriptError> {
        Ok(self.outputs.end(machine)?)
    }
}
