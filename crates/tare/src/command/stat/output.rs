//! Writes results in the chosen form to the chosen destination.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use anyhow::Context;
use tare_measure::stat::{Columns, Results, Span, StatLine, csv, document, json_lines, text};

use crate::cli::resolved::stat::{Destination, StatForm, StatOutput};
use tare_record::own_file::{self, GrowingFile};

/// Writes intervals and totals.
pub(super) struct StatWriter {
    out: BufWriter<Box<dyn Write>>,
    form: StatForm,
    columns: Columns,
    /// How CSV labels the totals.
    total: Span,
    intervals: document::Intervals,
    /// Whether the screen is cleared before each interval.
    clears: bool,
    /// Lines printed since the last heading of intervals.
    since_heading: usize,
}

impl StatWriter {
    /// Opens the destination. `keys`: whether lines have a column for the key of their row.
    pub(super) fn open(output: &StatOutput, keys: bool) -> anyhow::Result<Self> {
        Ok(Self {
            out: open(output)?,
            form: output.form.clone(),
            columns: Columns {
                metric_only: output.metric_only,
                big_numbers: output.big_numbers,
                each_run: output.each_run,
                keys,
            },
            total: if output.summary_column { Span::Summary } else { Span::Total },
            clears: output.clears,
            intervals: document::Intervals::default(),
            since_heading: 0,
        })
    }

    /// Writes the counts of an interval that ended `at` after the start.
    pub(super) fn interval(&mut self, at: Duration, lines: &[StatLine]) -> anyhow::Result<()> {
        if self.clears && self.form != StatForm::Document {
            // Cursor home, then erase the screen. Each screen gets a heading.
            self.out.write_all(b"\x1b[H\x1b[2J").context("cannot write the results")?;
            self.since_heading = 0;
        }
        let out = &mut self.out;
        let columns = self.columns;
        let span = Span::Interval(at);
        if let StatForm::Csv(separator) = &self.form
            && columns.metric_only
            && self.since_heading == 0
        {
            csv::write_metric_heading(out, separator, columns, span, lines)
                .context("cannot write the results")?;
            self.since_heading = 1;
        }
        match &self.form {
            StatForm::Text => {
                text::write_interval(out, columns, at, lines, &mut self.since_heading)
            }
            StatForm::Csv(separator) => csv::write_lines(out, separator, columns, span, lines),
            StatForm::JsonLines => json_lines::write_lines(out, columns, span, lines),
            StatForm::Document => {
                self.intervals.add(at, lines);
                return Ok(());
            }
        }
        .and_then(|()| self.out.flush())
        .context("cannot write the results")
    }

    /// Writes the totals.
    pub(super) fn totals(&mut self, results: &Results) -> anyhow::Result<()> {
        let out = &mut self.out;
        let columns = self.columns;
        match &self.form {
            StatForm::Text => text::write_totals(out, columns, results),
            StatForm::Csv(separator) => {
                let lines = results.lines();
                let heading = if columns.metric_only {
                    csv::write_metric_heading(out, separator, columns, self.total, &lines)
                } else {
                    Ok(())
                };
                heading.and_then(|()| csv::write_lines(out, separator, columns, self.total, &lines))
            }
            StatForm::JsonLines => {
                json_lines::write_lines(out, columns, self.total, &results.lines())
            }
            StatForm::Document => Ok(()),
        }
        .context("cannot write the results")
    }

    /// Writes the JSON document, if that is the form, and flushes.
    pub(super) fn finish(mut self, results: &Results) -> anyhow::Result<()> {
        let document = match self.form {
            StatForm::Document => document::write(&mut self.out, results, self.intervals),
            _ => Ok(()),
        };
        document.and_then(|()| self.out.flush()).context("cannot write the results")
    }
}

/// Opens the destination. Only its owner can read a new file.
pub(super) fn open(output: &StatOutput) -> anyhow::Result<BufWriter<Box<dyn Write>>> {
    let out: Box<dyn Write> = match &output.destination {
        Destination::Stderr => Box::new(io::stderr()),
        Destination::Nowhere => Box::new(io::sink()),
        Destination::Stdout => Box::new(io::stdout()),
        Destination::Descriptor(fd) => Box::new(File::from(
            tare_kernel::inherited_descriptor(*fd).with_context(|| format!("--log-fd {fd}"))?,
        )),
        Destination::File { path, append: true } => {
            Box::new(own_file::append(path).with_context(|| format!("-o {}", path.display()))?)
        }
        Destination::File { path, append: false } => {
            Box::new(GrowingFile::create(path).with_context(|| format!("-o {}", path.display()))?)
        }
    };
    Ok(BufWriter::new(out))
}
