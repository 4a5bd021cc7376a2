//! perf (`report`, `script`, `inject`), the crate `linux-perf-data` and the project's own reader
//! find the same samples in tare's recordings.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

use linux_perf_data::linux_perf_event_reader::RecordType;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use tare_format::abi::bindings::PERF_RECORD_SAMPLE;
use tare_format::file::Reader;
use tare_format::ledger::Ledger;

use crate::support::{is_root, stderr, tare};

/// A command with user time, system calls and short-lived processes.
const WORKLOAD: [&str; 3] = [
    "sh",
    "-c",
    "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; for k in 1 2 3; do /bin/true; done",
];

/// Kinds of recordings that a machine without a PMU can make.
const OPTIONS: &[&[&str]] = &[
    &["-e", "cpu-clock", "-F", "5000"],
    &["-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf,2048"],
    &["-e", "cpu-clock", "-e", "page-faults", "-c", "1", "-d", "--no-call-graph"],
    &["-e", "{cpu-clock,page-faults}:S", "-c", "100000"],
    &["-e", "page-faults", "-c", "1", "-s", "--user-regs=ip,sp", "-I=ip"],
    &["-a", "-e", "cpu-clock", "--switch-events", "--namespaces", "--all-cgroups"],
    &["-e", "cpu-clock", "-k", "raw", "--buildid-mmap", "-i"],
    &["-e", "raw_syscalls:sys_enter,sched:sched_switch", "-g"],
    &["-a", "-e", "raw_syscalls:*"],
    &["-C", "0", "-e", "cpu-clock,context-switches"],
    &["-G", "/", "-e", "cpu-clock"],
];

/// Runs perf with a recording on stdin, because `inject` of perf 6.1 takes the header of a
/// stream in a file for a record. Without perf, prints the reason and returns `None`.
fn perf_on_stream(words: &[&str], input: &Path) -> Option<String> {
    perf_with(Command::new("perf").args(words).args(["-i", "-"]).stdin(File::open(input).unwrap()))
}

/// Runs perf on a recording. Without perf, prints the reason and returns `None`.
fn perf(words: &[&str], input: &Path) -> Option<String> {
    perf_with(Command::new("perf").args(words).arg("-i").arg(input).stdin(Stdio::null()))
}

fn perf_with(perf: &mut Command) -> Option<String> {
    let ran = perf.output();
    let Ok(output) = ran else {
        println!("skipped: perf is not installed");
        return None;
    };
    assert!(output.status.success(), "{perf:?}: {}", stderr(&output));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn samples_of_perf(path: &Path) -> Option<usize> {
    let dump = perf(&["report", "-D"], path)?;
    let script = perf(&["script", "-F", "tid,time,event"], path)?;
    let samples = dump.lines().filter(|line| line.contains(": PERF_RECORD_SAMPLE(")).count();
    let lines = script.lines().filter(|line| line.contains(": ")).count();
    // perf prints a sample with a group's counts once per member that counted on.
    assert!(lines >= samples, "script {lines}, report {samples}");
    Some(samples)
}

fn samples_of_crate(path: &Path, options: &[&str]) -> usize {
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut samples = 0;
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        if let PerfFileRecord::EventRecord { record, .. } = record {
            let kind = record.record_type;
            samples += usize::from(kind == RecordType::SAMPLE);
            // The crate doesn't parse group counts in samples.
            if !options.iter().any(|option| option.ends_with(":S")) {
                record.parse().unwrap_or_else(|error| {
                    panic!("linux-perf-data: {options:?}: {kind:?}: {error}")
                });
            }
        }
    }
    samples
}

/// The number of samples, and the notes.
fn samples_of_reader(path: &Path) -> (usize, Vec<Vec<u8>>) {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    let mut samples = 0;
    while let Some(entry) = reader.next_record().unwrap() {
        samples += usize::from(entry.record.kind == PERF_RECORD_SAMPLE);
    }
    assert!(reader.losses().is_empty(), "{:?}", reader.losses());
    (samples, reader.description().notes().to_vec())
}

/// Makes a recording. If this machine can't, prints the reason and returns `false`.
fn record(options: &[&str], output: &str, stdout: Stdio) -> bool {
    let done = tare()
        .arg("record")
        .args(options)
        .args(["-o", output, "--"])
        .args(WORKLOAD)
        .stdout(stdout)
        .output()
        .unwrap();
    if !done.status.success() {
        println!("skipped: tare record {options:?}: {}", stderr(&done));
    }
    done.status.success()
}

/// perf copies the recording and finds the same samples in the copy.
fn injected(path: &Path, copy: &Path, samples: usize) {
    let words = ["inject", "-o", copy.to_str().unwrap()];
    let is_stream = std::fs::read(path).unwrap().starts_with(b"PERFILE2\x10");
    if is_stream { perf_on_stream(&words, path) } else { perf(&words, path) }.unwrap();
    assert_eq!(samples_of_perf(copy), Some(samples), "perf inject");
}

#[test]
fn every_reader_finds_the_same_samples() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    for options in OPTIONS {
        if !record(options, path.to_str().unwrap(), Stdio::null()) {
            continue;
        }
        let (samples, notes) = samples_of_reader(&path);
        assert!(samples > 0, "{options:?}");
        assert_eq!(samples_of_crate(&path, options), samples, "linux-perf-data: {options:?}");
        assert!(
            notes.iter().any(|note| Ledger::from_note(note).is_some_and(|ledger| ledger.finished)),
            "{options:?}"
        );
        let Some(by_perf) = samples_of_perf(&path) else { return };
        assert_eq!(by_perf, samples, "perf: {options:?}");
        injected(&path, &folder.path().join("copy"), samples);
    }
}

#[test]
fn a_stream_has_the_samples_and_the_notes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    if !record(OPTIONS[0], "-", File::create(&path).unwrap().into()) {
        return;
    }
    let (samples, notes) = samples_of_reader(&path);
    assert!(samples > 0 && !notes.is_empty());
    let Some(by_perf) = samples_of_perf(&path) else { return };
    assert_eq!(by_perf, samples);
    injected(&path, &folder.path().join("copy"), samples);
}

#[test]
fn perf_reads_compressed_recordings_with_their_notes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compressed");
    let options = [OPTIONS[0], &["-z"]].concat();
    if !record(&options, path.to_str().unwrap(), Stdio::null()) {
        return;
    }
    let Some(samples) = samples_of_perf(&path) else { return };
    assert!(samples > 0);
    injected(&path, &folder.path().join("copy"), samples);
}
