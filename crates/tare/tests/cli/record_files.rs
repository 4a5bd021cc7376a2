//! `tare record` into a series of files and into a file of limited size: each file can be read
//! without the others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_format::abi::bindings::{PERF_RECORD_COMM, PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE};
use tare_format::file::Reader;

use crate::recorded::{RecordingFolder, perf_script, read, samples_of, send, wait_for};
use crate::support::{ProcessGuard, is_root, stderr};

/// Many page faults; each is a sample.
const FORKS: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done"];
const FAULTS: [&str; 7] = ["-e", "page-faults", "-c", "1", "--no-call-graph", "-m", "64"];

/// The recordings in a folder, by name.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("perf.data"))
    };
    let mut files: Vec<PathBuf> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(named).collect();
    files.sort();
    files
}

/// Asserts that each file's ledger counts that file; returns the total number of samples.
fn check_ledgers(files: &[PathBuf]) -> usize {
    let check = |file: &PathBuf| {
        let found = read(file);
        let ledger = found.ledger.unwrap();
        assert!(found.finished && ledger.finished, "{}", file.display());
        assert_eq!(samples_of(&ledger), found.samples, "{}", file.display());
        assert!(
            perf_script(&["-F", "tid,time"], file).is_none_or(|lines| lines.len() == found.samples)
        );
        found.samples
    };
    files.iter().map(check).sum()
}

/// The number of samples in the last line that names it.
fn said(text: &str) -> usize {
    let line = text.lines().rfind(|line| line.contains(" samples in ")).unwrap();
    line.trim_start_matches("tare: ").split(' ').next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn files_that_fill_one_after_the_other_have_ledgers_of_their_own() {
    for way in
        [&["--output-path=write"][..], &["--output-path=mmap"], &["--output-path=direct"], &["-z"]]
    {
        let place = RecordingFolder::new();
        let size = if way == ["-z"] { "--switch-output=20K" } else { "--switch-output=100K" };
        let output = place.run(&[&FAULTS[..], way, &[size, "--"], &FORKS].concat());
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));
        let files = recordings(place.folder.path());
        assert!(files.len() > 2, "{way:?}: {files:?}");
        let samples = check_ledgers(&files);
        assert!(samples > 1000, "{way:?}: {samples}");
        // The final message sums up all files.
        assert_eq!(said(&stderr(&output)), samples, "{way:?}: {}", stderr(&output));
    }
}

#[test]
fn a_file_becomes_hardly_larger_than_it_may() {
    let place = RecordingFolder::new();
    let output = place.run(&[&FAULTS[..5], &["--max-size=300K", "--"], &FORKS].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = "it has reached its size limit";
    assert_eq!(stderr(&output).matches(said).count(), 1, "{}", stderr(&output));
    let len = std::fs::metadata(place.file()).unwrap().len();
    // The description of the recording is additional.
    assert!((300 << 10..400 << 10).contains(&len), "{len}");
    check_ledgers(&[place.file()]);
}

#[test]
fn files_end_after_a_time() {
    let place = RecordingFolder::new();
    let words = [
        "-e",
        "cpu-clock",
        "-F",
        "1000",
        "--flush-interval",
        "50",
        "--switch-output=1s",
        "--",
        "sh",
        "-c",
    ];
    let output = place.run(&[&words[..], &["while :; do :; done & sleep 2.5; kill $!"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let files = recordings(place.folder.path());
    assert!((2..=3).contains(&files.len()), "{files:?}");
    assert_eq!(said(&stderr(&output)), check_ledgers(&files));
}

/// Waits until `number` recordings exist.
fn wait_for_files(folder: &Path, number: usize) {
    let patience = Instant::now() + Duration::from_secs(20);
    while recordings(folder).len() < number {
        assert!(Instant::now() < patience, "{:?}", recordings(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sigusr2_has_what_there_is_written() {
    for keeps in [
        &["--switch-output"][..],
        &["--switch-output", "--overwrite"],
        &["--switch-output", "--keep-last", "5"],
        &["--keep-last", "5"],
    ] {
        let place = RecordingFolder::new();
        let words = ["-e", "cpu-clock", "-F", "1000", "--flush-interval", "50", "-q"];
        let mut recorder = ProcessGuard::spawn(
            &mut place
                .record(&[&words[..], keeps, &["--", "sh", "-c", "while :; do :; done"]].concat()),
        );
        wait_for(&place.file());
        std::thread::sleep(Duration::from_millis(200));
        send("USR2", &recorder);
        if keeps[0] == "--switch-output" {
            wait_for_files(place.folder.path(), 2);
        } else {
            let patience = Instant::now() + Duration::from_secs(20);
            while read(&place.file()).samples == 0 {
                assert!(Instant::now() < patience, "{keeps:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        std::thread::sleep(Duration::from_millis(200));
        send("TERM", &recorder);
        assert_eq!(recorder.wait().unwrap().code(), Some(143));
        let files = recordings(place.folder.path());
        assert_eq!(
            files.len(),
            if keeps[0] == "--switch-output" { 2 } else { 1 },
            "{keeps:?}: {files:?}"
        );
        assert!(files.iter().all(|file| read(file).samples > 0), "{keeps:?}");
        check_ledgers(&files);
    }
}

/// Positions of the COMM and of the MMAP2 records of a process, and of the last sample.
fn places(path: &Path, pid: u32) -> (Vec<usize>, Vec<usize>, usize) {
    let mut reader = Reader::open(std::fs::File::open(path).unwrap()).unwrap();
    let mut comms = Vec::new();
    let mut maps = Vec::new();
    let mut last_sample = 0;
    let mut at = 0;
    while let Some(entry) = reader.next_record().unwrap() {
        let is_of = entry
            .record
            .body
            .first_chunk::<4>()
            .is_some_and(|word| u32::from_ne_bytes(*word) == pid);
        match entry.record.kind {
            PERF_RECORD_COMM if is_of => comms.push(at),
            PERF_RECORD_MMAP2 if is_of => maps.push(at),
            PERF_RECORD_SAMPLE => last_sample = at,
            _ => {}
        }
        at += 1;
    }
    (comms, maps, last_sample)
}

#[test]
fn what_runs_is_described_when_and_as_far_as_it_is_asked_for() {
    if !is_root() {
        return;
    }
    let busy = ProcessGuard::busy();
    let pid = busy.id();
    let record = |options: &[&str]| {
        let place = RecordingFolder::new();
        let output = place.run(
            &[
                &["-e", "cpu-clock", "-c", "50000", "-p", &pid.to_string(), "--timeout", "300"],
                options,
            ]
            .concat(),
        );
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        places(&place.file(), pid)
    };
    let [all, at_the_end, tasks, nothing] =
        [&[][..], &["--tail-synthesize"], &["--synth=task"], &["--synth=no"]].map(record);
    drop(busy);
    let (comms, maps, last_sample) = all;
    assert!(
        comms[0] < last_sample && maps[0] < last_sample && last_sample > 0,
        "{comms:?} {maps:?} {last_sample}"
    );
    let (comms, maps, last_sample) = at_the_end;
    assert!(
        comms[0] > last_sample && maps[0] > last_sample && last_sample > 0,
        "{comms:?} {maps:?} {last_sample}"
    );
    assert!(!tasks.0.is_empty() && tasks.1.is_empty(), "{tasks:?}");
    assert!(nothing.0.is_empty() && nothing.1.is_empty(), "{nothing:?}");
}
