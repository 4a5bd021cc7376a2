//! The disk, behind a trait so that its failures can be simulated. Calls are made per batch of
//! records, never per record.

use std::fmt;
use std::io::{self, IoSlice, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;
use tare_kernel::file_window::{FileWindow, WindowError};

use super::{Destination, Result};
use crate::clock::Clock;

/// The disk.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a destination without waiting. An existing file is renamed with the ending `.old`,
    /// unless it is empty and the user's.
    ///
    /// # Errors
    /// See [`super::OutputError`].
    fn open(&self, to: &Destination) -> Result<OpenDestination>;

    /// Creates a file, or truncates an existing one.
    ///
    /// # Errors
    /// Fails with [`super::OutputError::Open`].
    fn create(&self, path: &Path) -> Result<Arc<dyn DiskFile>>;

    /// Renames a finished file to a name that ends with the time, and returns the name.
    ///
    /// # Errors
    /// Fails if the file can't be renamed.
    fn stamp(&self, path: &Path, now: SystemTime) -> std::result::Result<PathBuf, Errno>;

    /// Copies a deleted file to its old name, or to a name with the time if the old one is taken.
    /// Returns the name.
    ///
    /// # Errors
    /// Fails if the new file can't be written.
    fn write_anew(
        &self,
        file: &dyn DiskFile,
        path: &Path,
        now: SystemTime,
    ) -> std::result::Result<PathBuf, Errno>;

    /// Syncs the folder of a file, whose names [`DiskFile::sync`] doesn't cover.
    ///
    /// # Errors
    /// Fails if the folder can't be synced.
    fn sync_folder(&self, of: &Path) -> std::result::Result<(), Errno>;

    /// Removes a file.
    ///
    /// # Errors
    /// Fails if the file can't be removed.
    fn remove(&self, path: &Path) -> std::result::Result<(), Errno>;
}

/// The environment of an output: its disk and clock.
#[derive(Clone, Debug)]
pub(super) struct OutputBackend {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
}

/// An open file or stream.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Writes some of the pieces at an offset (`pwritev(2)`), and returns the number of bytes.
    ///
    /// # Errors
    /// Fails if the kernel writes nothing.
    fn write_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> std::result::Result<usize, Errno>;

    /// Writes some of the pieces to a stream (`writev(2)`), and returns the number of bytes.
    ///
    /// # Errors
    /// Fails if the kernel writes nothing.
    fn write(&self, pieces: &[IoSlice<'_>]) -> std::result::Result<usize, Errno>;

    /// Reads from an offset, and returns the number of bytes.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> std::result::Result<usize, Errno>;

    /// Returns the state of a file that others can change (`fstat(2)`).
    ///
    /// # Errors
    /// Fails if the kernel can't read it.
    fn state(&self) -> std::result::Result<FileState, Errno>;

    /// Truncates or extends a file.
    ///
    /// # Errors
    /// Fails if the length can't be changed.
    fn set_len(&self, bytes: u64) -> std::result::Result<(), Errno>;

    /// Waits until a file's data are on the disk.
    ///
    /// # Errors
    /// Fails if the data can't be written.
    fn sync(&self) -> std::result::Result<(), Errno>;

    /// Maps a part of a file: see [`FileWindow::open`].
    ///
    /// # Errors
    /// See [`WindowError`]. After any but [`WindowError::Truncated`] the file is written by writes.
    fn window(&self, offset: u64, len: usize) -> std::result::Result<FileWindow, WindowError>;

    /// Opens the same file to write it past the page cache.
    ///
    /// # Errors
    /// Returns the reason if that isn't possible, or not worth it.
    fn direct(&self) -> std::result::Result<DirectFile, String>;

    /// Drops the first bytes of a file from the page cache as far as they are on the disk, and
    /// starts writeback of the rest (`posix_fadvise(2)`). Doesn't wait.
    fn forget(&self, bytes: u64);

    /// Allocates space after the end of a file without changing its length (`fallocate(2)`).
    ///
    /// # Errors
    /// Fails if no space was allocated. Writing may continue all the same.
    fn allocate(&self, offset: u64, len: u64) -> std::result::Result<(), Errno>;
}

/// A file that is written past the page cache (`O_DIRECT`).
#[derive(Clone, Debug)]
pub struct DirectFile {
    /// The file. Offsets, lengths and addresses of its writes are multiples of a block.
    pub file: Arc<dyn DiskFile>,
    /// Bytes of a block, a power of two.
    pub block: usize,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether its last name was removed.
    pub is_deleted: bool,
}

/// The readable rest of a file whose data had to end.
#[derive(Debug)]
pub struct CutFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) at: u64,
    /// Offset of the end of its data.
    pub(super) end: u64,
}

impl Read for CutFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at).map_err(io::Error::from)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for CutFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// An open destination.
#[derive(Debug)]
pub enum OpenDestination {
    /// An empty file of our own.
    File {
        /// The file.
        file: Arc<dyn DiskFile>,
        /// Its name.
        path: PathBuf,
    },
    /// `/dev/null`: accepts everything at once and keeps nothing.
    Null(Arc<dyn DiskFile>),
    /// A destination that can only be written from front to end, and may block the writer.
    Stream(Arc<dyn DiskFile>),
}
