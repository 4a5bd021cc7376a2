//! Notes the open window in a small file, so that the next agent knows what a killed one lost.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Bytes of the note. A shorter one is padded, so that a write never leaves the end of another.
const BYTES: usize = 256;

/// What the agent noted last about its open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowNote {
    /// Start of the first sample that isn't in a segment, in microseconds since 1970 (UTC).
    pub start_us: i64,
    /// When the note was written.
    pub noted_us: i64,
    /// Samples since the start.
    pub samples: u64,
}

/// The file of the note. It is removed when the agent ends by itself.
#[derive(Debug)]
pub struct OpenWindowFile {
    path: PathBuf,
    file: File,
}

impl OpenWindowFile {
    /// Opens the file, which is created if it doesn't exist.
    ///
    /// # Errors
    /// Fails if it can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Returns the note of an agent that was killed; `None` if the last one ended by itself.
    #[must_use]
    pub fn read(&self) -> Option<WindowNote> {
        let mut bytes = [0; BYTES];
        let length = self.file.read_at(&mut bytes, 0).ok()?;
        serde_json::from_slice(&bytes[..length]).ok()
    }

    /// Replaces the note.
    ///
    /// # Errors
    /// Fails if the file can't be written.
    pub fn write(&self, note: &WindowNote) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(note)?;
        bytes.resize(BYTES, b' ');
        self.file.write_all_at(&bytes, 0)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Fails if it can't be removed.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_is_read_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open");
        let file = OpenWindowFile::open(&path).unwrap();
        assert_eq!(file.read(), None);
        let long = WindowNote { start_us: i64::MIN, noted_us: i64::MIN, samples: u64::MAX };
        file.write(&long).unwrap();
        let short = WindowNote { start_us: 1, noted_us: 2, samples: 3 };
        file.write(&short).unwrap();
        drop(file);
        let next = OpenWindowFile::open(&path).unwrap();
        assert_eq!(next.read(), Some(short));
        next.remove().unwrap();
        assert_eq!(OpenWindowFile::open(&path).unwrap().read(), None);
    }

    #[test]
    fn damage_is_no_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open");
        for bytes in [&b"{"[..], b"\0\0\0", b"null"] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(OpenWindowFile::open(&path).unwrap().read(), None);
        }
    }
}
