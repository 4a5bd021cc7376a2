//! The members of a cgroup and of the cgroups below it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

use crate::pseudo_file;

/// Returns the ids in a file of a cgroup and of all cgroups below it. Files below that can't be
/// read are skipped: the processes of a threaded cgroup (`EOPNOTSUPP`) are listed above it, and a
/// removed cgroup has none.
///
/// # Errors
/// Fails if the cgroup's own file can't be read.
pub(crate) fn ids(folder: BorrowedFd<'_>, file: &str) -> io::Result<Vec<i32>> {
    let mut text = read(folder, file)?;
    for below in below(folder) {
        text += &read(folder, below.join(file)).unwrap_or_default();
    }
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Returns the paths of the cgroups below one, parents before children.
pub(super) fn below(folder: BorrowedFd<'_>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A folder has two links, and one more for each subfolder.
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

/// Returns the subfolders of a folder, as paths from `root`.
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
