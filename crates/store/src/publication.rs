//! Files of a segment that appear together.
//!
//! All are written under temporary names and made durable. Then they are renamed, samples before
//! segments and after frames: a segment is in the store once its samples are.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use parquet::errors::ParquetError;

use crate::error::StoreError;
use crate::folder::Folder;
use crate::name::FileName;
use crate::schema::{FRAMES, SAMPLES, SEGMENTS, TableDefinition};
use crate::table_writer::{Effort, TableWriter};

/// Bytes between a file and its encoder.
const BUFFER_BYTES: usize = 1 << 16;

/// The tables of a segment, in the order in which their files get their names.
pub(crate) const ORDER: [&TableDefinition; 3] = [&FRAMES, &SAMPLES, &SEGMENTS];

/// Files of a segment under their temporary names.
pub(crate) struct Publication<'a> {
    folder: &'a Folder,
    name: FileName,
    tables: &'a [&'static TableDefinition],
    bytes: u64,
    is_published: bool,
}

/// Where a file is written, and where it will be.
pub(crate) struct FilePaths {
    pub(crate) folder: PathBuf,
    pub(crate) temporary: PathBuf,
    pub(crate) last: PathBuf,
}

impl FilePaths {
    pub(crate) fn new(folder: &Folder, name: &FileName, table: &TableDefinition) -> Self {
        let folder = folder.path(&name.folder(table));
        Self {
            temporary: folder.join(name.temporary()),
            last: folder.join(name.to_string()),
            folder,
        }
    }
}

/// A file that is being written.
pub(crate) struct OutputFile<'a> {
    folder: &'a Folder,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Write for OutputFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.folder.allow()?;
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An encoder that writes into a file of a publication.
pub(crate) type FileWriter<'a> = TableWriter<BufWriter<OutputFile<'a>>>;

impl<'a> Publication<'a> {
    /// Begins files of some tables, which must be in the order of [`ORDER`].
    ///
    /// # Errors
    /// Fails if the store has a file of this name, or a folder can't be created.
    pub(crate) fn new(
        folder: &'a Folder,
        name: FileName,
        tables: &'a [&'static TableDefinition],
    ) -> Result<Self, StoreError> {
        for table in tables {
            let paths = FilePaths::new(folder, &name, table);
            if paths.last.exists() {
                return Err(StoreError::Exists(paths.last));
            }
        }
        Ok(Self { folder, name, tables, bytes: 0, is_published: false })
    }

    fn paths(&self, table: &TableDefinition) -> FilePaths {
        FilePaths::new(self.folder, &self.name, table)
    }

    /// Begins the file of a table.
    pub(crate) fn create(
        &self,
        table: &'static TableDefinition,
        effort: Effort,
    ) -> Result<FileWriter<'a>, StoreError> {
        let paths = self.paths(table);
        self.folder.create_folder(&paths.folder)?;
        let file = self.folder.create_file(&paths.temporary)?;
        let folder = self.folder;
        let out = OutputFile { folder, path: paths.temporary.clone(), file, bytes: 0 };
        let out = BufWriter::with_capacity(BUFFER_BYTES, out);
        TableWriter::new(out, table, effort)
            .map_err(|error| encoding_error(&paths.temporary, error))
    }

    /// Ends a file and makes its contents durable.
    pub(crate) fn finish(&mut self, writer: FileWriter<'a>) -> Result<(), StoreError> {
        let path = writer.output().get_ref().path.clone();
        let out = writer.finish().map_err(|error| encoding_error(&path, error))?;
        let out = out
            .into_inner()
            .map_err(|error| StoreError::File { path: path.clone(), source: error.into_error() })?;
        self.bytes += out.bytes;
        self.folder.sync_file(&out.path, &out.file)
    }

    /// Gives all files their names, and returns their length together.
    pub(crate) fn publish(mut self) -> Result<u64, StoreError> {
        for table in self.tables {
            let paths = self.paths(table);
            self.folder.rename(&paths.temporary, &paths.last)?;
            // A gap has no samples.
            self.is_published |= **table == SAMPLES || self.tables.len() == 1;
            self.folder.sync_folder(&paths.folder)?;
        }
        Ok(self.bytes)
    }
}

impl Drop for Publication<'_> {
    /// Removes the files if they weren't published. What can't be removed now, recovery removes.
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        for table in self.tables.iter().rev() {
            let paths = self.paths(table);
            let _ = self.folder.remove_file(&paths.temporary);
            let _ = self.folder.remove_file(&paths.last);
        }
    }
}

/// Returns the file system's own error if the library wraps one.
pub(crate) fn encoding_error(path: &std::path::Path, error: ParquetError) -> StoreError {
    let path = path.to_owned();
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => StoreError::File { path, source: *source },
            Err(other) => StoreError::Parquet { path, source: ParquetError::External(other) },
        },
        source => StoreError::Parquet { path, source },
    }
}
