//! The disks of this machine.

use std::fs::{self, File};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{
    Advice, AtFlags, FallocateFlags, FsWord, Mode, OFlags, StatxFlags, fadvise, fallocate,
    fdatasync, fstat, fstatfs, ftruncate, statx,
};
use rustix::io::{Errno, pwritev, retry_on_intr, writev};
use tare_kernel::file_window::{FileWindow, WindowError};

use super::disk::{DirectFile, Disk, DiskFile, FileState, OpenDestination};
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

    fn direct(&self) -> std::result::Result<DirectFile, String> {
        let block = direct_block(self)?;
        // The same file, whatever its name refers to by now.
        let path = format!("/proc/self/fd/{}", self.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| format!("it can't be opened with O_DIRECT: {error}"))?;
        Ok(DirectFile { file: Arc::new(File::from(file)), block })
    }

    fn forget(&self, bytes: u64) {
        // Failure is harmless: the call is advice.
        let _ = fadvise(self, 0, NonZeroU64::new(bytes), Advice::DontNeed);
    }

    fn allocate(&self, offset: u64, len: u64) -> std::result::Result<(), Errno> {
        retry_on_intr(|| fallocate(self, FallocateFlags::KEEP_SIZE, offset, len))
    }
}

/// Smallest block in bytes that is used for `O_DIRECT`. It is assumed if the kernel, before 6.1,
/// reports no size.
const BLOCK: u32 = 4096;
/// File systems that accept `O_DIRECT` and use the page cache all the same: btrfs with checksums,
/// and in-memory ones (`linux/magic.h`).
const CACHED: [(FsWord, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9123_683e, "btrfs")];
/// File systems for which [`BLOCK`] is assumed if the kernel reports no size: ext2 to ext4, XFS,
/// f2fs.
const PLAIN: [FsWord; 3] = [0xef53, 0x5846_5342, 0xf2f5_2010];

/// Returns the block size of a file for `O_DIRECT`, in bytes, or the reason why it can't be used.
fn direct_block(file: &File) -> std::result::Result<usize, String> {
    let failed = |error: Errno| format!("the file system can't be asked: {error}");
    let kind = fstatfs(file).map_err(failed)?.f_type;
    if let Some((_, name)) = CACHED.iter().find(|(magic, _)| *magic == kind) {
        return Err(format!("{name} caches what is written with O_DIRECT too"));
    }
    let said = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).map_err(failed)?;
    let mask = StatxFlags::from_bits_retain(said.stx_mask);
    let block = match (said.stx_dio_mem_align, said.stx_dio_offset_align) {
        (0, _) | (_, 0) if mask.contains(StatxFlags::DIOALIGN) => 0,
        (0, _) | (_, 0) if PLAIN.contains(&kind) => BLOCK,
        (memory, offset) => memory.max(offset),
    };
    if block == 0 || block > 1 << 16 || !block.is_power_of_two() {
        return Err("the file system doesn't support O_DIRECT".to_owned());
    }
    Ok(block.max(BLOCK) as usize)
}
