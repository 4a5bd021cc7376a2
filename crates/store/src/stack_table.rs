//! The frames of stacks: each frame once, with a name if any file has one.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use parquet::errors::ParquetError;

use crate::block_codes::BlockCodes;
use crate::column_cursor::PageDecoder;
use crate::error::StoreError;
use crate::filter::Query;
use crate::publication::encoding_error;
use crate::reader::{StoreReader, again};
use crate::row_cursor::RowCursor;
use crate::rows::NULL_INT;
use crate::schema::{FRAMES, FrameColumn};
use crate::table_file::TableFile;
use crate::texts::TextTable;

const BLOCK_ROWS: usize = 1 << 13;

/// A frame as a store has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredFrame<'a> {
    /// Name of the function, if it has one.
    pub function: Option<&'a str>,
    /// Source file.
    pub file: Option<&'a str>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Path of the binary or library.
    pub module: Option<&'a str>,
    /// Build id of the module, in hexadecimal.
    pub build_id: Option<&'a str>,
    /// Offset in the module's file.
    pub address: u64,
}

/// A frame whose texts are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FrameCodes {
    function: u32,
    file: u32,
    line: i64,
    module: u32,
    build_id: u32,
    address: i64,
}

/// Frames of stacks.
#[derive(Debug, Default)]
pub struct StackTable {
    texts: TextTable,
    frames: IndexSet<FrameCodes, RandomState>,
    /// Indexes into `frames`, innermost first; `MISSING` where a file has no row of a depth.
    stacks: HashMap<i64, Vec<u32>, RandomState>,
}

const MISSING: u32 = u32::MAX;

/// Most frames of a stack that are read.
const MAX_DEPTH: usize = 1 << 16;

impl StackTable {
    /// Returns the frames of a stack, innermost first; none if the store doesn't have it.
    pub fn frames(&self, stack_id: i64) -> impl ExactSizeIterator<Item = StoredFrame<'_>> {
        let frames = self.stacks.get(&stack_id).map_or(&[][..], Vec::as_slice);
        frames.iter().map(|index| self.frame(*index))
    }

    /// Returns the number of stacks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Returns whether it has no stack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    fn frame(&self, index: u32) -> StoredFrame<'_> {
        let Some(frame) = self.frames.get_index(index as usize) else {
            return StoredFrame::default();
        };
        let text = |code| self.texts.get(code).and_then(|text| std::str::from_utf8(text).ok());
        StoredFrame {
            function: text(frame.function),
            file: text(frame.file),
            line: u32::try_from(frame.line).ok(),
            module: text(frame.module),
            build_id: text(frame.build_id),
            address: frame.address.cast_unsigned(),
        }
    }

    /// Adds a frame, unless the table has a better one at this place.
    fn add(&mut self, stack_id: i64, depth: usize, frame: FrameCodes) {
        let index = self.frames.insert_full(frame).0;
        let index = u32::try_from(index).unwrap_or(MISSING);
        let stack = self.stacks.entry(stack_id).or_default();
        if stack.len() <= depth {
            stack.resize(depth + 1, MISSING);
        }
        let old = stack[depth];
        if old == index {
            return;
        }
        let is_better = match self.frames.get_index(old as usize) {
            Some(old) => self.order(&frame) < self.order(old),
            None => true,
        };
        if is_better && let Some(stack) = self.stacks.get_mut(&stack_id) {
            stack[depth] = index;
        }
    }

    /// Orders frames of one place as `docs/store.md` does: named ones first, then by their texts.
    fn order(&self, frame: &FrameCodes) -> impl Ord {
        let text = |code| {
            let text = self.texts.get(code);
            (text.is_none(), text.cloned())
        };
        let line = (frame.line == NULL_INT, frame.line);
        (text(frame.function), text(frame.file), line, text(frame.module))
    }

    /// Adds the wanted stacks of a decoded block.
    fn add_block(
        &mut self,
        cursor: &RowCursor,
        codes: &mut BlockCodes,
        wants: impl Fn(i64) -> bool,
    ) {
        if cursor.has_new_dictionaries() {
            codes.clear();
        }
        let rows = cursor.rows();
        for row in 0..rows.len() {
            let stack_id = rows.int(FrameColumn::StackId as usize, row);
            let depth = usize::try_from(rows.int(FrameColumn::Depth as usize, row));
            let Some(depth) = depth.ok().filter(|depth| *depth < MAX_DEPTH && wants(stack_id))
            else {
                continue;
            };
            let mut text = |column| codes.get(cursor, column as usize, row, &mut self.texts);
            let frame = FrameCodes {
                function: text(FrameColumn::Function),
                file: text(FrameColumn::File),
                line: rows.int(FrameColumn::Line as usize, row),
                module: text(FrameColumn::Module),
                build_id: text(FrameColumn::BuildId),
                address: rows.int(FrameColumn::Address as usize, row),
            };
            self.add(stack_id, depth, frame);
        }
    }
}

impl StoreReader {
    /// Reads the frames of the given stacks, from files of the query's times.
    ///
    /// # Errors
    /// Fails if a folder or a file can't be read.
    pub fn stacks<S: std::hash::BuildHasher>(
        &self,
        query: &Query,
        wanted: &HashSet<i64, S>,
    ) -> Result<StackTable, StoreError> {
        again(|| self.read_stacks(query, wanted))
    }

    fn read_stacks<S: std::hash::BuildHasher>(
        &self,
        query: &Query,
        wanted: &HashSet<i64, S>,
    ) -> Result<StackTable, StoreError> {
        let mut table = StackTable::default();
        let decoder = PageDecoder::new();
        let mut decoder = decoder.map_err(|error| encoding_error(Path::new("zstd"), error))?;
        let Some(min) = wanted.iter().min() else { return Ok(table) };
        let max = wanted.iter().max().unwrap_or(min);
        for file in self.files(&FRAMES, query)? {
            let file = TableFile::open(&file.path, &FRAMES)?;
            let mut cursor = RowCursor::new(file, &FRAMES);
            let overlaps = |file: &TableFile, group| {
                let range = file.int_range(group, FrameColumn::StackId as usize);
                range.is_none_or(|range| range.min <= *max && range.max >= *min)
            };
            let read = add_file(&mut table, &mut cursor, &mut decoder, overlaps, |stack| {
                wanted.contains(&stack)
            });
            read.map_err(|error| encoding_error(cursor.file().path(), error))?;
        }
        Ok(table)
    }
}

fn add_file(
    table: &mut StackTable,
    cursor: &mut RowCursor,
    decoder: &mut PageDecoder,
    wants_group: impl Fn(&TableFile, usize) -> bool,
    wants: impl Fn(i64) -> bool,
) -> Result<(), ParquetError> {
    let mut codes = BlockCodes::default();
    loop {
        cursor.skip_groups(&wants_group);
        if !cursor.next_block(BLOCK_ROWS, decoder)? {
            return Ok(());
        }
        table.add_block(cursor, &mut codes, &wants);
    }
}
