//! Sums of samples by up to four texts and a number.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use tare_store::schema::SampleColumn;
use tare_store::{SampleBatch, StoreReader};

use crate::engine::RunControl;
use crate::error::FleetError;
use crate::question::Selection;

/// Texts of a group.
pub(super) const TEXTS: usize = 4;

/// A text of a dictionary that has no number yet.
const UNKNOWN: u32 = u32::MAX;

/// A group: numbers of texts, 0 for NULL, and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub(super) texts: [u32; TEXTS],
    pub(super) number: i64,
}

/// Sums of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupSum {
    pub(super) samples: i64,
    pub(super) weight: i64,
}

impl GroupSum {
    pub(super) fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
    }
}

/// Sums by group.
#[derive(Default)]
pub(super) struct Sums {
    texts: IndexSet<String, RandomState>,
    groups: HashMap<GroupKey, GroupSum, RandomState>,
    /// Numbers of the texts of each column's dictionary.
    numbers: Vec<Vec<u32>>,
}

impl Sums {
    fn number(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return 0 };
        let at = self.texts.get_index_of(text);
        let at = at.unwrap_or_else(|| self.texts.insert_full(text.to_owned()).0);
        u32::try_from(at + 1).unwrap_or(0)
    }

    /// Returns a text of a group.
    pub(super) fn text(&self, number: u32) -> Option<&str> {
        self.texts.get_index((number as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Returns all groups, in no particular order.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&GroupKey, &GroupSum)> {
        self.groups.iter()
    }

    /// Adds the rows of a batch, each with its number if there are any. Rows are sorted, so equal
    /// groups follow each other.
    fn add(&mut self, batch: &SampleBatch<'_>, columns: &[SampleColumn], numbers: &[i64]) {
        if batch.has_new_dictionaries() || self.numbers.len() != columns.len() {
            self.numbers = vec![Vec::new(); columns.len()];
        }
        let codes: Vec<&[u32]> = columns.iter().map(|column| batch.codes(*column)).collect();
        let samples = batch.ints(SampleColumn::Samples);
        let weights = batch.ints(SampleColumn::Weight);
        let mut begin = 0;
        for row in 1..=batch.rows() {
            let is_equal = row < batch.rows()
                && codes.iter().all(|codes| codes[row] == codes[begin])
                && (numbers.is_empty() || numbers[row] == numbers[begin]);
            if is_equal {
                continue;
            }
            let mut key = GroupKey {
                number: numbers.get(begin).copied().unwrap_or(0),
                ..GroupKey::default()
            };
            for (at, column) in columns.iter().enumerate() {
                key.texts[at] = self.known_number(batch, at, *column, codes[at][begin]);
            }
            let sum = |values: &[i64]| values[begin..row].iter().sum();
            let sum = GroupSum { samples: sum(samples), weight: sum(weights) };
            self.groups.entry(key).or_default().add(sum);
            begin = row;
        }
    }

    fn known_number(
        &mut self,
        batch: &SampleBatch<'_>,
        at: usize,
        column: SampleColumn,
        code: u32,
    ) -> u32 {
        let known = self.numbers[at].get(code as usize).copied().unwrap_or(UNKNOWN);
        if known != UNKNOWN {
            return known;
        }
        let number = self.number(batch.texts(column).and_then(|texts| texts.get(code)));
        let numbers = &mut self.numbers[at];
        if numbers.len() <= code as usize {
            numbers.resize(code as usize + 1, UNKNOWN);
        }
        numbers[code as usize] = number;
        number
    }

    fn merge(&mut self, other: &Self) {
        for (key, sum) in &other.groups {
            let texts = key.texts.map(|number| self.number(other.text(number)));
            self.groups.entry(GroupKey { texts, ..*key }).or_default().add(*sum);
        }
    }
}

/// Sums the samples of a selection by columns of texts, [`TEXTS`] at most, and a number.
pub(super) fn sum(
    reader: &StoreReader,
    selection: &Selection,
    columns: &[SampleColumn],
    number: Option<SampleColumn>,
    control: &RunControl<'_>,
) -> Result<Sums, FleetError> {
    let summed = SummedColumns { texts: columns, numbers: number.as_slice() };
    sum_by(reader, selection, &summed, control, |batch| {
        Cow::Borrowed(number.map_or(&[][..], |column| batch.ints(column)))
    })
}

/// Columns that [`sum_by`] reads.
pub(super) struct SummedColumns<'a> {
    /// Those of groups, [`TEXTS`] at most.
    pub(super) texts: &'a [SampleColumn],
    /// Those that a group's number is made from.
    pub(super) numbers: &'a [SampleColumn],
}

/// Sums the samples of a selection by columns of texts, and by the number that `numbers` makes for
/// each row of a batch.
pub(super) fn sum_by(
    reader: &StoreReader,
    selection: &Selection,
    columns: &SummedColumns<'_>,
    control: &RunControl<'_>,
    numbers: impl for<'b> Fn(&'b SampleBatch<'_>) -> Cow<'b, [i64]> + Sync,
) -> Result<Sums, FleetError> {
    let mut wanted = vec![SampleColumn::Samples, SampleColumn::Weight];
    wanted.extend(columns.texts.iter().chain(columns.numbers).copied());
    let sinks = reader.scan(&selection.query(), &wanted, Sums::default, |sums, batch| {
        if control.check().is_ok() {
            sums.add(batch, columns.texts, &numbers(batch));
        }
    })?;
    control.check()?;
    let mut sinks = sinks.into_iter();
    let mut sums = sinks.next().unwrap_or_default();
    sinks.for_each(|other| sums.merge(&other));
    Ok(sums)
}
