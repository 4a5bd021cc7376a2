//! Names frames that had no name when they were recorded.

use std::collections::HashMap;
use std::path::PathBuf;

use foldhash::fast::RandomState;
use parquet::errors::ParquetError;

use crate::column_cursor::PageDecoder;
use crate::compaction::INPUT_ORDER;
use crate::error::StoreError;
use crate::listing::{INPUTS, list_current};
use crate::name::{FileKind, FileName};
use crate::publication::{FilePaths, ORDER, Publication, encoding_error};
use crate::row_cursor::RowCursor;
use crate::rows::Rows;
use crate::schema::{FRAMES, FrameColumn, SAMPLES, SampleColumn};
use crate::store::Store;
use crate::table_copy::TableCopy;
use crate::table_file::TableFile;
use crate::table_writer::Effort;
use crate::texts::{MAX_TEXT_BYTES, TextTable, cut};

const BLOCK_ROWS: usize = 1 << 12;

/// Most answers that are kept for later frames.
const MAX_KNOWN: usize = 1 << 17;

/// A frame without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnnamedFrame<'a> {
    /// Build id of the module, in hexadecimal.
    pub build_id: Option<&'a str>,
    /// Path of the binary or library.
    pub module: Option<&'a str>,
    /// Offset in the module's file.
    pub address: u64,
}

/// The name of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameName {
    /// Name of the function.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
}

/// What was named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbolization {
    /// Segments that were rewritten.
    pub segments: u64,
    /// Rows of frames that got a name.
    pub frames: u64,
    /// Rows of samples whose innermost function got a name.
    pub rows: u64,
    /// Samples of these rows.
    pub samples: u64,
    /// Rows of frames that still have no name.
    pub unnamed: u64,
}

/// Asks the caller for names, and remembers the answers.
struct NameSource<F> {
    ask: F,
    known: HashMap<(String, u64), Option<FrameName>, RandomState>,
}

impl<F: FnMut(&UnnamedFrame<'_>) -> Option<FrameName>> NameSource<F> {
    /// Returns a frame's name. A frame without build id and module can't have one.
    fn find(&mut self, frame: &UnnamedFrame<'_>) -> Option<&FrameName> {
        let identity = frame.build_id.or(frame.module)?;
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let ask = &mut self.ask;
        let known = self.known.entry((identity.to_owned(), frame.address));
        known.or_insert_with(|| ask(frame)).as_ref()
    }
}

/// The names that the innermost frames of stacks got.
type LeafNames = HashMap<i64, String, RandomState>;

impl Store {
    /// Asks `names` for the name of each frame that has none, and writes the names into the tables
    /// of frames and, for innermost frames, of samples. A segment is replaced as a whole, as in
    /// compaction. `unnamed` in the table of segments stays what it was at the recording.
    ///
    /// # Errors
    /// Fails if another program compacts or names, or a file can't be read or written.
    pub fn symbolize(
        &self,
        names: impl FnMut(&UnnamedFrame<'_>) -> Option<FrameName>,
    ) -> Result<Symbolization, StoreError> {
        let _rewriting = self.folder().lock_rewriting()?;
        let mut source = NameSource { ask: names, known: HashMap::default() };
        let mut result = Symbolization::default();
        let mut folders = Vec::new();
        {
            let _writing = self.share()?;
            self.remove_replaced(&mut folders)?;
            for file in list_current(self.folder(), &FRAMES)? {
                let [named, unnamed] = count_names(&file.path, &mut source)
                    .map_err(|error| encoding_error(&file.path, error))?;
                result.unnamed += unnamed;
                let samples = FilePaths::new(self.folder(), &file.name, &SAMPLES).last;
                // Its writer may be about to publish the samples.
                if named > 0 && samples.exists() {
                    let [rows, samples] =
                        self.rename_frames(&file.name, &mut source, &mut folders)?;
                    result.frames += named;
                    result.rows += rows;
                    result.samples += samples;
                    result.segments += 1;
                }
            }
        }
        self.remove_empty_folders(folders)?;
        Ok(result)
    }

    /// Replaces a segment by one with names. Returns how many rows of samples got one, and the
    /// number of their samples.
    fn rename_frames<F: FnMut(&UnnamedFrame<'_>) -> Option<FrameName>>(
        &self,
        old: &FileName,
        source: &mut NameSource<F>,
        folders: &mut Vec<PathBuf>,
    ) -> Result<[u64; 2], StoreError> {
        let kind = if old.kind == FileKind::Day { FileKind::Day } else { FileKind::Hour };
        let name = FileName::for_compaction(kind, std::slice::from_ref(old));
        let mut files = Publication::new(self.folder(), name, &ORDER)?;
        let mut leaves = LeafNames::default();
        let mut named = [0; 2];
        for table in ORDER {
            let path = FilePaths::new(self.folder(), old, table).last;
            let mut out = files.create(table, Effort::More)?;
            out.annotate(INPUTS, format!("{:016x}", old.digest));
            let mut copy = TableCopy::new(TableFile::open(&path, table)?, table);
            let all = |_: &RowCursor, _: usize| true;
            let copied = copy.run(&mut out, all, |rows, texts| {
                if *table == FRAMES {
                    name_frame(rows, texts, source, &mut leaves);
                } else if *table == SAMPLES {
                    let samples = name_sample(rows, texts, &leaves);
                    named[0] += u64::from(samples.is_some());
                    named[1] += samples.unwrap_or(0);
                }
            });
            copied.map_err(|error| encoding_error(&path, error))?;
            files.finish(out)?;
        }
        files.publish()?;
        for table in INPUT_ORDER {
            let paths = FilePaths::new(self.folder(), old, table);
            self.folder().remove_file(&paths.last)?;
            folders.push(paths.folder);
        }
        Ok(named)
    }
}

/// Returns how many of a file's frames without a name have one now, and how many have none.
fn count_names<F: FnMut(&UnnamedFrame<'_>) -> Option<FrameName>>(
    path: &std::path::Path,
    source: &mut NameSource<F>,
) -> Result<[u64; 2], ParquetError> {
    let opened = TableFile::open(path, &FRAMES);
    let file = opened.map_err(|error| ParquetError::External(Box::new(error)))?;
    let mut cursor = RowCursor::new(file, &FRAMES);
    let mut decoder = PageDecoder::new()?;
    let mut counts = [0; 2];
    while cursor.next_block(BLOCK_ROWS, &mut decoder)? {
        for row in 0..cursor.rows().len() {
            if cursor.rows().code(FrameColumn::Function as usize, row) == 0 {
                let frame = UnnamedFrame {
                    build_id: cursor.text(FrameColumn::BuildId as usize, row),
                    module: cursor.text(FrameColumn::Module as usize, row),
                    address: cursor.rows().int(FrameColumn::Address as usize, row).cast_unsigned(),
                };
                counts[usize::from(source.find(&frame).is_none())] += 1;
            }
        }
    }
    Ok(counts)
}

/// Names the last row of frames if it has no name.
fn name_frame<F: FnMut(&UnnamedFrame<'_>) -> Option<FrameName>>(
    rows: &mut Rows,
    texts: &mut TextTable,
    source: &mut NameSource<F>,
    leaves: &mut LeafNames,
) {
    let row = rows.len() - 1;
    if rows.code(FrameColumn::Function as usize, row) != 0 {
        return;
    }
    let text = |column: FrameColumn| {
        let text = texts.get(rows.code(column as usize, row))?;
        std::str::from_utf8(text).ok()
    };
    let frame = UnnamedFrame {
        build_id: text(FrameColumn::BuildId),
        module: text(FrameColumn::Module),
        address: rows.int(FrameColumn::Address as usize, row).cast_unsigned(),
    };
    let Some(name) = source.find(&frame) else { return };
    let function = cut(&name.function, MAX_TEXT_BYTES);
    if rows.int(FrameColumn::Depth as usize, row) == 0 {
        leaves.insert(rows.int(FrameColumn::StackId as usize, row), function.to_owned());
    }
    rows.set_code(FrameColumn::Function as usize, row, texts.intern(function).code());
    if let Some(file) = &name.file {
        let file = texts.intern(cut(file, MAX_TEXT_BYTES)).code();
        rows.set_code(FrameColumn::File as usize, row, file);
    }
    if let Some(line) = name.line.and_then(|line| i32::try_from(line).ok()) {
        rows.set_int(FrameColumn::Line as usize, row, line.into());
    }
}

/// Names the innermost function of the last row of samples. Returns the number of its samples if it
/// got a name.
fn name_sample(rows: &mut Rows, texts: &mut TextTable, leaves: &LeafNames) -> Option<u64> {
    let row = rows.len() - 1;
    if rows.code(SampleColumn::Function as usize, row) != 0 {
        return None;
    }
    let name = leaves.get(&rows.int(SampleColumn::StackId as usize, row))?;
    rows.set_code(SampleColumn::Function as usize, row, texts.intern(name).code());
    u64::try_from(rows.int(SampleColumn::Samples as usize, row)).ok()
}
