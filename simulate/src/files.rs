//! Files of a run, for readers that open files.

use std::path::{Path, PathBuf};

/// Writes a file below a folder.
///
/// # Errors
/// It can't be written.
pub(crate) fn written(folder: &Path, number: usize, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let path = folder.join(format!("recording-{number}"));
    std::fs::write(&path, bytes)?;
    Ok(path)
}
