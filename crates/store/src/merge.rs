//! Merges sorted files of a table into one.

use std::cmp::Ordering;
use std::io::Write;

use parquet::errors::ParquetError;

use crate::block_codes::BlockCodes;
use crate::column_cursor::PageDecoder;
use crate::row_cursor::RowCursor;
use crate::rows::{NULL_INT, Rows};
use crate::schema::{ColumnKind, FRAMES, FrameColumn, TableDefinition};
use crate::segment::MAX_STACK_FRAMES;
use crate::table_file::TableFile;
use crate::table_writer::{GROUP_ROWS, TableWriter};
use crate::texts::TextTable;

/// Rows of an input that are decoded together.
const BLOCK_ROWS: usize = 1 << 8;

/// Memory of texts, in bytes, from which on they are forgotten after a row group.
const MAX_TEXT_MEMORY: usize = 8 << 20;

/// Values by which rows are ordered: texts, then numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowKey {
    texts: [u32; 3],
    ints: [i64; 2],
}

/// An input and its current row.
struct MergeInput {
    cursor: RowCursor,
    codes: BlockCodes,
    row: usize,
    key: RowKey,
}

impl MergeInput {
    /// Goes to the next row. Returns false after the last one.
    fn advance(&mut self, decoder: &mut PageDecoder) -> Result<bool, ParquetError> {
        self.row += 1;
        if self.row >= self.cursor.rows().len() {
            self.row = 0;
            if !self.cursor.next_block(BLOCK_ROWS, decoder)? {
                return Ok(false);
            }
            if self.cursor.has_new_dictionaries() {
                self.codes.clear();
            }
        }
        Ok(true)
    }

    fn read_key(&mut self, table: &TableDefinition, texts: &mut TextTable) {
        let mut key = RowKey::default();
        let mut next = [0; 2];
        // A stack's frames are taken together.
        let columns = if *table == FRAMES { &table.sort[..1] } else { table.sort };
        for column in columns {
            if table.columns[*column].kind == ColumnKind::Text {
                key.texts[next[0]] = self.codes.get(&self.cursor, *column, self.row, texts);
                next[0] += 1;
            } else {
                key.ints[next[1]] = self.cursor.rows().int(*column, self.row);
                next[1] += 1;
            }
        }
        self.key = key;
    }
}

/// The inputs, as a heap: the one with the least row is first.
pub(crate) struct Merge {
    table: &'static TableDefinition,
    inputs: Vec<MergeInput>,
    texts: TextTable,
    decoder: PageDecoder,
    /// Rows that aren't written yet.
    rows: Rows,
    /// Rows that a row group must have room for before more are added.
    room: usize,
    /// The last stack, and its first row. Only used for frames.
    stack: Option<i64>,
    begin: usize,
}

impl Merge {
    pub(crate) fn new(table: &'static TableDefinition) -> Result<Self, ParquetError> {
        Ok(Self {
            table,
            inputs: Vec::new(),
            texts: TextTable::default(),
            decoder: PageDecoder::new()?,
            rows: Rows::new(table),
            room: if *table == FRAMES { MAX_STACK_FRAMES } else { 0 },
            stack: None,
            begin: 0,
        })
    }

    /// Adds an input.
    pub(crate) fn add(&mut self, file: TableFile) -> Result<(), ParquetError> {
        let cursor = RowCursor::new(file, self.table);
        let mut input =
            MergeInput { cursor, codes: BlockCodes::default(), row: 0, key: RowKey::default() };
        if input.advance(&mut self.decoder)? {
            input.row = 0;
            input.read_key(self.table, &mut self.texts);
            self.inputs.push(input);
        }
        Ok(())
    }

    /// Writes all rows. Of frames at the same place of a stack, only the best is written. Returns
    /// the number of rows.
    pub(crate) fn run<W: Write + Send>(
        &mut self,
        out: &mut TableWriter<W>,
    ) -> Result<u64, ParquetError> {
        let mut written = 0;
        for at in (0..self.inputs.len()).rev() {
            self.sink(at);
        }
        while !self.inputs.is_empty() {
            let is_same = self.stack == Some(self.inputs[0].key.ints[0]);
            if self.rows.len() >= GROUP_ROWS - self.room && !is_same {
                written += self.write_group(out)?;
            }
            let has_more = if *self.table == FRAMES {
                self.take_stacks()?
            } else {
                self.push_row();
                self.inputs[0].advance(&mut self.decoder)?
            };
            if has_more {
                self.inputs[0].read_key(self.table, &mut self.texts);
            } else {
                self.inputs.swap_remove(0);
            }
            self.sink(0);
        }
        if self.rows.len() > 0 {
            written += self.write_group(out)?;
        }
        Ok(written)
    }

    /// Adds the frames of the least stack from the first input. Returns whether the input has more.
    fn take_stacks(&mut self) -> Result<bool, ParquetError> {
        let stack = self.inputs[0].key.ints[0];
        if self.stack != Some(stack) {
            self.stack = Some(stack);
            self.begin = self.rows.len();
        }
        let mut place = self.begin;
        loop {
            let MergeInput { cursor, row, .. } = &self.inputs[0];
            let depth = cursor.rows().int(FrameColumn::Depth as usize, *row);
            let own = |rows: &Rows, at| rows.int(FrameColumn::Depth as usize, at);
            while place < self.rows.len() && own(&self.rows, place) < depth {
                place += 1;
            }
            let is_known = place < self.rows.len() && own(&self.rows, place) == depth;
            self.push_row();
            let last = self.rows.len() - 1;
            if is_known {
                if !self.rows.are_equal(last, place)
                    && self.frame_order(last) < self.frame_order(place)
                {
                    self.rows.swap_remove(place);
                } else {
                    self.rows.truncate(last);
                }
            }
            if !self.inputs[0].advance(&mut self.decoder)? {
                return Ok(false);
            }
            let MergeInput { cursor, row, .. } = &self.inputs[0];
            if cursor.rows().int(FrameColumn::StackId as usize, *row) != stack {
                return Ok(true);
            }
        }
    }

    fn write_group<W: Write + Send>(
        &mut self,
        out: &mut TableWriter<W>,
    ) -> Result<u64, ParquetError> {
        out.write_group(&self.rows, &self.texts)?;
        let count = self.rows.len() as u64;
        self.rows.clear();
        self.stack = None;
        if self.texts.memory() > MAX_TEXT_MEMORY {
            self.texts.clear();
            for input in &mut self.inputs {
                input.codes.clear();
                input.read_key(self.table, &mut self.texts);
            }
        }
        Ok(count)
    }

    /// Appends the least row.
    fn push_row(&mut self) {
        let MergeInput { cursor, codes, row, .. } = &mut self.inputs[0];
        codes.push_row(cursor, *row, &mut self.rows, &mut self.texts);
    }

    /// Orders frames of one place as `docs/store.md` does.
    fn frame_order(&self, row: usize) -> impl Ord + '_ {
        let text = |column: FrameColumn| {
            let text = self.texts.get(self.rows.code(column as usize, row));
            (text.is_none(), text)
        };
        let line = self.rows.int(FrameColumn::Line as usize, row);
        let line = (line == NULL_INT, line);
        (text(FrameColumn::Function), text(FrameColumn::File), line, text(FrameColumn::Module))
    }

    /// Restores the heap below an input.
    fn sink(&mut self, at: usize) {
        let mut at = at;
        loop {
            let children = [2 * at + 1, 2 * at + 2];
            let mut least = at;
            for child in children {
                if child < self.inputs.len() && self.order(child, least) == Ordering::Less {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.inputs.swap(at, least);
            at = least;
        }
    }

    fn order(&self, left: usize, right: usize) -> Ordering {
        let [left, right] = [left, right].map(|at| &self.inputs[at].key);
        for (left, right) in left.texts.iter().zip(&right.texts) {
            if left != right {
                return self.texts.get(*left).cmp(&self.texts.get(*right));
            }
        }
        left.ints.cmp(&right.ints)
    }
}
