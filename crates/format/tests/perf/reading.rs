//! Reads recordings with this crate and with `perf`.

use std::fs::File;
use std::process::{Command, Stdio};

use tare_format::file::{Entry, Reader};

use crate::recording::PerfRecording;

impl PerfRecording {
    /// Runs `perf` with the recording's path as its last argument. Returns its stdout.
    pub(crate) fn perf(&self, arguments: &[&str]) -> String {
        let output = Command::new("perf")
            .args(arguments)
            .arg(&self.path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Reads a recording to its end, and calls `each` with every record.
pub(crate) fn all_records(
    recording: &PerfRecording,
    mut each: impl FnMut(&Entry<'_>),
) -> Reader<File> {
    let mut reader = Reader::open(File::open(&recording.path).unwrap()).unwrap();
    while let Some(entry) = reader.next_record().unwrap() {
        each(&entry);
    }
    reader
}
