//! The messages after a recording, and the sizes that tare and other programs report.

use std::fs::File;

use tare_format::file::Reader;
use tare_format::ledger::Ledger;

use crate::recorded::RecordingFolder;
use crate::support::{stderr, tare};

const COMMAND: [&str; 6] =
    ["-e", "cpu-clock", "--", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"];

/// A number of bytes as tare prints it.
fn printed(bytes: u64) -> String {
    match bytes as f64 {
        large if large >= 1e6 => format!("{:.1} MB", large / 1e6),
        small => format!("{:.1} kB", small / 1e3),
    }
}

#[test]
fn two_lines_follow_a_recording_and_the_rest_is_with_v_and_in_the_header() {
    let place = RecordingFolder::new();
    let usual = place.run(&COMMAND);
    assert!(usual.status.success(), "{}", stderr(&usual));
    let said = stderr(&usual);
    let lines: Vec<&str> = said.lines().collect();
    let [samples, cost] = lines[..] else { panic!("{said}") };
    assert!(samples.contains(" in ") && samples.ends_with(&place.file().display().to_string()));
    assert!(cost.contains("tare: overhead ") && cost.contains(" (recorder: "), "{cost}");
    let header =
        tare().args(["report", "--header", "-G", "-i"]).arg(place.file()).output().unwrap();
    let header = String::from_utf8(header.stdout).unwrap();
    let verbose = stderr(&place.run(&[&["-v"][..], &COMMAND].concat()));
    for title in ["coverage: ", "the recorder: ", "ring buffers: ", "the command: "] {
        assert!(verbose.contains(title) && header.contains(title), "{title}: {verbose}{header}");
        assert!(!said.contains(title), "{said}");
    }
}

#[test]
fn a_recording_has_one_size() {
    for options in [&[][..], &["-z"], &["--output-path=mmap"], &["--output-path=direct"], &["-B"]] {
        let place = RecordingFolder::new();
        let output = place.run(&[options, &COMMAND].concat());
        let len = std::fs::metadata(place.file()).unwrap().len();
        let size = format!("; {} -> ", printed(len));
        assert!(stderr(&output).contains(&size), "{options:?}: {len} {}", stderr(&output));
        let mut reader = Reader::open(File::open(place.file()).unwrap()).unwrap();
        while reader.next_record().unwrap().is_some() {}
        let notes = reader.description().notes();
        let ledger = notes.iter().rev().find_map(|note| Ledger::from_note(note)).unwrap();
        assert_eq!(ledger.output.written_bytes, len, "{options:?}");
    }
}

#[test]
fn the_sum_over_several_files_is_not_called_the_last_one() {
    let place = RecordingFolder::new();
    let words = ["-e", "page-faults", "-c", "1", "--switch-output=50K", "--", "sh", "-c"];
    let script = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done";
    let output = place.run(&[&words[..], &[script]].concat());
    let said = stderr(&output);
    let files: Vec<&str> = said.lines().filter(|line| line.contains(" -> ")).collect();
    let sums: Vec<&str> = said.lines().filter(|line| line.contains(" in all; ")).collect();
    assert!(!files.is_empty() && sums.len() == 1, "{said}");
    assert!(sums[0].contains("the last file is ") && !sums[0].contains(" -> "), "{said}");
}
