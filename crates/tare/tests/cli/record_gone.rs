//! The output file is truncated or deleted during `tare record`: tare reports it, keeps the rest,
//! and exits with its own failure status.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::recorded::{RecordingFolder, perf_script, read, samples_of};
use crate::support::{stderr, tare};

/// A shell loop of some tenths of a second.
const BUSY: &str = "i=0; while [ $i -lt 250000 ]; do i=$((i+1)); done";

const WAYS: [&[&str]; 6] = [
    &["--output-path=write"],
    &["--output-path=mmap"],
    &["--output-path=direct"],
    &["-z", "--output-path=write"],
    &["-z", "--output-path=mmap"],
    &["-z", "--output-path=direct"],
];

/// Records a command that works, changes the file, and works again.
fn record(way: &[&str], place: &RecordingFolder, does: &str) -> Output {
    let command = format!("{BUSY}; {does}; {BUSY}; {BUSY}; exit 3");
    let words = ["-e", "cpu-clock", "-F", "4000", "--flush-interval", "50", "--", "sh", "-c"];
    let mut command = place.record(&[way, &words, &[&command]].concat());
    command.current_dir(place.folder.path()).output().unwrap()
}

/// The message that gives the reason why the recording ended.
fn why(output: &Output) -> String {
    let text = stderr(output);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("ended early")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    lines[0].to_owned()
}

/// Asserts that the ledger counts the samples that tare and perf read.
fn check(file: &Path, what: &str) -> usize {
    let found = read(file);
    let ledger = found.ledger.unwrap();
    assert!(found.finished && ledger.finished && ledger.stopped.is_some(), "{what}: {ledger:?}");
    assert_eq!(samples_of(&ledger), found.samples, "{what}: {ledger:?}");
    if let Some(lines) = perf_script(&["-G", "-F", "tid,time"], file) {
        assert_eq!(lines.iter().filter(|line| !line.is_empty()).count(), found.samples, "{what}");
    }
    found.samples
}

#[test]
fn a_file_that_is_emptied_is_a_recording_without_samples() {
    for way in WAYS {
        let place = RecordingFolder::new();
        let output = record(way, &place, ": > perf.data");
        assert_eq!(output.status.code(), Some(125), "{way:?}: {}", stderr(&output));
        assert!(why(&output).contains("truncated"), "{way:?}: {}", stderr(&output));
        assert_eq!(check(&place.file(), &format!("{way:?}")), 0);
    }
}

#[test]
fn what_lies_before_the_end_that_a_file_is_given_is_kept() {
    for way in &WAYS[..3] {
        let place = RecordingFolder::new();
        let output = record(way, &place, "sleep 0.2; truncate -s 60000 perf.data");
        assert_eq!(output.status.code(), Some(125), "{way:?}: {}", stderr(&output));
        assert!(why(&output).contains("truncated"), "{way:?}: {}", stderr(&output));
        let samples = check(&place.file(), &format!("{way:?}"));
        assert!((10..1000).contains(&samples), "{way:?}: {samples}");
    }
}

#[test]
fn a_file_that_is_deleted_is_there_again() {
    for way in WAYS {
        let place = RecordingFolder::new();
        let output = record(way, &place, "sleep 0.2; rm perf.data");
        assert_eq!(output.status.code(), Some(125), "{way:?}: {}", stderr(&output));
        assert!(why(&output).contains("deleted"), "{way:?}: {}", stderr(&output));
        let samples = check(&place.file(), &format!("{way:?}"));
        assert!(samples > 50, "{way:?}: {samples}");
    }
}

/// A new file under the same name isn't touched.
#[test]
fn a_file_of_the_same_name_is_left_alone() {
    let place = RecordingFolder::new();
    let output = record(&[], &place, "sleep 0.2; rm perf.data; echo precious >perf.data");
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(place.file()).unwrap(), "precious\n");
    let said = stderr(&output);
    let other = said.split(" -> ").nth(1).unwrap().lines().next().unwrap();
    let other = PathBuf::from(other.trim());
    assert_ne!(other, place.file());
    assert!(check(&other, "another name") > 50);
}

/// tare notices at the end as well, if it wrote nothing in between.
#[test]
fn a_file_that_is_deleted_at_the_end_is_noticed() {
    let place = RecordingFolder::new();
    let mut command = tare();
    command.args(["record", "-e", "cpu-clock", "--flush-interval", "60000", "-o"]);
    command.arg(place.file()).args(["--", "rm"]).arg(place.file()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(why(&output).contains("deleted"), "{}", stderr(&output));
    check(&place.file(), "at the end");
}

/// Renaming the file is harmless.
#[test]
fn a_file_that_is_renamed_is_whole() {
    let place = RecordingFolder::new();
    let output = record(&[], &place, "mv perf.data elsewhere");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let found = read(&place.folder.path().join("elsewhere"));
    assert!(found.finished && found.samples > 50);
}
