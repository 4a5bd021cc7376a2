//! Recordings made by tests, and their contents.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tare_format::abi::bindings::{PERF_RECORD_LOST, PERF_RECORD_READ, PERF_RECORD_SAMPLE};
use tare_format::file::Reader;
use tare_format::ledger::Ledger;
use tare_format::record::{Record, Sample, kind};

use crate::support::{sh, stderr, tare};

/// A temporary folder for one recording.
pub(crate) struct RecordingFolder {
    pub(crate) folder: tempfile::TempDir,
}

impl RecordingFolder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("perf.data")
    }

    /// A command `tare record -o FILE`.
    pub(crate) fn record(&self, args: &[&str]) -> Command {
        let mut command = tare();
        command.arg("record").arg("-o").arg(self.file()).args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.record(args).output().unwrap()
    }
}

/// Contents of a recording.
#[derive(Debug, Default)]
pub(crate) struct RecordingContents {
    pub(crate) samples: usize,
    /// The sum of the counts in LOST records.
    pub(crate) lost: u64,
    pub(crate) reads: usize,
    pub(crate) marks: usize,
    /// Thread ids in samples.
    pub(crate) tids: Vec<i32>,
    pub(crate) ledger: Option<Ledger>,
    /// Whether the file's end was written.
    pub(crate) finished: bool,
}

pub(crate) fn read(path: &Path) -> RecordingContents {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    let mut found = RecordingContents::default();
    while let Some(entry) = reader.next_record().unwrap() {
        match entry.record.kind {
            PERF_RECORD_SAMPLE => found.samples += 1,
            PERF_RECORD_READ => found.reads += 1,
            kind::FINISHED_ROUND => found.marks += 1,
            _ => {}
        }
        match entry.record.decode() {
            Ok(Record::Sample) => found.tids.extend(
                Sample::from_record(&entry.record, entry.description.lookup()).unwrap().head.tid,
            ),
            Ok(Record::Lost(lost)) => {
                assert_eq!(entry.record.kind, PERF_RECORD_LOST);
                found.lost += lost.lost;
            }
            _ => {}
        }
    }
    assert!(reader.losses().is_empty(), "{:?}", reader.losses());
    found.ledger =
        reader.description().notes().iter().filter_map(|note| Ledger::from_note(note)).next_back();
    let bytes = std::fs::read(path).unwrap();
    // Feature bit 0 marks the provisional table behind growing data.
    found.finished = bytes[72] & 1 == 0;
    found
}

pub(crate) fn perf_script(words: &[&str], path: &Path) -> Option<Vec<String>> {
    let output = match Command::new("perf").arg("script").args(words).arg("-i").arg(path).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: perf can't be run: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", stderr(&output));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

pub(crate) fn samples_of(ledger: &Ledger) -> usize {
    ledger.events.iter().map(|event| usize::try_from(event.samples).unwrap()).sum()
}

/// Waits until a recording's first bytes are in its file, and 100 ms more.
pub(crate) fn wait_for(path: &Path) {
    let patience = Instant::now() + Duration::from_secs(20);
    while std::fs::metadata(path).map_or(0, |metadata| metadata.len()) == 0 {
        assert!(Instant::now() < patience, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
}

pub(crate) fn send(signal: &str, to: &Child) {
    assert!(sh(&format!("kill -{signal} {}", to.id())).status.success());
}
