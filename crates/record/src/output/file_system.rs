//! The disks of this machine.

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{fdatasync, fstat, ftruncate};
use rustix::io::{Errno, pwritev, retry_on_intr, writev};
use tare_kernel::file_window::{FileWindow, WindowError};

use super::disk::{Disk, DiskFile, FileState, OpenDestination};
use super::gone::{sync_folder, write_anew};
use super::names::stamp;
use super::{Destination, Result, destination};

/// The disks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn open(&self, to: &Destination) -> Result<OpenDestination> {
        destination::open(to)
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn DiskFile>> {
        destination::create(path).map(|file| Arc::new(file) as Arc<dyn DiskFile>)
    }

    fn stamp(&self, path: &Path, now: SystemTime) -> std::result::Result<PathBuf, Errno> {
        stamp(path, now)
    }

    fn write_anew(
        &self,
        file: &dyn DiskFile,
        path: &Path,
        now: SystemTime,
    ) -> std::result::Result<PathBuf, Errno> {
        write_anew(file, path, now)
    }

    fn sync_folder(&self, of: &Path) -> std::result::Result<(), Errno> {
        sync_folder(of)
    }

    fn remove(&self, path: &Path) -> std::result::Result<(), Errno> {
        fs::remove_file(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl DiskFile for File {
    fn write_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> std::result::Result<usize, Errno> {
        retry_on_intr(|| pwritev(self, pieces, offset))
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> std::result::Result<usize, Errno> {
        retry_on_intr(|| writev(self, pieces))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> std::result::Result<usize, Errno> {
        FileExt::read_at(self, into, offset)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn state(&self) -> std::result::Result<FileState, Errno> {
        let found = fstat(self)?;
        let bytes = u64::try_from(found.st_size).unwrap_or(0);
        Ok(FileState { bytes, is_deleted: found.st_nlink == 0 })
    }

    fn set_len(&self, bytes: u64) -> std::result::Result<(), Errno> {
        ftruncate(self, bytes)
    }

    fn sync(&self) -> std::result::Result<(), Errno> {
        fdatasync(self)
    }

    fn window(&self, offset: u64, len: usize) -> std::result::Result<FileWindow, WindowError> {
        FileWindow::open(self, offset, len)
    }
}
