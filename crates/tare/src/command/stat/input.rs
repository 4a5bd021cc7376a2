//! Standard input of a command that runs repeatedly.

use std::fs::File;
use std::io::{Seek, SeekFrom, stdin};
use std::os::fd::AsFd;

/// The position of standard input, if it is a file: each run reads it from there.
#[derive(Debug)]
pub(super) struct RepeatedInput {
    /// The file and the position in bytes.
    start: Option<(File, u64)>,
}

impl RepeatedInput {
    /// Notes the position.
    pub(super) fn new() -> Self {
        let file = stdin().as_fd().try_clone_to_owned().map(File::from).ok();
        let file = file.filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()));
        let start = file.and_then(|mut file| {
            let position = file.stream_position().ok()?;
            Some((file, position))
        });
        Self { start }
    }

    /// Goes back to the position. A pipe or a terminal has none: what a run has read is gone.
    pub(super) fn rewind(&mut self) {
        if let Some((file, position)) = &mut self.start {
            // The duplicate and standard input share the position.
            let _ = file.seek(SeekFrom::Start(*position));
        }
    }
}
