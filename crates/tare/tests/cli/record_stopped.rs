//! The messages of `tare record` after a recording that ended early or holds too little for
//! conclusions.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::recorded::{RecordingFolder, read, samples_of};
use crate::support::{Tmpfs, Unprivileged, is_root, sh, stderr, tare};

/// Many page faults, each a sample.
const FORKS: [&str; 4] =
    ["--", "sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"];
const FAULTS: [&str; 7] = ["-e", "page-faults", "-c", "1", "--no-call-graph", "-m", "64"];

/// The number of samples in the last line that names it.
fn said(output: &Output) -> usize {
    let text = stderr(output);
    let line = text.lines().rfind(|line| line.contains(" samples in ")).unwrap();
    line.trim_start_matches("tare: ").split(' ').next().unwrap().replace(',', "").parse().unwrap()
}

/// No message describes the command's totals, because the recording ended before the command.
fn blames_nobody(output: &Output, file: &Path, what: &str) {
    let text = stderr(output);
    let found = read(file);
    let ledger = found.ledger.unwrap();
    assert!(found.finished && ledger.stopped.is_some(), "{what}: {text}");
    assert_eq!(samples_of(&ledger), found.samples, "{what}: {text}");
    assert_eq!(said(output), found.samples, "{what}: {text}");
    assert!(
        !text.contains("WARNING") && !text.contains("left the command's cgroup"),
        "{what}: {text}"
    );
    let follow = ledger.follow.unwrap();
    assert_eq!(follow.left_cgroup, 0, "{what}");
    for coverage in ledger.events.iter().filter_map(|event| event.coverage) {
        assert!(
            coverage.sampled <= found.samples as u64,
            "{what}: {coverage:?} of {}",
            found.samples
        );
    }
}

#[test]
fn a_recording_of_limited_size_blames_nobody() {
    for way in [&[][..], &["-z"], &["--output-path=mmap"], &["--output-path=direct"]] {
        let place = RecordingFolder::new();
        let size = if way == ["-z"] { "--max-size=40K" } else { "--max-size=300K" };
        let output = place.run(&[&FAULTS, way, &[size], &FORKS].concat());
        assert_eq!(output.status.code(), Some(0), "{way:?}: {}", stderr(&output));
        blames_nobody(&output, &place.file(), &format!("{way:?}"));
    }
}

#[test]
fn a_full_disk_blames_nobody_and_only_what_is_in_the_file_counts() {
    for way in [&[][..], &["-z"], &["--output-path=mmap"], &["--output-path=direct"]] {
        let Some(tmpfs) = Tmpfs::mount(if way == ["-z"] { 100 << 10 } else { 512 << 10 }) else {
            return;
        };
        let file = tmpfs.0.path().join("perf.data");
        let mut command = tare();
        command.args(["record", "-o"]).arg(&file).stdin(Stdio::null());
        let output = command.args([&FAULTS, way, &FORKS].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{way:?}: {}", stderr(&output));
        blames_nobody(&output, &file, &format!("{way:?}"));
        assert!(read(&file).samples > 100, "{way:?}: {}", stderr(&output));
    }
}

/// At the highest rate the message doesn't advise a higher one.
#[test]
fn the_highest_rate_is_not_to_be_made_higher() {
    let place = RecordingFolder::new();
    let command = ["--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
    let output = place.run(&[&["-F", "max", "-e", "cpu-clock"][..], &command].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("higher rate"), "{}", stderr(&output));
}

/// tare prints no coverage far above 100%.
#[test]
fn a_share_of_next_to_nothing_is_not_told() {
    let place = RecordingFolder::new();
    let output = place.run(&["-e", "cpu-clock", "-e", "page-faults", "--", "true"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stderr(&output);
    let shares =
        text.lines().filter(|line| line.contains("coverage: ")).flat_map(|line| line.split('('));
    for share in shares.filter_map(|part| part.split_once("%)")?.0.parse::<f64>().ok()) {
        assert!(share <= 130.0, "{text}");
    }
}

/// The kernel removes an ordinary user's events from a task that gains privileges.
#[test]
fn a_program_with_other_rights_is_named_where_it_cannot_be_recorded() {
    let Some(nobody) = Unprivileged::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let file = folder.path().join("perf.data");
    sh(&format!("chmod 777 {}", folder.path().display()));
    std::fs::copy("/bin/sh", &program).unwrap();
    sh(&format!("chmod 4755 {}", program.display()));
    let loops = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let words: [&Path; 7] = [
        Path::new("-o"),
        &file,
        Path::new("-e"),
        Path::new("cpu-clock:u"),
        &program,
        Path::new("-c"),
        Path::new(loops),
    ];
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
    let output = nobody.tare("record", &words);
    let paranoid: i32 = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    if paranoid > 2 || !output.status.success() {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let text = stderr(&output);
    assert!(text.contains("other rights") && text.contains("program"), "{text}");
    assert!(!text.contains("short-lived children"), "{text}");
}

/// A new file name is durable only after fsync(2) of its folder.
#[test]
fn sync_has_names_on_the_disk_too() {
    if !is_root() {
        return;
    }
    let synced = |options: &[&str]| -> u64 {
        let place = RecordingFolder::new();
        let counts = place.folder.path().join("counts");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(["stat", "-x,", "-e", "syscalls:sys_enter_fsync", "-o"]).arg(&counts);
        command.arg(env!("CARGO_BIN_EXE_tare")).args(["record", "-q", "-o"]).arg(place.file());
        let output = command.args(options).args(["--", "true"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let files: Vec<PathBuf> =
            place.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 2, "{files:?}");
        let line = std::fs::read_to_string(&counts).unwrap();
        line.lines()
            .find(|line| line.contains("fsync"))
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    assert_eq!(synced(&[]), 0);
    // Once when the file is created. With the time in its name, again when it is complete.
    assert_eq!(synced(&["--sync"]), 1);
    assert_eq!(synced(&["--sync", "--timestamp-filename"]), 2);
}
