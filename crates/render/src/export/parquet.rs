//! Parquet: a row for each sample. docs/export.md has the columns.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, BufWriter};
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use tare_profile::{FrameId, Profile, StringId};

use super::{ExportFormat, ExportWriter, Exporter};
use crate::samples::{FrameText, LocatedSample, RecordingSummary, SampleSink};

/// Raised when a column changes its meaning or goes; new columns don't raise it.
const VERSION: u32 = 1;

/// Rows that are written at a time.
const ROWS: usize = 1 << 16;

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

/// Writes a row for each sample, some thousands at a time.
pub struct Parquet {
    writer: ParquetWriter,
    rows: RowBatch,
    texts: HashMap<StringId, ByteArray, foldhash::fast::RandomState>,
    frames: HashMap<FrameId, FrameTexts, foldhash::fast::RandomState>,
    chain: Vec<FrameId>,
}

/// A frame's texts, which rows share.
#[derive(Clone)]
struct FrameTexts {
    function: ByteArray,
    dso: Option<ByteArray>,
    code: ByteArray,
    address: i64,
}

/// A column: what is there, and for each row whether anything is.
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

/// A column of lists.
#[derive(Default)]
struct ListColumn {
    values: Vec<ByteArray>,
    levels: Vec<i16>,
    repeats: Vec<i16>,
}

impl ListColumn {
    /// Adds a list; `most` is the level of an element that is there.
    fn push(&mut self, list: impl Iterator<Item = Option<ByteArray>>, most: i16) {
        let before = self.levels.len();
        for element in list {
            self.repeats.push(i16::from(self.levels.len() > before));
            self.levels.push(if element.is_some() { most } else { most - 1 });
            self.values.extend(element);
        }
        if self.levels.len() == before {
            self.repeats.push(0);
            self.levels.push(0);
        }
    }
}

#[derive(Default)]
struct RowBatch {
    count: usize,
    time_ns: NullableColumn<i64>,
    event: Vec<ByteArray>,
    pid: NullableColumn<i32>,
    tid: NullableColumn<i32>,
    comm: NullableColumn<ByteArray>,
    cpu: NullableColumn<i32>,
    period: Vec<i64>,
    function: NullableColumn<ByteArray>,
    dso: NullableColumn<ByteArray>,
    code: NullableColumn<ByteArray>,
    address: NullableColumn<i64>,
    trace: NullableColumn<ByteArray>,
    stack: ListColumn,
    stack_dso: ListColumn,
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
        let (rows, texts, frames, chain) = Default::default();
        Ok(Self { writer, rows, texts, frames, chain })
    }
}

/// An error of the output itself, or one of the library in its words.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

/// The text of an id, made once.
fn cached<K: Copy + Eq + Hash, V: Clone>(
    known: &mut HashMap<K, V, foldhash::fast::RandomState>,
    id: K,
    make: impl FnOnce() -> V,
) -> V {
    known.entry(id).or_insert_with(make).clone()
}

fn text(text: &[u8]) -> ByteArray {
    ByteArray::from(String::from_utf8_lossy(text).as_bytes().to_vec())
}

fn named(profile: &Profile, frame: FrameId) -> FrameTexts {
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
        let mut string = |id: StringId| cached(texts, id, || text(profile.string(id)));
        let thread = row.thread.and_then(|thread| profile.thread(thread));
        let event = profile.event(row.event).map(|event| string(event.name));
        rows.count += 1;
        rows.time_ns.push(sample.time_ns.map(u64::cast_signed));
        rows.event.push(event.unwrap_or_default());
        rows.pid.push(thread.map(|thread| thread.pid));
        rows.tid.push(thread.map(|thread| thread.tid));
        rows.comm.push(row.comm.map(&mut string));
        rows.cpu.push(row.cpu.and_then(|cpu| i32::try_from(cpu).ok()));
        rows.period.push(sample.weight.period.cast_signed());
        // Fields of tracepoints seldom come twice: they are not kept.
        rows.trace.push(row.trace.map(|trace| text(profile.string(trace))));
        profile.frames_of_row(row, chain);
        let mut named = |frame: &FrameId| cached(frames, *frame, || named(profile, *frame));
        let leaf = chain.first().map(&mut named);
        rows.function.push(leaf.as_ref().map(|leaf| leaf.function.clone()));
        rows.dso.push(leaf.as_ref().and_then(|leaf| leaf.dso.clone()));
        rows.code.push(leaf.as_ref().map(|leaf| leaf.code.clone()));
        rows.address.push(leaf.map(|leaf| leaf.address));
        rows.stack.push(chain.iter().map(|frame| Some(named(frame).function)), 1);
        rows.stack_dso.push(chain.iter().map(|frame| named(frame).dso), 2);
        if rows.count == ROWS {
            return self.write();
        }
        Ok(())
    }
}

impl Parquet {
    fn write(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        rows.write(&mut group).map_err(io_error)?;
        group.close().map_err(io_error)?;
        Ok(())
    }
}

impl RowBatch {
    /// Writes the columns in the order of the schema.
    fn write(
        self,
        group: &mut SerializedRowGroupWriter<'_, BufWriter<ExportWriter>>,
    ) -> Result<(), ParquetError> {
        optional::<Int64Type>(group, &self.time_ns)?;
        put::<ByteArrayType>(group, &self.event, None, None)?;
        optional::<Int32Type>(group, &self.pid)?;
        optional::<Int32Type>(group, &self.tid)?;
        optional::<ByteArrayType>(group, &self.comm)?;
        optional::<Int32Type>(group, &self.cpu)?;
        put::<Int64Type>(group, &self.period, None, None)?;
        optional::<ByteArrayType>(group, &self.function)?;
        optional::<ByteArrayType>(group, &self.dso)?;
        optional::<ByteArrayType>(group, &self.code)?;
        optional::<Int64Type>(group, &self.address)?;
        optional::<ByteArrayType>(group, &self.trace)?;
        for lists in [&self.stack, &self.stack_dso] {
            let levels = Some(&lists.levels[..]);
            let repeats = Some(&lists.repeats[..]);
            put::<ByteArrayType>(group, &lists.values, levels, repeats)?;
        }
        Ok(())
    }
}

fn optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<ExportWriter>>,
    column: &NullableColumn<T::T>,
) -> Result<(), ParquetError> {
    put::<T>(group, &column.values, Some(&column.levels), None)
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<ExportWriter>>,
    values: &[T::T],
    levels: Option<&[i16]>,
    repeats: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".to_owned()));
    };
    column.typed::<T>().write_batch(values, levels, repeats)?;
    column.close()
}

impl Exporter for Parquet {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        if self.rows.count > 0 {
            self.write()?;
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
