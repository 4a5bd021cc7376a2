//! Writes rows into a Parquet file.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};

use crate::rows::{ColumnValues, NULL_INT, Rows};
use crate::schema::{ColumnKind, TableDefinition, VERSION};
use crate::texts::TextTable;

/// Rows per row group.
pub(crate) const GROUP_ROWS: usize = 1 << 17;

/// Values that are handed to the library together.
const BATCH_VALUES: usize = 1 << 12;

/// How much time compression takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// For windows, which are compacted soon.
    Little,
    More,
}

impl Effort {
    fn zstd_level(self) -> i32 {
        match self {
            Self::Little => 1,
            Self::More => 3,
        }
    }
}

/// A Parquet file of a table that is being written.
pub(crate) struct TableWriter<W: Write + Send> {
    table: &'static TableDefinition,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> TableWriter<W> {
    pub(crate) fn new(
        out: W,
        table: &'static TableDefinition,
        effort: Effort,
    ) -> Result<Self, ParquetError> {
        let sorting = |column: &usize| SortingColumn {
            column_idx: i32::try_from(*column).unwrap_or(i32::MAX),
            descending: false,
            nulls_first: true,
        };
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(effort.zstd_level())?))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_sorting_columns(Some(table.sort.iter().map(sorting).collect()))
            .build();
        let mut writer = SerializedFileWriter::new(out, table.message()?, Arc::new(properties))?;
        writer.append_key_value_metadata(KeyValue::new(
            "tare.store.version".to_owned(),
            VERSION.to_string(),
        ));
        Ok(Self { table, writer })
    }

    /// Adds an entry of the file's key-value metadata.
    pub(crate) fn annotate(&mut self, key: &str, value: String) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }

    /// Writes a row group, of at most [`GROUP_ROWS`] rows.
    pub(crate) fn write_group(
        &mut self,
        rows: &Rows,
        texts: &TextTable,
    ) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (at, column) in self.table.columns.iter().enumerate() {
            let missing = || ParquetError::General("more columns than the schema has".to_owned());
            let mut out = group.next_column()?.ok_or_else(missing)?;
            match rows.column(at) {
                ColumnValues::Codes(codes) => {
                    write_texts(&mut out, codes, texts, column.is_nullable)?;
                }
                ColumnValues::Ints(values) if column.kind == ColumnKind::Int32 => {
                    write_ints::<Int32Type>(&mut out, values, column.is_nullable, |value| {
                        i32::try_from(value).unwrap_or(i32::MAX)
                    })?;
                }
                ColumnValues::Ints(values) => {
                    write_ints::<Int64Type>(&mut out, values, column.is_nullable, |value| value)?;
                }
            }
            out.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Returns the output.
    pub(crate) fn output(&self) -> &W {
        self.writer.inner()
    }

    /// Writes the file's end and returns the output.
    pub(crate) fn finish(self) -> Result<W, ParquetError> {
        self.writer.into_inner()
    }
}

fn write_ints<T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    values: &[i64],
    is_nullable: bool,
    convert: impl Fn(i64) -> T::T,
) -> Result<(), ParquetError> {
    for batch in values.chunks(BATCH_VALUES) {
        let known = batch.iter().filter(|value| !is_nullable || **value != NULL_INT);
        let known: Vec<T::T> = known.map(|value| convert(*value)).collect();
        let levels: Vec<i16> = batch.iter().map(|value| i16::from(*value != NULL_INT)).collect();
        out.typed::<T>().write_batch(&known, is_nullable.then_some(&levels[..]), None)?;
    }
    Ok(())
}

fn write_texts(
    out: &mut SerializedColumnWriter<'_>,
    codes: &[u32],
    texts: &TextTable,
    is_nullable: bool,
) -> Result<(), ParquetError> {
    for batch in codes.chunks(BATCH_VALUES) {
        let text = |code: &u32| texts.get(*code).cloned().map(ByteArray::from);
        if is_nullable {
            let known: Vec<ByteArray> = batch.iter().filter_map(text).collect();
            let levels: Vec<i16> = batch.iter().map(|code| i16::from(*code != 0)).collect();
            out.typed::<ByteArrayType>().write_batch(&known, Some(&levels), None)?;
        } else {
            let known: Vec<ByteArray> =
                batch.iter().map(|code| text(code).unwrap_or_default()).collect();
            out.typed::<ByteArrayType>().write_batch(&known, None, None)?;
        }
    }
    Ok(())
}
