//! tare's own reader of stores, with the rows that the SQL gives.

mod hosts;
mod rates;
mod stacks;
mod sums;
mod trends;

use std::path::Path;

use tare_store::StoreReader;
use tare_store::schema::SampleColumn;

use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{Grouping, Question, Request};
use crate::rows::{Part, PartSink, RowSink, RowValue};

use self::stacks::StackSums;
use self::sums::{SumOptions, sum};

pub use trends::{TrendOptions, TrendSeries, Trends};

/// tare's own reader.
pub struct BuiltIn {
    reader: StoreReader,
}

impl BuiltIn {
    /// Opens a store in a folder, read by `threads` threads.
    ///
    /// # Errors
    /// Fails if it doesn't exist.
    pub fn open(store: &Path, threads: usize) -> Result<Self, FleetError> {
        Ok(Self::new(StoreReader::open(store, threads)?))
    }

    /// Asks this reader.
    #[must_use]
    pub fn new(reader: StoreReader) -> Self {
        Self { reader }
    }

    /// Returns the rows of [`Part::Sums`] and the weight of each event.
    fn groups(
        &self,
        request: &Request,
        by: Grouping,
        with_total: bool,
        control: &RunControl<'_>,
    ) -> Result<(Vec<NamedSum>, EventWeights), FleetError> {
        match by {
            Grouping::Column(column) if !(with_total && by.has_callers()) => {
                let rows = self.sums(request, column, control)?;
                let mut weights = EventWeights::new();
                for row in &rows {
                    *weights.entry(row.event.clone()).or_insert(0) += row.own;
                }
                Ok((rows, weights))
            }
            _ => {
                let stacks = StackSums::read(&self.reader, &request.selection, control)?;
                Ok((stacks.totals(by, None), stacks.weights()))
            }
        }
    }

    fn sums(
        &self,
        request: &Request,
        by: SampleColumn,
        control: &RunControl<'_>,
    ) -> Result<Vec<NamedSum>, FleetError> {
        let columns = [SampleColumn::Event, by];
        let by = SumOptions { columns: &columns, ..SumOptions::default() };
        let sums = sum(&self.reader, &request.selection, by, control)?;
        let rows = sums.groups().map(|(key, sum)| NamedSum {
            event: sums.text(key.texts[0]).unwrap_or_default().to_owned(),
            name: sums.text(key.texts[1]).map(str::to_owned),
            samples: sum.samples,
            own: sum.weight,
            total: sum.weight,
        });
        Ok(rows.collect())
    }
}

/// Weight of all samples by event.
type EventWeights = std::collections::BTreeMap<String, i64>;

/// A row of [`Part::Sums`] before the weights of events are known.
struct NamedSum {
    event: String,
    name: Option<String>,
    samples: i64,
    own: i64,
    total: i64,
}

/// Passes the rows with the most weight of each event, in the order of the SQL.
fn pass_ranked(
    mut rows: Vec<NamedSum>,
    weights: &EventWeights,
    limit: usize,
    by_total: bool,
    each: &mut RowSink<'_>,
) -> Result<(), FleetError> {
    let first = |row: &NamedSum| if by_total { [-row.total, -row.own] } else { [-row.own, 0] };
    rows.sort_unstable_by(|a, b| {
        let order = a.event.cmp(&b.event).then(first(a).cmp(&first(b)));
        order.then_with(|| (a.name.is_none(), &a.name).cmp(&(b.name.is_none(), &b.name)))
    });
    for event in rows.chunk_by(|a, b| a.event == b.event) {
        for row in event.iter().take(limit) {
            each(&[
                RowValue::Text(&row.event),
                RowValue::from_text(row.name.as_deref()),
                RowValue::Int(row.samples),
                RowValue::Int(row.own),
                RowValue::Int(row.total),
                RowValue::Int(weights.get(&row.event).copied().unwrap_or(0)),
            ])?;
        }
    }
    Ok(())
}

impl Engine for BuiltIn {
    fn name(&self) -> &'static str {
        "built-in"
    }

    fn rows(
        &self,
        request: &Request,
        control: &RunControl<'_>,
        each: &mut PartSink<'_>,
    ) -> Result<(), FleetError> {
        let Request { question, selection } = request;
        let reader = &self.reader;
        match question {
            Question::Top { by, with_total, limit } => {
                let (rows, weights) = self.groups(request, *by, *with_total, control)?;
                let each = &mut |row: &[RowValue<'_>]| each(Part::Sums, row);
                pass_ranked(rows, &weights, *limit, *with_total, each)
            }
            Question::Diff { by, with_total, .. } => {
                let (rows, weights) = self.groups(request, *by, *with_total, control)?;
                let each = &mut |row: &[RowValue<'_>]| each(Part::Sums, row);
                pass_ranked(rows, &weights, usize::MAX, *with_total, each)
            }
            Question::Regressions { .. } => {
                rates::pass(reader, selection, control, &mut |row| each(Part::Rates, row))
            }
            Question::Search { pattern, .. } => self.search(request, pattern, control, each),
            Question::Losses { .. } => {
                hosts::pass(reader, selection, control, &mut |row| each(Part::Hosts, row))
            }
            Question::Nameless => {
                let stacks = StackSums::read(reader, selection, control)?;
                stacks.pass_builds(&mut |row| each(Part::Builds, row))
            }
            Question::Flame { by } => {
                let Grouping::Column(by) = by else {
                    return Err(FleetError::Question(format!(
                        "flame: {} isn't a label",
                        by.name()
                    )));
                };
                let others = [*by, SampleColumn::WaitReason];
                let stacks = StackSums::read_by(reader, selection, &others, false, control)?;
                stacks.pass_labelled(&mut |row| each(Part::Stacks, row))?;
                stacks.pass_frames(&mut |row| each(Part::Frames, row))
            }
            // It is asked by `query`.
            Question::Sql { .. } => Ok(()),
        }
    }
}

impl BuiltIn {
    fn search(
        &self,
        request: &Request,
        pattern: &str,
        control: &RunControl<'_>,
        each: &mut PartSink<'_>,
    ) -> Result<(), FleetError> {
        let pattern = compile(pattern)?;
        let leaf = [SampleColumn::Function];
        let stacks = StackSums::read_by(&self.reader, &request.selection, &leaf, true, control)?;
        stacks.pass_times(&mut |row| each(Part::Times, row))?;
        stacks.pass_callers(&pattern, &mut |row| each(Part::Callers, row))?;
        let function = Grouping::Column(SampleColumn::Function);
        let rows = stacks.totals(function, Some(&pattern));
        let each = &mut |row: &[RowValue<'_>]| each(Part::Functions, row);
        pass_ranked(rows, &stacks.weights(), usize::MAX, true, each)
    }
}

fn compile(pattern: &str) -> Result<regex_lite::Regex, FleetError> {
    regex_lite::Regex::new(pattern).map_err(|error| {
        FleetError::Question(format!("'{pattern}' isn't a regular expression: {error}"))
    })
}
