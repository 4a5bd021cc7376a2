//! The disk, as far as a recording goes, behind a trait so that its failures can be simulated.
//! Calls are made for batches of records, never for a single one.

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
    /// Opens a destination. A file that is there already gets another name, ending with `.old`.
    /// Nothing is waited for.
    ///
    /// # Errors
    /// See [`super::OutputError`].
    fn open(&self, to: &Destination) -> Result<OpenDestination>;

    /// Makes a file that is not there, or takes an empty one that is ours.
    ///
    /// # Errors
    /// [`super::OutputError::Open`].
    fn create(&self, path: &Path) -> Result<Arc<dyn DiskFile>>;

    /// Gives a finished file a name that ends with the time, and returns it.
    ///
    /// # Errors
    /// The kernel's own.
    fn stamp(&self, path: &Path, now: SystemTime) -> std::result::Result<PathBuf, Errno>;

    /// Writes a file that has no name any more under the name that it had, or where another has that
    /// by now, under the name with the time. Returns the name.
    ///
    /// # Errors
    /// The kernel's own.
    fn write_anew(
        &self,
        file: &dyn DiskFile,
        path: &Path,
        now: SystemTime,
    ) -> std::result::Result<PathBuf, Errno>;

    /// Has the names in a file's folder reach the disk: [`DiskFile::sync`] doesn't.
    ///
    /// # Errors
    /// The kernel's own.
    fn sync_folder(&self, of: &Path) -> std::result::Result<(), Errno>;

    /// Removes a file.
    ///
    /// # Errors
    /// The kernel's own.
    fn remove(&self, path: &Path) -> std::result::Result<(), Errno>;
}

/// What an output is made with.
#[derive(Clone, Debug)]
pub(super) struct OutputBackend {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
}

/// An open file or stream.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Writes some of the pieces to a place in a file (`pwritev(2)`), and returns how many bytes.
    ///
    /// # Errors
    /// The kernel's own.
    fn write_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> std::result::Result<usize, Errno>;

    /// Writes some of the pieces to a stream (`writev(2)`), and returns how many bytes.
    ///
    /// # Errors
    /// The kernel's own.
    fn write(&self, pieces: &[IoSlice<'_>]) -> std::result::Result<usize, Errno>;

    /// Reads from a place in a file, and returns how many bytes.
    ///
    /// # Errors
    /// The kernel's own.
    fn read_at(&self, into: &mut [u8], offset: u64) -> std::result::Result<usize, Errno>;

    /// What became of a file that others can get at (`fstat(2)`).
    ///
    /// # Errors
    /// The kernel's own.
    fn state(&self) -> std::result::Result<FileState, Errno>;

    /// Cuts a file, or makes it longer.
    ///
    /// # Errors
    /// The kernel's own.
    fn set_len(&self, bytes: u64) -> std::result::Result<(), Errno>;

    /// Waits until a file's data are on the disk.
    ///
    /// # Errors
    /// The kernel's own.
    fn sync(&self) -> std::result::Result<(), Errno>;

    /// Maps a part of a file: see [`FileWindow::open`].
    ///
    /// # Errors
    /// See [`WindowError`]. With [`WindowError::NotSupported`] the file is written by writes.
    fn window(&self, offset: u64, len: usize) -> std::result::Result<FileWindow, WindowError>;

    /// The same file, written past the page cache.
    ///
    /// # Errors
    /// Why that can't be done, or is of no use.
    fn direct(&self) -> std::result::Result<DirectFile, String>;

    /// Drops the first bytes of a file from the page cache, as far as they are on the disk, and begins
    /// to write the others there (`posix_fadvise(2)`). Nothing is waited for.
    fn forget(&self, bytes: u64);

    /// Allocates space behind the end of a file, whose length stays (`fallocate(2)`).
    ///
    /// # Errors
    /// The kernel's own. Writing may go on all the same.
    fn allocate(&self, offset: u64, len: u64) -> std::result::Result<(), Errno>;
}

/// A file that is written past the page cache (`O_DIRECT`).
#[derive(Clone, Debug)]
pub struct DirectFile {
    /// The file: offsets, lengths and addresses of what is written to it are multiples of a block.
    pub file: Arc<dyn DiskFile>,
    /// Bytes of a block, a power of two.
    pub block: usize,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Its length.
    pub bytes: u64,
    /// Whether it has no name any more.
    pub is_deleted: bool,
}

/// What is left of a file whose data had to end, to be read.
#[derive(Debug)]
pub struct CutFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) at: u64,
    /// The end of its data.
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
    /// A file of our own, empty.
    File {
        /// The file.
        file: Arc<dyn DiskFile>,
        /// Its name.
        path: PathBuf,
    },
    /// `/dev/null`: takes everything at once, and keeps nothing.
    Null(Arc<dyn DiskFile>),
    /// A destination that can only be written to from front to end, and may make the writer wait.
    Stream(Arc<dyn DiskFile>),
}
