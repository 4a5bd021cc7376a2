//! Reading what was recorded, by tare and by `perf`.

use std::fs::File;
use std::process::{Command, Stdio};

use tare_format::file::{Entry, Reader};

use crate::recording::Recording;

impl Recording {
    /// What `perf` prints about the recording; its name becomes the last argument.
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

/// Reads a recording to its end and hands every record out.
pub(crate) fn all_records(recording: &Recording, mut each: impl FnMut(&Entry<'_>)) -> Reader<File> {
    let mut reader = Reader::open(File::open(&recording.path).unwrap()).unwrap();
    while let Some(entry) = reader.next_record().unwrap() {
        each(&entry);
    }
    reader
}
