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
use crate::rows::{Part, RowSink, RowValue};

use self::stacks::StackSums;
use self::sums::sum;

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
        let sums = sum(&self.reader, &request.selection, &columns, None, control)?;
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
        part: Part,
        control: &RunControl<'_>,
        each: &mut RowSink<'_>,
    ) -> Result<(), FleetError> {
        let stacks = || StackSums::read(&self.reader, &request.selection, control);
        match (&request.question, part) {
            (Question::Top { by, with_total, limit }, _) => {
                let (rows, weights) = self.groups(request, *by, *with_total, control)?;
                pass_ranked(rows, &weights, *limit, *with_total, each)
            }
            (Question::Diff { by, with_total, .. }, _) => {
                let (rows, weights) = self.groups(request, *by, *with_total, control)?;
                pass_ranked(rows, &weights, usize::MAX, *with_total, each)
            }
            (_, Part::Rates) => rates::pass(&self.reader, &request.selection, control, each),
            (Question::Search { pattern, .. }, Part::Functions) => {
                let pattern = compile(pattern)?;
                let function = Grouping::Column(SampleColumn::Function);
                let stacks = stacks()?;
                let rows = stacks.totals(function, Some(&pattern));
                pass_ranked(rows, &stacks.weights(), usize::MAX, true, each)
            }
            (Question::Search { pattern, .. }, Part::Callers) => {
                stacks()?.pass_callers(&compile(pattern)?, each)
            }
            (_, Part::Hosts) => hosts::pass(&self.reader, &request.selection, control, each),
            (_, Part::Builds) => stacks()?.pass_builds(each),
            _ => self.pass_times(request, control, each),
        }
    }
}

impl BuiltIn {
    fn pass_times(
        &self,
        request: &Request,
        control: &RunControl<'_>,
        each: &mut RowSink<'_>,
    ) -> Result<(), FleetError> {
        use std::collections::BTreeMap;
        let wanted = [SampleColumn::Event, SampleColumn::Window, SampleColumn::WindowUs];
        let query = request.selection.query();
        let sinks = self.reader.scan(&query, &wanted, BTreeMap::new, |times, batch| {
            let [starts, lengths] =
                [SampleColumn::Window, SampleColumn::WindowUs].map(|c| batch.ints(c));
            let events = batch.codes(SampleColumn::Event);
            let mut last: Option<(u32, [i64; 2])> = None;
            let mut merge = |event: u32, range: [i64; 2]| {
                let name = batch.texts(SampleColumn::Event).and_then(|texts| texts.get(event));
                let known = times.entry(name.unwrap_or_default().to_owned()).or_insert(range);
                *known = [known[0].min(range[0]), known[1].max(range[1])];
            };
            for row in 0..batch.rows() {
                let range = [starts[row], starts[row].saturating_add(lengths[row])];
                last = match last {
                    Some((event, known)) if event == events[row] => {
                        Some((event, [known[0].min(range[0]), known[1].max(range[1])]))
                    }
                    other => {
                        if let Some((event, known)) = other {
                            merge(event, known);
                        }
                        Some((events[row], range))
                    }
                };
            }
            if let Some((event, known)) = last {
                merge(event, known);
            }
        })?;
        control.check()?;
        let mut times: BTreeMap<String, [i64; 2]> = BTreeMap::new();
        for (event, range) in sinks.into_iter().flatten() {
            let known = times.entry(event).or_insert(range);
            *known = [known[0].min(range[0]), known[1].max(range[1])];
        }
        for (event, [first, last]) in &times {
            each(&[RowValue::Text(event), RowValue::Int(*first), RowValue::Int(*last)])?;
        }
        Ok(())
    }
}

fn compile(pattern: &str) -> Result<regex_lite::Regex, FleetError> {
    regex_lite::Regex::new(pattern).map_err(|error| {
        FleetError::Question(format!("'{pattern}' isn't a regular expression: {error}"))
    })
}
