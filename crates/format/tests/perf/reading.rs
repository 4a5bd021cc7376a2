//! Reading what was recorded, by tare and by `perf`.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use tare_format::file::{Entry, Reader};

use crate::recording::Recording;

impl Recording {
    /// What `perf` prints about the recording; its name becomes the last argument.
    pub(crate) fn perf(&self, arguments: &[&str]) -> String {
        let output = Command::new("perf").args(arguments).arg(&self.path).stdin(Stdio::null()).output().unwrap();
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

/// What `zstd` makes of a stream that perf flushes and never ends: an empty last block (RFC 8878, 3.1.1.2) does it here.
pub(crate) fn decompress(compressed: &[u8]) -> Vec<u8> {
    if compressed.is_empty() {
        return Vec::new();
    }
    let mut zstd = Command::new("zstd");
    let mut child = zstd.arg("-dcq").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = [compressed, &[1, 0, 0]].concat();
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap().stdout;
    feeder.join().unwrap().unwrap();
    output
}
