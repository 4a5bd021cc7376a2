//! A file as the kernel identifies it in `PERF_RECORD_MMAP2` and `/proc/PID/maps`.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr;

use rustix::fs::{major, minor};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{procfs, pseudo_file};

/// Identifies the file of a mapping. Numbers of inodes are unique within a device only, and a file
/// system may give the number of a removed file to a new one with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Major and minor number of the device of the inode's superblock; (0, 0) if unknown. On btrfs
    /// and overlayfs, `stat(2)` returns another device.
    pub device: (u32, u32),
    /// Number of the inode.
    pub inode: u64,
    /// Generation of the number; 0 if unknown.
    pub generation: u64,
}

impl FileIdentity {
    /// Whether both can identify one file: unknown parts match any value.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let is_same = |one: u64, other: u64| one == other || one == 0 || other == 0;
        let is_device =
            self.device == other.device || self.device == (0, 0) || other.device == (0, 0);
        self.inode == other.inode && is_device && is_same(self.generation, other.generation)
    }

    /// Whether an open regular file has this identity.
    #[must_use]
    pub fn is_of(&self, file: &File) -> bool {
        let Ok(meta) = file.metadata() else { return false };
        if !meta.is_file() {
            return false;
        }
        let device = (major(meta.dev()), minor(meta.dev()));
        let found = Self { device, inode: meta.ino(), generation: 0 };
        let is_it =
            found.matches(self) || mapped_identity(file).is_some_and(|mapped| mapped.matches(self));
        is_it && (self.generation == 0 || generation(file).is_none_or(|it| it == self.generation))
    }
}

/// Maps a file, and returns its identity as `/proc/self/maps` has it.
fn mapped_identity(file: &File) -> Option<FileIdentity> {
    let page = rustix::param::page_size();
    // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory, and
    // nothing reads it.
    #[allow(unsafe_code)]
    let base =
        unsafe { mmap(ptr::null_mut(), page, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }.ok()?;
    let start = base.addr() as u64;
    let maps = pseudo_file::read(Path::new("/proc/self/maps")).ok();
    // SAFETY: this function mapped the page, and nothing borrows from it. An error would only leave
    // it mapped.
    #[allow(unsafe_code)]
    let _ = unsafe { munmap(base, page) };
    let maps = maps?;
    let contains = |mapping: &procfs::Mapping<'_>| (mapping.start..mapping.end).contains(&start);
    let mapping = procfs::mappings(&maps).find(contains)?;
    Some(FileIdentity { device: mapping.device, inode: mapping.inode, generation: 0 })
}

/// Returns the generation of a file's inode; `None` if the file system doesn't tell it.
fn generation(file: &File) -> Option<u64> {
    // The request is declared with a `long`, and file systems write an `int`.
    let mut words = [0_u32; 2];
    // SAFETY: the buffer has room for either type.
    #[allow(unsafe_code)]
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETVERSION, words.as_mut_ptr()) };
    (result == 0).then_some(words[0].into())
}

/// Returns the identity of an open file, as the kernel records it for a mapping.
#[must_use]
pub fn file_identity(file: BorrowedFd<'_>) -> Option<FileIdentity> {
    let file = File::from(file.try_clone_to_owned().ok()?);
    let generation = generation(&file).unwrap_or(0);
    mapped_identity(&file).map(|mapped| FileIdentity { generation, ..mapped })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_has_its_own_identity_and_no_other() {
        let file = tempfile::tempfile().unwrap();
        let own = file_identity(file.as_fd()).unwrap();
        assert!(own.is_of(&file));
        let (major, minor) = own.device;
        let others = [
            FileIdentity { inode: own.inode + 1, ..own },
            FileIdentity { device: (major, minor + 1), ..own },
        ];
        assert!(others.iter().all(|other| !other.is_of(&file)), "{others:?}");
        if own.generation == 0 {
            return println!("skipped: no generations of inodes here");
        }
        assert!(!FileIdentity { generation: own.generation + 1, ..own }.is_of(&file));
    }

    #[test]
    fn unknown_parts_match_any_value() {
        let whole = FileIdentity { device: (8, 1), inode: 77, generation: 5 };
        assert!(whole.matches(&FileIdentity { device: (0, 0), generation: 0, ..whole }));
        assert!(!whole.matches(&FileIdentity { device: (8, 2), ..whole }));
        assert!(!whole.matches(&FileIdentity { generation: 6, ..whole }));
        assert!(!whole.matches(&FileIdentity { inode: 78, ..whole }));
    }

    #[test]
    fn only_regular_files_have_an_identity() {
        let folder = File::open("/").unwrap();
        let meta = folder.metadata().unwrap();
        let device = (major(meta.dev()), minor(meta.dev()));
        assert!(!FileIdentity { device, inode: meta.ino(), generation: 0 }.is_of(&folder));
    }
}
