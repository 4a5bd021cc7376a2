//! `tare record` into a series of files: each is self-contained in every mode of `--follow`, and
//! none repeats another's samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use tare_format::abi::bindings::PERF_RECORD_SAMPLE;
use tare_format::file::Reader;
use tare_format::record::{Record, Sample};

use crate::recorded::{RecordingFolder, read};
use crate::support::{ProcessGuard, is_root, left_out, stderr, tare};

const CLOCK: [&str; 6] = ["-e", "cpu-clock", "-F", "1000", "--flush-interval", "50"];

/// A shell loop of some tenths of a second.
const BUSY: &str = "i=0; while [ $i -lt 250000 ]; do i=$((i+1)); done";

/// The recordings in a folder, by name.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let named = |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes().starts_with(b"perf");
    let mut files: Vec<PathBuf> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(named).collect();
    files.sort();
    files
}

/// The samples that `tare script` prints, by thread, and the number that it leaves out.
fn shown(file: &Path) -> (BTreeMap<i32, usize>, usize) {
    let output = tare().args(["script", "-G", "-F", "tid", "-i"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut by_tid = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        *by_tid.entry(line.trim().parse().unwrap()).or_default() += 1;
    }
    (by_tid, left_out(&output))
}

/// The number of samples that `tare report` counts.
fn reported(file: &Path) -> u64 {
    let output =
        tare().args(["report", "-G", "--sort", "comm", "--json", "-i"]).arg(file).output().unwrap();
    if stderr(&output).contains("there are no samples") {
        return 0;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = document["events"][0]["entries"].as_array().unwrap().clone();
    entries.iter().map(|entry| entry["own"]["samples"].as_u64().unwrap()).sum()
}

/// The modes of `--follow` that work here; none without root.
fn modes() -> &'static [&'static str] {
    if !is_root() {
        return &[];
    }
    let place = RecordingFolder::new();
    let tried = place.run(&["-q", "--follow=cgroup", "--", "true"]);
    if tried.status.success() {
        &["--follow=cgroup", "--follow=system"]
    } else {
        println!("skipped: {}", stderr(&tried));
        &["--follow=system"]
    }
}

/// Asserts that `at_least` files of a series show samples of the command, and that all readers
/// agree on the samples of each.
fn each_file_shows_the_command(place: &RecordingFolder, at_least: usize, what: &str) {
    let files = recordings(place.folder.path());
    assert!(files.len() >= at_least, "{what}: {files:?}");
    for file in &files {
        let samples = read(file).samples;
        let (by_tid, left_out) = shown(file);
        let lines: usize = by_tid.values().sum();
        assert_eq!(lines + left_out, samples, "{what}: {}", file.display());
        assert_eq!(reported(file), lines as u64, "{what}: {}", file.display());
        if !what.contains("system") {
            // The waiting child has a sample or two, in the first file.
            assert!(left_out <= 3, "{what}: {left_out} of {samples} in {}", file.display());
        }
    }
    let of_file = |file: &PathBuf| shown(file).0.values().sum::<usize>();
    let shown: Vec<usize> = files.iter().map(of_file).collect();
    assert!(shown.iter().filter(|lines| **lines > 0).count() >= at_least, "{what}: {shown:?}");
}

#[test]
fn files_by_size_and_time_show_the_command() {
    for &mode in modes() {
        // At least two seconds, also on a fast machine.
        let command =
            format!("end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do {BUSY}; done");
        for (options, files) in [
            (&["--switch-output=1s"][..], 2),
            (&["--switch-output=20K", "--call-graph=dwarf,512"], 4),
        ] {
            if mode == "--follow=system" && files > 2 {
                // On a busy machine such a small file may hold samples of other processes only.
                continue;
            }
            let place = RecordingFolder::new();
            let output =
                place.run(&[&CLOCK[..], &[mode], options, &["--", "sh", "-c", &command]].concat());
            assert!(output.status.success(), "{options:?}: {}", stderr(&output));
            each_file_shows_the_command(&place, files, &format!("{mode} {options:?}"));
        }
    }
}

/// An orphan has a new parent by then, so /proc doesn't show that it belongs to the command.
#[test]
fn files_on_sigusr2_show_the_command_and_what_it_left_behind() {
    for &mode in modes() {
        let command = format!(
            "({BUSY}; {BUSY}; {BUSY}) & (({BUSY}; {BUSY}; {BUSY}) &); {BUSY}; kill -USR2 $PPID; {BUSY}"
        );
        for keeps in [&[][..], &["--overwrite"], &["--keep-last", "9"]] {
            let mut stranger = ProcessGuard::busy();
            let place = RecordingFolder::new();
            let words =
                [&CLOCK[..], &[mode, "--switch-output"], keeps, &["--", "sh", "-c", &command]];
            let output = place.run(&words.concat());
            stranger.end();
            let what = format!("{mode} {keeps:?}");
            assert!(output.status.success(), "{what}: {}", stderr(&output));
            each_file_shows_the_command(&place, 2, &what);
            let files = recordings(place.folder.path());
            let of_file: Vec<BTreeSet<i32>> =
                files.iter().map(|file| shown(file).0.into_keys().collect()).collect();
            let stranger = i32::try_from(stranger.id()).unwrap();
            assert!(of_file.iter().all(|tids| !tids.contains(&stranger)), "{what}");
            let first = &of_file[0];
            let last = of_file.last().unwrap();
            assert_eq!(first.intersection(last).count(), 3, "{what}: {of_file:?}");
        }
    }
}

/// Times of a recording's samples, by CPU.
fn times(file: &Path) -> BTreeSet<(Option<u32>, Option<u64>)> {
    let mut reader = Reader::open(File::open(file).unwrap()).unwrap();
    let mut times = BTreeSet::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if entry.record.kind == PERF_RECORD_SAMPLE {
            let head = Sample::from_record(&entry.record, entry.description.lookup()).unwrap().head;
            times.insert((head.cpu, head.time_ns));
        }
    }
    times
}

#[test]
fn no_file_of_overwritten_rings_repeats_what_another_holds() {
    let place = RecordingFolder::new();
    let command = format!(
        "{BUSY}; kill -USR2 $PPID; {BUSY}; kill -USR2 $PPID; {BUSY}; kill -USR2 $PPID; sleep 0.3"
    );
    let words = ["--overwrite", "--switch-output", "--sample-cpu", "--", "sh", "-c", &command];
    let output = place.run(&[&CLOCK[..], &words].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let files = recordings(place.folder.path());
    assert!(files.len() >= 3, "{files:?}");
    let of_file: Vec<_> = files.iter().map(|file| times(file)).collect();
    let all: BTreeSet<_> = of_file.iter().flatten().collect();
    let samples: usize = files.iter().map(|file| read(file).samples).sum();
    assert!(of_file.iter().take(3).all(|times| !times.is_empty()), "{:?}", stderr(&output));
    assert_eq!(samples, all.len(), "{}", stderr(&output));
    for (file, times) in files.iter().zip(&of_file) {
        let counted: u64 =
            read(file).ledger.unwrap().events.iter().map(|event| event.samples).sum();
        assert_eq!(counted, times.len() as u64, "{}", file.display());
    }
}

/// The processes that a recording tells of, and whether each of its samples lies in known code.
fn processes_and_code(file: &Path) -> (BTreeSet<i32>, bool) {
    let mut reader = Reader::open(File::open(file).unwrap()).unwrap();
    let mut pids = BTreeSet::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if let Ok(Record::Comm(comm)) = entry.record.decode() {
            pids.insert(comm.pid);
        }
    }
    let words = ["script", "-G", "-F", "ip,dso", "-i"];
    let output = tare().args(words).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    (pids, !lines.contains("[unknown]"))
}

#[test]
fn each_file_describes_the_commands_processes_and_no_others() {
    let mut stranger = ProcessGuard::busy();
    // The last process exits while its samples still wait for a file.
    let command = format!("({BUSY}; {BUSY}); sh -c '{BUSY}'; sh -c '{BUSY}'");
    let place = RecordingFolder::new();
    let words = ["--switch-output=64K", "--call-graph=dwarf,1024", "--", "sh", "-c", &command];
    let output = place.run(&[&CLOCK[..], &words].concat());
    stranger.end();
    assert!(output.status.success(), "{}", stderr(&output));
    let files = recordings(place.folder.path());
    assert!(files.len() >= 4, "{files:?}: {}", stderr(&output));
    let own = i32::try_from(std::process::id()).unwrap();
    for file in &files {
        let (pids, is_known) = processes_and_code(file);
        assert!(!pids.contains(&own) && pids.len() <= 5, "{}: {pids:?}", file.display());
        assert!(is_known, "{}", file.display());
    }
}

#[test]
fn a_size_smaller_than_the_description_of_the_machine_is_refused() {
    let place = RecordingFolder::new();
    let mut children: Vec<ProcessGuard> = (0..10).map(|_| ProcessGuard::busy()).collect();
    let pids: Vec<String> = children.iter().map(|child| child.id().to_string()).collect();
    let words = ["--switch-output=4K", "--timeout", "200", "-p", &pids.join(",")];
    let output = place.run(&[&CLOCK[..], &words].concat());
    children.iter_mut().for_each(ProcessGuard::end);
    let said = stderr(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("--switch-output=4K: each file begins with "), "{said}");
    assert!(said.contains(": use at least "), "{said}");
}
