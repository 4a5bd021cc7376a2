//! What is in a cgroup and in those below it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

use crate::pseudo_file;

/// The numbers in a file of a cgroup and of those below it. Those that can't be read count for
/// nothing: the processes of a threaded cgroup (`EOPNOTSUPP`) are listed above it, and one that was
/// removed meanwhile has none.
///
/// # Errors
/// Its own file can't be read.
pub(crate) fn ids(folder: BorrowedFd<'_>, file: &str) -> io::Result<Vec<i32>> {
    let mut text = read(folder, file)?;
    for below in below(folder) {
        text += &read(folder, below.join(file)).unwrap_or_default();
    }
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The cgroups below one, by their paths from it; each before those below it.
pub(super) fn below(folder: BorrowedFd<'_>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Its own two links, and one for each folder in it: the kernel counts them.
    if fstat(folder).is_ok_and(|stat| stat.st_nlink == 2) {
        return found;
    }
    let mut open = vec![PathBuf::from(".")];
    while let Some(path) = open.pop() {
        let children = subfolders(folder, &path).unwrap_or_default();
        open.extend(children.iter().cloned());
        found.extend(children);
    }
    found
}

pub(super) fn read(folder: BorrowedFd<'_>, path: impl AsRef<Path>) -> io::Result<String> {
    let file = openat(folder, path.as_ref(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    pseudo_file::read_into(&File::from(file), &mut bytes)?;
    pseudo_file::text(bytes)
}

/// The folders in a folder, by their paths from `root`.
fn subfolders(root: BorrowedFd<'_>, path: &Path) -> io::Result<Vec<PathBuf>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(root, path, flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::new(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if entry.file_type() == FileType::Directory && name != "." && name != ".." {
            found.push(path.join(name));
        }
    }
    Ok(found)
}
