//! Files of container runtimes. Everything in them is untrusted text.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

/// Limit of the size of a file, in bytes.
const FILE_BYTES: u64 = 4 << 20;

/// Returns the folders in a folder.
pub(super) fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Reads a file of JSON.
pub(super) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    // A bundle may be a folder of any user: opening a FIFO must not wait.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
