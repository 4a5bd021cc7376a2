//! Recordings by `perf`, in a folder that goes away.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tare_format::file::{Entry, Reader};

/// Some user time, some system calls, some short-lived processes.
pub(crate) const WORKLOAD: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; for k in 1 2 3; do /bin/true; done";

pub(crate) struct Recording {
    pub(crate) path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Recording {
    /// What `perf` prints about the recording; its name becomes the last argument.
    pub(crate) fn perf(&self, arguments: &[&str]) -> String {
        let output = Command::new("perf").args(arguments).arg(&self.path).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Says so where a program is not there.
pub(crate) fn is_missing(program: &str) -> bool {
    let is_missing = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err();
    if is_missing {
        println!("skipped: {program} is not installed");
    }
    is_missing
}

/// A recording as a file; `None` where `perf` is missing or can't make it here.
pub(crate) fn record(options: &[&str]) -> Option<Recording> {
    run(options, |path| (path.display().to_string(), Stdio::null()))
}

/// A recording as a stream, saved in a file.
pub(crate) fn record_to_pipe(options: &[&str]) -> Option<Recording> {
    run(options, |path| ("-".to_owned(), File::create(path).unwrap().into()))
}

fn run(options: &[&str], output: impl FnOnce(&PathBuf) -> (String, Stdio)) -> Option<Recording> {
    if is_missing("perf") || options.contains(&"-z") && is_missing("zstd") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let (name, stdout) = output(&path);
    let mut perf = Command::new("perf");
    perf.args(["record", "--no-bpf-event", "-o", &name]).args(options).args(["--", "sh", "-c", WORKLOAD]);
    let done = perf.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    if !done.status.success() {
        println!("skipped: perf record {options:?}: {}", String::from_utf8_lossy(&done.stderr));
        return None;
    }
    Some(Recording { path, _folder: folder })
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
