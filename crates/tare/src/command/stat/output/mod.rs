//! Where results go, and in which form.

mod csv;
mod document;
mod json_lines;
mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use anyhow::Context;

use super::report::{Line, Results};
use tare_record::own_file;

use crate::cli::resolved::stat::{Destination, Form, Output};

/// Writes results as they come.
pub(super) struct Writer {
    out: BufWriter<Box<dyn Write>>,
    output: Output,
    intervals: document::Intervals,
    /// Lines since the last heading of intervals.
    since_heading: usize,
}

impl Writer {
    /// Opens the destination.
    pub(super) fn open(output: &Output) -> anyhow::Result<Self> {
        let out = open(output)?;
        Ok(Self {
            out,
            output: output.clone(),
            intervals: document::Intervals::default(),
            since_heading: 0,
        })
    }

    /// Writes what was counted in an interval that ended `at` after the start.
    pub(super) fn interval(
        &mut self,
        (at, lines): &(Duration, Vec<Line>),
        results: &Results<'_>,
    ) -> anyhow::Result<()> {
        let out = &mut self.out;
        let keys = results.shows_keys();
        match &self.output.form {
            Form::Text => {
                text::interval(out, &self.output, *at, lines, keys, &mut self.since_heading)
            }
            Form::Csv(separator) => {
                csv::lines(out, separator, &self.output, Some(*at), lines, keys)
            }
            Form::JsonLines => json_lines::lines(out, &self.output, Some(*at), lines, keys),
            Form::Document => {
                self.intervals.add(*at, lines);
                return Ok(());
            }
        }
        .and_then(|()| self.out.flush())
        .context("cannot write the results")
    }

    /// Writes the sums over everything.
    pub(super) fn totals(&mut self, results: &Results<'_>) -> anyhow::Result<()> {
        let lines = results.lines();
        let (out, keys) = (&mut self.out, results.shows_keys());
        match &self.output.form {
            Form::Text => text::totals(out, &self.output, &lines, results),
            Form::Csv(separator) => csv::lines(out, separator, &self.output, None, &lines, keys),
            Form::JsonLines => json_lines::lines(out, &self.output, None, &lines, keys),
            Form::Document => Ok(()),
        }
        .context("cannot write the results")
    }

    /// Writes what is still to be written.
    pub(super) fn finish(mut self, results: &Results<'_>) -> anyhow::Result<()> {
        let document = match self.output.form {
            Form::Document => document::write(&mut self.out, results, self.intervals),
            _ => Ok(()),
        };
        document.and_then(|()| self.out.flush()).context("cannot write the results")
    }
}

/// Opens the destination. A file is readable by its owner alone.
pub(super) fn open(output: &Output) -> anyhow::Result<BufWriter<Box<dyn Write>>> {
    let out: Box<dyn Write> = match &output.destination {
        Destination::Stderr => Box::new(io::stderr()),
        Destination::Stdout => Box::new(io::stdout()),
        Destination::Descriptor(fd) => Box::new(File::from(
            tare_kernel::inherited_descriptor(*fd).with_context(|| format!("--log-fd {fd}"))?,
        )),
        Destination::File { path, append } => Box::new(
            own_file::create(path, *append).with_context(|| format!("-o {}", path.display()))?,
        ),
    };
    Ok(BufWriter::new(out))
}

/// What a value is written as where no value was counted, as in perf.
const NOT_COUNTED: &str = "<not counted>";
const NOT_SUPPORTED: &str = "<not supported>";
