//! Weight over time, by labels, and a function's part of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;
use tare_store::schema::SampleColumn;

use crate::engine::RunControl;
use crate::engine::built_in::BuiltIn;
use crate::engine::built_in::sums::{SumOptions, sum, sum_by};
use crate::error::FleetError;
use crate::question::{Grouping, Selection};

/// Most columns that series are distinguished by.
const MAX_LABELS: usize = 3;

/// Which series [`BuiltIn::trends`] makes.
#[derive(Clone, Debug)]
pub struct TrendOptions {
    /// Labels that distinguish series, three at most; a module isn't one.
    pub by: Vec<Grouping>,
    /// The function whose weight, with its callees, is each series' part.
    pub function: Option<String>,
    /// Number of slices of time.
    pub slices: usize,
}

/// A series: weight by slice of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrendSeries {
    /// The event.
    pub event: String,
    /// Values of the labels.
    pub names: Vec<Option<String>>,
    /// Number of samples.
    pub samples: i64,
    /// Weight of each slice.
    pub weights: Vec<i64>,
    /// The function's weight in each slice; empty without a function.
    pub parts: Vec<i64>,
}

/// Weight over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trends {
    /// Start of the first slice, in microseconds since 1970.
    pub start_us: i64,
    /// Length of a slice in microseconds.
    pub step_us: i64,
    /// The series by event and labels; those without samples are left out.
    pub series: Vec<TrendSeries>,
}

/// Slices of equal length.
#[derive(Clone, Copy)]
struct TimeSlices {
    start_us: i64,
    step_us: i64,
    count: usize,
}

impl TimeSlices {
    /// Divides the selection's times; whole minutes, so that a window isn't in two slices.
    fn new(selection: &Selection, count: usize) -> Result<Self, FleetError> {
        const MINUTE_US: u64 = 60_000_000;
        let range =
            selection.since_us.zip(selection.until_us).filter(|(since, until)| since < until);
        let no_range = || FleetError::Question("trends: give a range of time".to_owned());
        let (start_us, end_us) = range.ok_or_else(no_range)?;
        let length_us = end_us.abs_diff(start_us);
        let minutes = length_us.div_ceil(count.max(1) as u64).div_ceil(MINUTE_US).max(1);
        let step_us = minutes.saturating_mul(MINUTE_US);
        let count = usize::try_from(length_us.div_ceil(step_us)).unwrap_or(1);
        let step_us = i64::try_from(step_us).unwrap_or(i64::MAX);
        Ok(Self { start_us, step_us, count })
    }

    /// Returns twice the slice of a time, so that a bit remains.
    fn doubled(self, time_us: i64) -> i64 {
        time_us.saturating_sub(self.start_us) / self.step_us * 2
    }
}

impl BuiltIn {
    /// Returns weight over time. The selection needs a first and a last moment.
    ///
    /// # Errors
    /// Fails as [`Answer::ask`](crate::Answer::ask) does, without times, and with more than three
    /// labels.
    pub fn trends(
        &self,
        selection: &Selection,
        options: &TrendOptions,
        control: &RunControl<'_>,
    ) -> Result<Trends, FleetError> {
        let slices = TimeSlices::new(selection, options.slices)?;
        let mut columns = vec![SampleColumn::Event];
        for by in options.by.iter().take(MAX_LABELS) {
            match by {
                Grouping::Column(column) => columns.push(*column),
                Grouping::Module => {
                    let message = "a module has no trend: choose a label";
                    return Err(FleetError::Question(message.to_owned()));
                }
            }
        }
        let stacks = match &options.function {
            Some(function) => Some(self.stacks_with(function, selection, control)?),
            None => None,
        };
        let read: &[SampleColumn] = match stacks {
            Some(_) => &[SampleColumn::Window, SampleColumn::StackId],
            None => &[SampleColumn::Window],
        };
        let by = SumOptions { columns: &columns, read, ..SumOptions::default() };
        let sums = sum_by(&self.reader, selection, by, control, |batch| {
            let windows = batch.ints(SampleColumn::Window).iter();
            let mut numbers: Vec<i64> = windows.map(|time_us| slices.doubled(*time_us)).collect();
            if let Some(wanted) = &stacks {
                let stacks = batch.ints(SampleColumn::StackId);
                for (number, stack) in numbers.iter_mut().zip(stacks) {
                    *number |= i64::from(wanted.contains(stack));
                }
            }
            Cow::Owned(numbers)
        })?;
        let mut series: BTreeMap<Vec<Option<&str>>, TrendSeries> = BTreeMap::new();
        for (key, sum) in sums.groups() {
            let names: Vec<Option<&str>> =
                (0..columns.len()).map(|at| sums.text(key.texts[at])).collect();
            let one = series.entry(names).or_insert_with_key(|names| TrendSeries {
                event: names[0].unwrap_or_default().to_owned(),
                names: names[1..].iter().map(|name| name.map(str::to_owned)).collect(),
                samples: 0,
                weights: vec![0; slices.count],
                parts: vec![0; if stacks.is_some() { slices.count } else { 0 }],
            });
            one.samples += sum.samples;
            let Ok(slice) = usize::try_from(key.number / 2) else { continue };
            add(&mut one.weights, slice, sum.weight);
            if key.number % 2 == 1 {
                add(&mut one.parts, slice, sum.weight);
            }
        }
        let series = series.into_values().collect();
        Ok(Trends { start_us: slices.start_us, step_us: slices.step_us, series })
    }

    /// Returns the stacks that have a frame of a function.
    fn stacks_with(
        &self,
        function: &str,
        selection: &Selection,
        control: &RunControl<'_>,
    ) -> Result<HashSet<i64, RandomState>, FleetError> {
        let by = SumOptions {
            columns: &[SampleColumn::Event],
            number: Some(SampleColumn::StackId),
            ..SumOptions::default()
        };
        let ids = sum(&self.reader, selection, by, control)?;
        let mut ids: HashSet<i64, RandomState> = ids.groups().map(|(key, _)| key.number).collect();
        let stacks = self.reader.stacks(&selection.query(), &ids)?;
        control.check()?;
        ids.retain(|id| stacks.frames(*id).any(|frame| frame.function == Some(function)));
        Ok(ids)
    }
}

fn add(weights: &mut [i64], slice: usize, weight: i64) {
    if let Some(sum) = weights.get_mut(slice) {
        *sum = sum.saturating_add(weight);
    }
}
