//! The file that a recording replaces.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use tare_record::output::Destination;

/// A file that the recording renames with the ending `.old`, as perf does.
pub(super) struct ReplacedFile {
    path: PathBuf,
    /// Its inode; `None` if there is no file that would be renamed.
    inode: Option<u64>,
}

impl ReplacedFile {
    /// Notes the file at the destination before it is opened. `None` for standard output, and if
    /// something other than a regular file is there.
    pub(super) fn find(destination: &Destination) -> Option<Self> {
        let Destination::File(path) = destination else { return None };
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let found = fs::symlink_metadata(&path).ok();
        let inode = match found {
            Some(found) if !found.is_file() => return None,
            Some(found) => (found.len() > 0).then_some(found.ino()),
            None => None,
        };
        Some(Self { path, inode })
    }

    /// After a recording that could not start: removes its empty file, and gives the earlier file
    /// its name back. What can't be undone stays as it is.
    pub(super) fn restore(self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|now| now.is_file() && now.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        let is_same = fs::symlink_metadata(&old).is_ok_and(|old| Some(old.ino()) == self.inode);
        if is_same && !self.path.exists() {
            let _ = fs::rename(old, self.path);
        }
    }
}
