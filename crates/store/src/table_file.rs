//! A Parquet file of a table, opened for reading.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes};
use parquet::basic::CompressionCodec;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;

use crate::error::StoreError;
use crate::folder::file_error;
use crate::publication::encoding_error;
use crate::schema::{ColumnKind, TableDefinition, VERSION};

/// Length up to which a file is read at once, in bytes.
const SMALL_FILE_BYTES: u64 = 1 << 16;

/// Longest column of a row group, in bytes.
const MAX_CHUNK_BYTES: u64 = 1 << 30;

/// Where the bytes of a file are.
#[derive(Debug)]
enum FileSource {
    Memory(Bytes),
    Disk { file: File, length: u64 },
}

impl Length for FileSource {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk { length, .. } => *length,
        }
    }
}

impl ChunkReader for FileSource {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let left = self.len().saturating_sub(start);
        let length = usize::try_from(left.min(MAX_CHUNK_BYTES))?;
        Ok(self.get_bytes(start, length)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let short = || ParquetError::EOF(format!("{length} bytes at {start} aren't in the file"));
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(short());
        }
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(start)?;
                Ok(bytes.slice(start..start + length))
            }
            Self::Disk { file, .. } => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
        }
    }
}

/// The bytes of one column of a row group, at their place in the file.
pub(crate) struct ColumnBytes {
    start: u64,
    bytes: Bytes,
}

impl Length for ColumnBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ColumnBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let left = usize::try_from(self.len().saturating_sub(start))?;
        Ok(self.get_bytes(start, left)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let outside = || ParquetError::EOF("a page is outside of its column".to_owned());
        let begin = start.checked_sub(self.start).ok_or_else(outside)?;
        let begin = usize::try_from(begin)?;
        let end = begin.checked_add(length).filter(|end| *end <= self.bytes.len());
        Ok(self.bytes.slice(begin..end.ok_or_else(outside)?))
    }
}

/// A column of a row group.
pub(crate) struct ColumnChunk {
    /// Reads the pages as they are in the file, which may be compressed.
    pub(crate) pages: SerializedPageReader<ColumnBytes>,
    pub(crate) is_zstd: bool,
    pub(crate) is_nullable: bool,
}

/// Smallest and largest value of a column in a row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueRange<T> {
    pub(crate) min: T,
    pub(crate) max: T,
}

/// A Parquet file of a table.
pub(crate) struct TableFile {
    path: PathBuf,
    source: FileSource,
    metadata: ParquetMetaData,
    /// For each column of the table, its place in the file if the file has it.
    places: Vec<Option<usize>>,
}

impl TableFile {
    /// Opens a file and reads its metadata.
    pub(crate) fn open(path: &Path, table: &TableDefinition) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(file_error(path))?;
        let length = file.metadata().map_err(file_error(path))?.len();
        let source = FileSource::Disk { file, length };
        let source = if length <= SMALL_FILE_BYTES {
            let bytes = source.get_bytes(0, usize::try_from(length).unwrap_or(0));
            FileSource::Memory(bytes.map_err(|error| encoding_error(path, error))?)
        } else {
            source
        };
        Self::parse(path, table, source).map_err(|error| encoding_error(path, error))
    }

    fn parse(
        path: &Path,
        table: &TableDefinition,
        source: FileSource,
    ) -> Result<Self, ParquetError> {
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&source)?;
        let mut file = Self { path: path.to_owned(), source, metadata, places: Vec::new() };
        let version = file.value("tare.store.version");
        if version.and_then(|version| version.parse().ok()).is_some_and(|own: u32| own > VERSION) {
            return Err(ParquetError::General(format!(
                "version {} of the store; this program reads {VERSION}",
                version.unwrap_or_default()
            )));
        }
        file.places = file.find_columns(table)?;
        Ok(file)
    }

    fn find_columns(&self, table: &TableDefinition) -> Result<Vec<Option<usize>>, ParquetError> {
        let found = self.metadata.file_metadata().schema_descr().columns();
        let mut places = Vec::new();
        for column in table.columns {
            let place = found
                .iter()
                .position(|found| found.path().parts().len() == 1 && found.name() == column.name);
            if let Some(place) = place {
                let wanted = match column.kind {
                    ColumnKind::Text => parquet::basic::Type::BYTE_ARRAY,
                    ColumnKind::Int32 => parquet::basic::Type::INT32,
                    ColumnKind::Time | ColumnKind::Int64 => parquet::basic::Type::INT64,
                };
                if found[place].physical_type() != wanted || found[place].max_rep_level() != 0 {
                    let error = format!("column {} isn't of type {wanted}", column.name);
                    return Err(ParquetError::General(error));
                }
            } else if !column.is_nullable {
                return Err(ParquetError::General(format!("no column {}", column.name)));
            }
            places.push(place);
        }
        Ok(places)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a value of the file's key-value metadata.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let entries = self.metadata.file_metadata().key_value_metadata()?;
        entries.iter().find(|entry| entry.key == key)?.value.as_deref()
    }

    /// Returns the number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns the number of rows of a row group.
    pub(crate) fn group_rows(&self, group: usize) -> usize {
        usize::try_from(self.metadata.row_group(group).num_rows()).unwrap_or(0)
    }

    fn chunk(&self, group: usize, column: usize) -> Option<&ColumnChunkMetaData> {
        Some(self.metadata.row_group(group).column(self.places[column]?))
    }

    /// Opens a column of a row group; `None` if the file doesn't have it.
    pub(crate) fn column(
        &self,
        group: usize,
        column: usize,
    ) -> Result<Option<ColumnChunk>, ParquetError> {
        let Some(chunk) = self.chunk(group, column) else { return Ok(None) };
        let is_zstd = match chunk.compression_codec() {
            CompressionCodec::ZSTD => true,
            CompressionCodec::UNCOMPRESSED => false,
            other => {
                return Err(ParquetError::NYI(format!("compression {other:?}: use zstd")));
            }
        };
        let (start, length) = chunk.byte_range();
        if length > MAX_CHUNK_BYTES {
            return Err(ParquetError::General(format!("a column of {length} bytes")));
        }
        let bytes = self.source.get_bytes(start, usize::try_from(length)?)?;
        // The library's decompressor takes some 100 KB for each column of each file.
        let stored =
            chunk.clone().into_builder().set_compression_codec(CompressionCodec::UNCOMPRESSED);
        let pages = SerializedPageReader::new(
            ColumnBytes { start, bytes }.into(),
            &stored.build()?,
            self.group_rows(group),
            None,
        )?;
        let is_nullable = chunk.column_descr().max_def_level() > 0;
        Ok(Some(ColumnChunk { pages, is_zstd, is_nullable }))
    }

    /// Returns the range of a column of numbers in a row group, if the file has it.
    pub(crate) fn int_range(&self, group: usize, column: usize) -> Option<ValueRange<i64>> {
        match self.chunk(group, column)?.statistics()? {
            Statistics::Int64(values) => {
                Some(ValueRange { min: *values.min_opt()?, max: *values.max_opt()? })
            }
            _ => None,
        }
    }

    /// Returns the range of a column of texts in a row group, if the file has it and it has no
    /// NULL. The ends may be cut.
    pub(crate) fn text_range(&self, group: usize, column: usize) -> Option<ValueRange<&[u8]>> {
        let statistics = self.chunk(group, column)?.statistics()?;
        if statistics.null_count_opt() != Some(0) {
            return None;
        }
        Some(ValueRange { min: statistics.min_bytes_opt()?, max: statistics.max_bytes_opt()? })
    }
}
