//! Inputs for readers of files.

use std::cell::OnceCell;
use std::io::Write;
use std::path::{Path, PathBuf};

thread_local! {
    /// The temporary file of this thread.
    static PLACE: OnceCell<(tempfile::TempDir, PathBuf)> = const { OnceCell::new() };
}

/// Writes an input to a file and calls `read` with its path.
pub(crate) fn with_file(input: &[u8], read: impl FnOnce(&Path)) {
    PLACE.with(|place| {
        let place = place.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
            let path = folder.path().join("input");
            (folder, path)
        });
        let written = std::fs::File::create(&place.1).and_then(|mut file| file.write_all(input));
        written.unwrap_or_else(|error| panic!("an input can't be written: {error}"));
        read(&place.1);
    });
}
