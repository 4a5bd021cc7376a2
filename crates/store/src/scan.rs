//! The rows of a row group that a query wants, in batches.

use parquet::errors::ParquetError;

use crate::column_cursor::{ColumnCursor, PageDecoder, TextDictionary};
use crate::filter::{LabelFilter, Query};
use crate::schema::{ColumnKind, SAMPLES, SampleColumn};
use crate::table_file::TableFile;

/// Rows that are decoded together.
const BLOCK_ROWS: usize = 1 << 14;

/// A column of a row group with the rows of the current batch.
struct BatchColumn {
    column: SampleColumn,
    cursor: ColumnCursor,
    ints: Vec<i64>,
    codes: Vec<u32>,
    is_text: bool,
}

impl BatchColumn {
    fn clear(&mut self) {
        self.ints.clear();
        self.codes.clear();
    }

    fn read(&mut self, rows: usize, decoder: &mut PageDecoder) -> Result<(), ParquetError> {
        if self.is_text {
            self.cursor.read_codes(rows, decoder, &mut self.codes)
        } else {
            self.cursor.read_ints(rows, decoder, &mut self.ints)
        }
    }

    /// Keeps the rows of `selected`, which are counted from `first`.
    fn keep(&mut self, selected: &[u32], first: usize) {
        let place = |row: &u32| *row as usize - first;
        if self.is_text {
            keep(&mut self.codes, selected.iter().map(place));
        } else {
            keep(&mut self.ints, selected.iter().map(place));
        }
    }
}

/// Moves the values at `places`, which ascend, to the front, and drops the others.
fn keep<T: Copy>(values: &mut Vec<T>, places: impl ExactSizeIterator<Item = usize>) {
    let count = places.len();
    for (to, from) in places.enumerate() {
        values[to] = values[from];
    }
    values.truncate(count);
}

/// A filter, and which numbers of its column's dictionary it keeps.
struct GroupFilter<'a> {
    filter: &'a LabelFilter,
    /// Index of the column.
    at: usize,
    kept: Vec<bool>,
}

impl GroupFilter<'_> {
    fn select(&mut self, column: &BatchColumn, selected: &mut Vec<u32>) {
        let Some(texts) = column.cursor.texts() else { return };
        for code in self.kept.len()..=texts.len() {
            let text = u32::try_from(code).ok().and_then(|code| texts.get(code));
            self.kept.push(self.filter.keeps(text));
        }
        selected.retain(|row| self.kept[column.codes[*row as usize] as usize]);
    }
}

/// Rows of samples, as columns. Texts are numbers of a dictionary, which stays the same within a
/// row group, except that it grows.
pub struct SampleBatch<'a> {
    columns: &'a [BatchColumn],
    rows: usize,
    is_first: bool,
}

impl SampleBatch<'_> {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns whether this is the first batch of a row group: dictionaries aren't those of the
    /// batch before.
    #[must_use]
    pub fn has_new_dictionaries(&self) -> bool {
        self.is_first
    }

    fn column(&self, column: SampleColumn) -> Option<&BatchColumn> {
        self.columns.iter().find(|own| own.column == column)
    }

    /// Returns a column of numbers; empty if the scan wasn't asked for the column.
    #[must_use]
    pub fn ints(&self, column: SampleColumn) -> &[i64] {
        self.column(column).map_or(&[], |column| &column.ints)
    }

    /// Returns the numbers of a column's texts; empty if the scan wasn't asked for the column.
    #[must_use]
    pub fn codes(&self, column: SampleColumn) -> &[u32] {
        self.column(column).map_or(&[], |column| &column.codes)
    }

    /// Returns the dictionary of a column of texts.
    #[must_use]
    pub fn texts(&self, column: SampleColumn) -> Option<&TextDictionary> {
        self.column(column)?.cursor.texts()
    }
}

/// Returns whether a row group may have rows that the query wants.
pub(crate) fn may_match(file: &TableFile, group: usize, query: &Query) -> bool {
    if let Some(range) = file.int_range(group, SampleColumn::Window as usize)
        && (query.since_us.is_some_and(|since| range.max < since)
            || query.until_us.is_some_and(|until| range.min >= until))
    {
        return false;
    }
    query.filters.iter().all(|filter| {
        let range = file.text_range(group, filter.column() as usize);
        let Some(range) = range else { return true };
        filter.wanted().is_none_or(|wanted| (range.min..=range.max).contains(&wanted.as_bytes()))
    })
}

/// Returns whether the query's times keep all rows of the row group.
fn is_within(file: &TableFile, group: usize, query: &Query) -> bool {
    if query.since_us.is_none() && query.until_us.is_none() {
        return true;
    }
    file.int_range(group, SampleColumn::Window as usize).is_some_and(|range| {
        query.since_us.is_none_or(|since| range.min >= since)
            && query.until_us.is_none_or(|until| range.max < until)
    })
}

/// The columns of a row group: first those that decide which rows are kept.
struct GroupScan<'a> {
    columns: Vec<BatchColumn>,
    /// Number of columns that decide.
    deciding: usize,
    filters: Vec<GroupFilter<'a>>,
    /// Index of the column of times, if rows may be outside of the query's.
    window: Option<usize>,
}

impl<'a> GroupScan<'a> {
    fn new(
        file: &TableFile,
        group: usize,
        query: &'a Query,
        wanted: &[SampleColumn],
    ) -> Result<Self, ParquetError> {
        let window = (!is_within(file, group, query)).then_some(SampleColumn::Window);
        let mut order: Vec<SampleColumn> = window.into_iter().collect();
        for filter in &query.filters {
            if !order.contains(&filter.column()) {
                order.push(filter.column());
            }
        }
        let deciding = order.len();
        for column in wanted {
            if !order.contains(column) {
                order.push(*column);
            }
        }
        let place = |column| order.iter().position(|own| *own == column);
        let filters = query.filters.iter().map(|filter| GroupFilter {
            filter,
            at: place(filter.column()).unwrap_or(0),
            kept: Vec::new(),
        });
        let filters = filters.collect();
        let window = window.and_then(place);
        let mut columns = Vec::new();
        for column in order {
            let kind = SAMPLES.columns[column as usize].kind;
            let chunk = file.column(group, column as usize)?;
            columns.push(BatchColumn {
                column,
                cursor: ColumnCursor::new(chunk, kind),
                ints: Vec::new(),
                codes: Vec::new(),
                is_text: kind == ColumnKind::Text,
            });
        }
        Ok(Self { columns, deciding, filters, window })
    }

    /// Decodes the next rows and returns how many of them the query wants.
    fn read_block(
        &mut self,
        rows: usize,
        query: &Query,
        decoder: &mut PageDecoder,
        selected: &mut Vec<u32>,
    ) -> Result<usize, ParquetError> {
        self.columns.iter_mut().for_each(BatchColumn::clear);
        let (deciding, others) = self.columns.split_at_mut(self.deciding);
        if deciding.is_empty() {
            others.iter_mut().try_for_each(|column| column.read(rows, decoder))?;
            return Ok(rows);
        }
        deciding.iter_mut().try_for_each(|column| column.read(rows, decoder))?;
        selected.clear();
        selected.extend(0..u32::try_from(rows).unwrap_or(0));
        if let Some(at) = self.window {
            let times = &deciding[at].ints;
            selected.retain(|row| {
                let time = times[*row as usize];
                query.since_us.is_none_or(|since| time >= since)
                    && query.until_us.is_none_or(|until| time < until)
            });
        }
        for filter in &mut self.filters {
            filter.select(&deciding[filter.at], selected);
        }
        let Some(last) = selected.last() else {
            others.iter_mut().for_each(|column| column.cursor.skip(rows));
            return Ok(0);
        };
        let end = *last as usize + 1;
        let first = selected[0] as usize;
        for column in others {
            column.cursor.skip(first);
            column.read(end - first, decoder)?;
            column.cursor.skip(rows - end);
            if selected.len() < end - first {
                column.keep(selected, first);
            }
        }
        if selected.len() < rows {
            deciding.iter_mut().for_each(|column| column.keep(selected, 0));
        }
        Ok(selected.len())
    }
}

/// Calls `each` with the rows of a row group that the query wants.
pub(crate) fn scan_group(
    file: &TableFile,
    group: usize,
    query: &Query,
    wanted: &[SampleColumn],
    decoder: &mut PageDecoder,
    mut each: impl FnMut(&SampleBatch<'_>),
) -> Result<(), ParquetError> {
    let mut scan = GroupScan::new(file, group, query, wanted)?;
    let mut selected = Vec::new();
    let mut is_first = true;
    let mut left = file.group_rows(group);
    while left > 0 {
        let block = left.min(BLOCK_ROWS);
        left -= block;
        let rows = scan.read_block(block, query, decoder, &mut selected)?;
        if rows > 0 {
            each(&SampleBatch { columns: &scan.columns, rows, is_first });
            is_first = false;
        }
    }
    Ok(())
}
