//! Parquet: a row per sample. `docs/export.md` describes the columns.

use std::io::{self, BufWriter};
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use ::parquet::schema::parser::parse_message_type;
use tare_profile::{FrameId, Profile, StringId};

use super::cached::Cached;
use super::{ExportFormat, ExportWriter, Exporter};
use crate::samples::{FrameText, LocatedSample, RecordingSummary, SampleSink};

/// Raised when a column is removed or changes its meaning, not for new columns.
const VERSION: u32 = 1;

/// Number of rows per row group.
const GROUP_ROWS: usize = 1 << 16;

/// Number of frames of call chains from which on a row group is written. The library keeps a row
/// group's compressed columns and its dictionaries in memory.
const GROUP_FRAMES: usize = 1 << 17;

/// Number of frames that are written together. The texts of a frame take 72 bytes.
const BATCH_FRAMES: usize = 1 << 12;

const SCHEMA: &str = "message sample {
    OPTIONAL INT64 time_ns (INTEGER(64,false));
    REQUIRED BYTE_ARRAY event (STRING);
    OPTIONAL INT32 pid;
    OPTIONAL INT32 tid;
    OPTIONAL BYTE_ARRAY comm (STRING);
    OPTIONAL INT32 cpu;
    REQUIRED INT64 period (INTEGER(64,false));
    OPTIONAL BYTE_ARRAY function (STRING);
    OPTIONAL BYTE_ARRAY dso (STRING);
    OPTIONAL BYTE_ARRAY code (STRING);
    OPTIONAL INT64 address (INTEGER(64,false));
    OPTIONAL BYTE_ARRAY trace (STRING);
    REQUIRED GROUP stack (LIST) { REPEATED GROUP list { REQUIRED BYTE_ARRAY element (STRING); } }
    REQUIRED GROUP stack_dso (LIST) { REPEATED GROUP list { OPTIONAL BYTE_ARRAY element (STRING); } }
}";

type ParquetWriter = SerializedFileWriter<BufWriter<ExportWriter>>;
type GroupWriter<'a> = SerializedRowGroupWriter<'a, BufWriter<ExportWriter>>;

/// Writes a row per sample, in row groups.
pub struct Parquet {
    writer: ParquetWriter,
    rows: RowGroup,
    texts: Cached<StringId, ByteArray>,
    frames: Cached<FrameId, FrameTexts>,
    chain: Vec<FrameId>,
}

/// A frame's texts and address.
#[derive(Clone)]
struct FrameTexts {
    function: ByteArray,
    dso: Option<ByteArray>,
    code: ByteArray,
    address: i64,
}

/// A column of optional values: the values that exist, and for each row 1 if it has one, else 0
/// (Parquet's definition level).
struct NullableColumn<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Default for NullableColumn<T> {
    fn default() -> Self {
        Self { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> NullableColumn<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

/// A part of a column of lists, with Parquet's definition and repetition levels.
#[derive(Default)]
struct ListBatch {
    values: Vec<ByteArray>,
    levels: Vec<i16>,
    repeats: Vec<i16>,
}

impl ListBatch {
    /// Adds a list; `present` is the definition level of an element that exists.
    fn push(&mut self, list: impl Iterator<Item = Option<ByteArray>>, present: i16) {
        let before = self.levels.len();
        for element in list {
            self.repeats.push(i16::from(self.levels.len() > before));
            self.levels.push(if element.is_some() { present } else { present - 1 });
            self.values.extend(element);
        }
        if self.levels.len() == before {
            self.repeats.push(0);
            self.levels.push(0);
        }
    }
}

/// The columns of a sample's time, event, thread, CPU and period.
#[derive(Default)]
struct SampleColumns {
    time_ns: NullableColumn<i64>,
    event: Vec<ByteArray>,
    pid: NullableColumn<i32>,
    tid: NullableColumn<i32>,
    comm: NullableColumn<ByteArray>,
    cpu: NullableColumn<i32>,
    period: Vec<i64>,
}

/// The columns of the innermost frame.
#[derive(Default)]
struct LeafColumns {
    function: NullableColumn<ByteArray>,
    dso: NullableColumn<ByteArray>,
    code: NullableColumn<ByteArray>,
    address: NullableColumn<i64>,
}

/// Call chains, one after the other: a recording may have millions of distinct frames, so their
/// texts are made when they are written.
#[derive(Default)]
struct StackColumns {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
}

impl StackColumns {
    fn push(&mut self, chain: &[FrameId]) {
        self.frames.extend_from_slice(chain);
        self.ends.push(self.frames.len());
    }

    /// Writes a column with a text of each frame; `present` is the definition level of a text that
    /// exists.
    fn write(
        &self,
        group: &mut GroupWriter<'_>,
        present: i16,
        mut text: impl FnMut(FrameId) -> Option<ByteArray>,
    ) -> Result<(), ParquetError> {
        let mut column = next_column(group)?;
        let mut batch = ListBatch::default();
        let mut begin = 0;
        for (row, end) in self.ends.iter().enumerate() {
            batch.push(self.frames[begin..*end].iter().map(|frame| text(*frame)), present);
            begin = *end;
            if batch.levels.len() >= BATCH_FRAMES || row + 1 == self.ends.len() {
                let ListBatch { values, levels, repeats } = std::mem::take(&mut batch);
                let column = column.typed::<ByteArrayType>();
                column.write_batch(&values, Some(&levels), Some(&repeats))?;
            }
        }
        column.close()
    }
}

/// The rows of a row group, as columns.
///
/// Invariant: all columns have the same number of rows.
#[derive(Default)]
struct RowGroup {
    sample: SampleColumns,
    leaf: LeafColumns,
    trace: NullableColumn<ByteArray>,
    stack: StackColumns,
}

impl ExportFormat for Parquet {
    const NAME: &'static str = "parquet";
    const HELP: &'static str = "a row per sample";
    const READERS: &'static str = "DuckDB, pandas, Spark";
    const EXTENSION: &'static str = "parquet";
    const IS_BINARY: bool = true;
    const HAS_TRACES: bool = true;

    fn create(out: ExportWriter) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(io_error)?);
        let level = ZstdLevel::try_new(1).map_err(io_error)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_dictionary_enabled(true)
            .build();
        let out = BufWriter::with_capacity(1 << 18, out);
        let writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(io_error)?;
        Ok(Self {
            writer,
            rows: RowGroup::default(),
            texts: Cached::default(),
            frames: Cached::default(),
            chain: Vec::new(),
        })
    }
}

/// Returns the output's own error if the library wraps one, else the library's message.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

fn text(text: &[u8]) -> ByteArray {
    ByteArray::from(String::from_utf8_lossy(text).as_bytes().to_vec())
}

fn frame_texts(profile: &Profile, frame: FrameId) -> FrameTexts {
    let place = FrameText::new(profile, frame);
    FrameTexts {
        function: text(place.name.as_bytes()),
        dso: place.dso.map(|dso| text(dso.as_bytes())),
        code: text(place.kind.name().as_bytes()),
        address: place.address.cast_signed(),
    }
}

impl SampleSink for Parquet {
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        let Self { rows, texts, frames, chain, .. } = self;
        let row = &sample.row;
        rows.sample.push(profile, sample, |id| texts.get(id, || text(profile.string(id))).clone());
        // Fields of tracepoints are rarely the same twice, so their texts aren't cached.
        rows.trace.push(row.trace.map(|trace| text(profile.string(trace))));
        profile.frames_of_row(row, chain);
        let mut texts =
            |frame: &FrameId| frames.get(*frame, || frame_texts(profile, *frame)).clone();
        rows.leaf.push(chain.first().map(&mut texts));
        rows.stack.push(chain);
        if rows.len() == GROUP_ROWS || rows.stack.frames.len() >= GROUP_FRAMES {
            return self.write_group(profile);
        }
        Ok(())
    }
}

impl Parquet {
    fn write_group(&mut self, profile: &Profile) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        rows.write(&mut group, profile, &mut self.frames).map_err(io_error)?;
        group.close().map_err(io_error)?;
        Ok(())
    }
}

impl SampleColumns {
    /// Adds a row; `string` returns the text of an id.
    fn push(
        &mut self,
        profile: &Profile,
        sample: &LocatedSample,
        mut string: impl FnMut(StringId) -> ByteArray,
    ) {
        let row = &sample.row;
        let thread = row.thread.and_then(|thread| profile.thread(thread));
        let event = profile.event(row.event).map(|event| string(event.name));
        self.time_ns.push(sample.time_ns.map(u64::cast_signed));
        self.event.push(event.unwrap_or_default());
        self.pid.push(thread.map(|thread| thread.pid));
        self.tid.push(thread.map(|thread| thread.tid));
        self.comm.push(row.comm.map(string));
        self.cpu.push(row.cpu.and_then(|cpu| i32::try_from(cpu).ok()));
        self.period.push(sample.weight.period.cast_signed());
    }

    fn write(&self, group: &mut GroupWriter<'_>) -> Result<(), ParquetError> {
        write_optional::<Int64Type>(group, &self.time_ns)?;
        write_column::<ByteArrayType>(group, &self.event, None, None)?;
        write_optional::<Int32Type>(group, &self.pid)?;
        write_optional::<Int32Type>(group, &self.tid)?;
        write_optional::<ByteArrayType>(group, &self.comm)?;
        write_optional::<Int32Type>(group, &self.cpu)?;
        write_column::<Int64Type>(group, &self.period, None, None)
    }
}

impl LeafColumns {
    /// Adds a row; a sample without frames has no values.
    fn push(&mut self, leaf: Option<FrameTexts>) {
        self.function.push(leaf.as_ref().map(|leaf| leaf.function.clone()));
        self.dso.push(leaf.as_ref().and_then(|leaf| leaf.dso.clone()));
        self.code.push(leaf.as_ref().map(|leaf| leaf.code.clone()));
        self.address.push(leaf.map(|leaf| leaf.address));
    }

    fn write(&self, group: &mut GroupWriter<'_>) -> Result<(), ParquetError> {
        write_optional::<ByteArrayType>(group, &self.function)?;
        write_optional::<ByteArrayType>(group, &self.dso)?;
        write_optional::<ByteArrayType>(group, &self.code)?;
        write_optional::<Int64Type>(group, &self.address)
    }
}

impl RowGroup {
    /// Returns the number of rows.
    fn len(&self) -> usize {
        self.sample.event.len()
    }

    /// Writes the columns in the order of the schema.
    fn write(
        &self,
        group: &mut GroupWriter<'_>,
        profile: &Profile,
        frames: &mut Cached<FrameId, FrameTexts>,
    ) -> Result<(), ParquetError> {
        self.sample.write(group)?;
        self.leaf.write(group)?;
        write_optional::<ByteArrayType>(group, &self.trace)?;
        let mut texts = |frame| frames.get(frame, || frame_texts(profile, frame)).clone();
        self.stack.write(group, 1, |frame| Some(texts(frame).function))?;
        self.stack.write(group, 2, |frame| texts(frame).dso)
    }
}

fn write_optional<T: DataType>(
    group: &mut GroupWriter<'_>,
    column: &NullableColumn<T::T>,
) -> Result<(), ParquetError> {
    write_column::<T>(group, &column.values, Some(&column.levels), None)
}

fn write_column<T: DataType>(
    group: &mut GroupWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
    repeats: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = next_column(group)?;
    column.typed::<T>().write_batch(values, levels, repeats)?;
    column.close()
}

fn next_column<'a>(
    group: &'a mut GroupWriter<'_>,
) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    let more = || ParquetError::General("more columns than the schema has".to_owned());
    group.next_column()?.ok_or_else(more)
}

impl Exporter for Parquet {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        if self.rows.len() > 0 {
            self.write_group(whole.profile)?;
        }
        let entries = [
            ("tare.version", VERSION.to_string()),
            ("tare.session", serde_json::to_string(whole.session)?),
            ("tare.losses", serde_json::to_string(&whole.loss_lines())?),
            ("tare.ledger", serde_json::to_string(&whole.ledger)?),
        ];
        for (key, value) in entries {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        self.writer.finish().map_err(io_error)?;
        io::Write::flush(self.writer.inner_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ByteArray {
        ByteArray::from(text)
    }

    #[test]
    fn a_list_column_has_a_level_for_each_element_and_each_empty_list() {
        let mut column = ListBatch::default();
        column.push([Some(text("a")), None].into_iter(), 2);
        column.push(std::iter::empty(), 2);
        column.push([Some(text("b"))].into_iter(), 2);
        assert_eq!(column.values, [text("a"), text("b")]);
        assert_eq!(column.levels, [2, 1, 0, 2]);
        assert_eq!(column.repeats, [0, 1, 0, 0]);
    }

    #[test]
    fn leaf_columns_have_a_row_for_a_sample_without_frames() {
        let mut leaf = LeafColumns::default();
        leaf.push(None);
        leaf.push(Some(FrameTexts {
            function: text("main"),
            dso: None,
            code: text("program"),
            address: 16,
        }));
        assert_eq!(leaf.function.levels, [0, 1]);
        assert_eq!((leaf.dso.levels, leaf.dso.values.len()), (vec![0, 0], 0));
        assert_eq!((leaf.address.levels, leaf.address.values), (vec![0, 1], vec![16]));
    }
}
