//! Sums of samples by up to four texts and a number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

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

/// Returns where a recent sum is kept: codes one beside the other, other numbers spread.
fn place(code: u32, number: i64) -> usize {
    let spread = number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53;
    (code as usize).wrapping_add(usize::try_from(spread).unwrap_or(0)) % RECENT
}

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
    /// Length of the longest window in microseconds, if the scan has lengths.
    pub(super) length_us: i64,
}

impl GroupSum {
    pub(super) fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
        self.length_us = self.length_us.max(other.length_us);
    }
}

/// Sums that most rows find without a table of all groups.
#[derive(Clone, Copy, Default)]
struct RecentSum {
    /// Number of the last column's text in its dictionary.
    code: u32,
    /// The same in [`Sums::texts`].
    text: u32,
    is_used: bool,
    number: i64,
    sum: GroupSum,
}

/// Number of recent sums: more than a day of windows by minute, or the functions of a service.
const RECENT: usize = 1 << 11;

/// Sums by group.
#[derive(Default)]
pub(super) struct Sums {
    texts: IndexSet<String, RandomState>,
    groups: HashMap<GroupKey, GroupSum, RandomState>,
    /// First and last moment by number of the first text, if the scan has times.
    spans: HashMap<u32, [i64; 2], RandomState>,
    /// Numbers of the texts of each column's dictionary.
    numbers: Vec<Vec<u32>>,
    /// Sums of rows that are equal in all columns of texts but the last: those of `prefix`.
    recent: Vec<RecentSum>,
    prefix: GroupKey,
    /// Indexes of the recent sums in use.
    used: Vec<usize>,
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

    /// Returns the first and last moment by number of the first text.
    pub(super) fn spans(&self) -> impl Iterator<Item = (u32, [i64; 2])> {
        self.spans.iter().map(|(number, span)| (*number, *span))
    }

    fn add_span(&mut self, number: u32, span: [i64; 2]) {
        let known = self.spans.entry(number).or_insert(span);
        *known = [known[0].min(span[0]), known[1].max(span[1])];
    }

    /// Adds the rows of a batch, each with its number if there are any. Rows are sorted, so that
    /// neighbours differ in few columns.
    fn add(&mut self, batch: &SampleBatch<'_>, by: &SumOptions<'_>, numbers: &[i64]) {
        if batch.has_new_dictionaries() || self.numbers.len() != by.columns.len() {
            self.keep_recent();
            self.numbers = vec![Vec::new(); by.columns.len()];
        }
        if self.recent.is_empty() {
            self.recent.resize_with(RECENT, RecentSum::default);
        }
        let Some((_, others)) = by.columns.split_last() else { return };
        let codes: Vec<&[u32]> = others.iter().map(|column| batch.codes(*column)).collect();
        // Where the current run of equal codes ends in each column.
        let mut ends = vec![0; codes.len()];
        let mut begin = 0;
        while begin < batch.rows() {
            for (end, codes) in ends.iter_mut().zip(&codes).filter(|(end, _)| **end == begin) {
                let different = codes[begin..].iter().position(|code| *code != codes[begin]);
                *end = different.map_or(codes.len(), |length| begin + length);
            }
            let end = ends.iter().min().copied().unwrap_or(batch.rows());
            let numbers = numbers.get(begin..end).unwrap_or_default();
            self.add_rows(batch, by, begin..end, numbers);
            begin = end;
        }
    }

    /// Adds rows that are equal in all columns of texts but the last.
    fn add_rows(
        &mut self,
        batch: &SampleBatch<'_>,
        by: &SumOptions<'_>,
        rows: Range<usize>,
        numbers: &[i64],
    ) {
        let mut key = GroupKey::default();
        let last = by.columns.len() - 1;
        for (at, column) in by.columns[..last].iter().enumerate() {
            key.texts[at] = self.known_number(batch, at, *column, batch.codes(*column)[rows.start]);
        }
        if key != self.prefix {
            self.keep_recent();
            self.prefix = key;
        }
        let ints = |column| batch.ints(column).get(rows.clone()).unwrap_or_default();
        let lengths = ints(SampleColumn::WindowUs);
        if by.has_spans {
            let starts = ints(SampleColumn::Window);
            let first = starts.iter().min().copied().unwrap_or(0);
            let ends = starts.iter().zip(lengths).map(|(start, us)| start.saturating_add(*us));
            self.add_span(key.texts[0], [first, ends.max().unwrap_or(first)]);
        }
        let codes = &batch.codes(by.columns[last])[rows.clone()];
        let [samples, weights] = [SampleColumn::Samples, SampleColumn::Weight].map(ints);
        for row in 0..codes.len() {
            let code = codes[row];
            let number = numbers.get(row).copied().unwrap_or(0);
            let length_us = if by.has_lengths { lengths[row] } else { 0 };
            let sum = GroupSum { samples: samples[row], weight: weights[row], length_us };
            let at = place(code, number);
            let recent = &mut self.recent[at];
            if recent.is_used && recent.code == code && recent.number == number {
                recent.sum.add(sum);
                continue;
            }
            if recent.is_used {
                self.keep(at, last);
            } else {
                self.used.push(at);
            }
            let text = self.known_number(batch, last, by.columns[last], code);
            self.recent[at] = RecentSum { code, text, is_used: true, number, sum };
        }
    }

    /// Adds a recent sum to its group.
    fn keep(&mut self, at: usize, last: usize) {
        let RecentSum { text, number, sum, .. } = self.recent[at];
        let mut key = GroupKey { number, ..self.prefix };
        key.texts[last] = text;
        self.groups.entry(key).or_default().add(sum);
    }

    /// Adds all recent sums to their groups.
    fn keep_recent(&mut self) {
        let last = self.numbers.len().saturating_sub(1);
        for at in std::mem::take(&mut self.used) {
            self.keep(at, last);
            self.recent[at].is_used = false;
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
        for (number, span) in other.spans() {
            let number = self.number(other.text(number));
            self.add_span(number, span);
        }
    }
}

/// What samples are summed by.
#[derive(Clone, Copy, Default)]
pub(super) struct SumOptions<'a> {
    /// Columns of texts, [`TEXTS`] at most.
    pub(super) columns: &'a [SampleColumn],
    /// A column of numbers.
    pub(super) number: Option<SampleColumn>,
    /// Columns that [`sum_by`] makes a number of.
    pub(super) read: &'a [SampleColumn],
    /// Also the longest window of each group.
    pub(super) has_lengths: bool,
    /// Also the first and last moment by the first text.
    pub(super) has_spans: bool,
}

/// Sums the samples of a selection.
pub(super) fn sum(
    reader: &StoreReader,
    selection: &Selection,
    by: SumOptions<'_>,
    control: &RunControl<'_>,
) -> Result<Sums, FleetError> {
    sum_by(reader, selection, by, control, |batch| {
        Cow::Borrowed(by.number.map_or(&[][..], |column| batch.ints(column)))
    })
}

/// Sums the samples of a selection by texts, and by the number that `numbers` makes for each row of
/// a batch.
pub(super) fn sum_by(
    reader: &StoreReader,
    selection: &Selection,
    by: SumOptions<'_>,
    control: &RunControl<'_>,
    numbers: impl for<'b> Fn(&'b SampleBatch<'_>) -> Cow<'b, [i64]> + Sync,
) -> Result<Sums, FleetError> {
    let mut wanted = vec![SampleColumn::Samples, SampleColumn::Weight];
    wanted.extend(by.columns.iter().chain(by.read).copied().chain(by.number));
    wanted.extend((by.has_lengths || by.has_spans).then_some(SampleColumn::WindowUs));
    wanted.extend(by.has_spans.then_some(SampleColumn::Window));
    let sinks = reader.scan(&selection.query(), &wanted, Sums::default, |sums, batch| {
        if control.check().is_ok() {
            sums.add(batch, &by, &numbers(batch));
        }
    })?;
    control.check()?;
    let mut sinks = sinks.into_iter().map(|mut sums| {
        sums.keep_recent();
        sums
    });
    let mut sums = sinks.next().unwrap_or_default();
    sinks.for_each(|other| sums.merge(&other));
    Ok(sums)
}
