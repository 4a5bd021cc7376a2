//! Compares recordings of the installed `perf` with perf's own output about them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

mod features;
mod reading;
mod recording;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;

use reading::all_records;
use recording::{PerfRecording, record, record_to_pipe};
use tare_format::abi::bindings::PERF_CONTEXT_MAX;
use tare_format::file::Reader;
use tare_format::file::features::TRACING_DATA;
use tare_format::order::Sorter;
use tare_format::record::{Sample, kind};

/// Counts records by kind, with the contents of compressed records instead of these.
fn counts(recording: &PerfRecording) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let reader = all_records(recording, |entry| {
        if entry.record.kind != kind::COMPRESSED {
            *counts
                .entry(kind::name(entry.record.kind).unwrap_or("UNKNOWN").to_owned())
                .or_insert(0) += 1;
        }
    });
    assert!(reader.losses().is_empty(), "{:?}", reader.losses());
    counts
}

/// Counts records by kind in the output of `perf report -D`.
fn counts_of_perf(recording: &PerfRecording) -> BTreeMap<String, u64> {
    let dump = recording.perf(&["report", "-D", "-i"]);
    let mut counts = BTreeMap::new();
    for line in dump.lines() {
        let Some((_, rest)) = line.split_once(": PERF_RECORD_") else { continue };
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
            .collect();
        *counts.entry(name).or_insert(0) += 1;
    }
    counts
}

/// Options of recordings, with events that exist without a PMU.
const RECORDINGS: &[&[&str]] = &[
    &["-e", "cpu-clock"],
    &["-e", "cpu-clock", "-g"],
    &["-e", "cpu-clock", "--call-graph", "dwarf"],
    &["-e", "cpu-clock", "-F", "5000", "--user-regs=ip,sp", "--intr-regs=ip,sp"],
    &["-e", "raw_syscalls:*"],
    &["-e", "raw_syscalls:*", "-e", "cpu-clock", "-z"],
    &["-e", "cpu-clock", "-e", "page-faults", "-e", "context-switches", "-d"],
    &["-e", "{cpu-clock,page-faults}:S"],
    &["-e", "page-faults", "-s", "-W", "--buildid-mmap", "-k", "CLOCK_MONOTONIC"],
    &[
        "-a",
        "-e",
        "cpu-clock",
        "-e",
        "sched:sched_switch",
        "--switch-events",
        "--namespaces",
        "--all-cgroups",
    ],
];

#[test]
fn finds_and_decodes_the_records_that_perf_counts() {
    for options in RECORDINGS {
        let Some(recording) = record(options) else { continue };
        assert_eq!(counts(&recording), counts_of_perf(&recording), "{options:?}");
        let reader = all_records(&recording, |entry| {
            let record = &entry.record;
            record.decode().unwrap_or_else(|error| panic!("{options:?}: {error}"));
            if record.kind == kind::PERF_RECORD_SAMPLE {
                Sample::from_record(record, entry.description.lookup())
                    .unwrap_or_else(|error| panic!("{options:?}: {error}"));
            }
        });
        assert!(!reader.description().events().is_empty());
    }
}

#[test]
fn finds_the_records_that_perf_counts_in_a_pipe() {
    for options in
        [&["-e", "cpu-clock", "-g"][..], &["-e", "raw_syscalls:sys_enter", "-e", "cpu-clock"]]
    {
        let Some(recording) = record_to_pipe(options) else { continue };
        assert_eq!(counts(&recording), counts_of_perf(&recording), "{options:?}");
        let stream = Reader::stream(File::open(&recording.path).unwrap()).unwrap();
        assert_eq!(
            stream.header(),
            Reader::open(File::open(&recording.path).unwrap()).unwrap().header()
        );
        let reader = all_records(&recording, |_| ());
        let names: Vec<_> =
            reader.description().events().iter().filter_map(|event| event.name.clone()).collect();
        assert_eq!(
            names.len(),
            options.iter().filter(|option| **option == "-e").count(),
            "every event has a name"
        );
        let has_tracing_data = reader.description().features().section(TRACING_DATA).is_some();
        assert_eq!(
            has_tracing_data,
            options.iter().any(|option| option.starts_with("raw_syscalls"))
        );
    }
}

/// Compares thread, time, period, event and address of each sample.
#[test]
fn samples_equal_those_of_perf_script() {
    for options in [
        &["-e", "cpu-clock"][..],
        &["-e", "page-faults", "-c", "1", "-d"],
        &["-a", "-e", "cpu-clock", "-e", "context-switches"],
    ] {
        let Some(recording) = record(options) else { continue };
        let mut samples = Vec::new();
        all_records(&recording, |entry| {
            if entry.record.kind == kind::PERF_RECORD_SAMPLE {
                let sample =
                    Sample::from_record(&entry.record, entry.description.lookup()).unwrap();
                let event = &entry.description.events()
                    [entry.description.lookup().index_of(&entry.record).unwrap()];
                let name = String::from_utf8_lossy(event.name.as_deref().unwrap()).into_owned();
                let period = sample.head.period.unwrap_or(1);
                samples.push((
                    sample.head.time_ns.unwrap(),
                    sample.head.tid.unwrap(),
                    period,
                    name,
                    sample.head.ip.unwrap(),
                ));
            }
        });
        samples.sort();
        let line = |(time, tid, period, name, ip): &(u64, i32, u64, String, u64)| {
            format!(
                "{tid} {}.{:09}: {period} {name}: {ip:x}",
                time / 1_000_000_000,
                time % 1_000_000_000
            )
        };
        let ours: Vec<_> = samples.iter().map(line).collect();
        let script = recording.perf(&["script", "--ns", "-F", "tid,time,period,event,ip", "-i"]);
        let mut theirs: Vec<_> = script
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let time = |line: &String| {
            line.split(' ').nth(1).unwrap().trim_end_matches(':').parse::<f64>().unwrap()
        };
        assert!(theirs.is_sorted_by_key(time));
        let mut ours_sorted = ours;
        ours_sorted.sort();
        theirs.sort();
        assert!(!theirs.is_empty());
        assert_eq!(ours_sorted, theirs, "{options:?}");
    }
}

/// Compares the frames of call chains. perf prints the address in the file if it knows the file, so
/// only the offsets in the page are compared.
#[test]
fn call_chains_equal_those_of_perf_script() {
    let Some(recording) = record(&["-e", "cpu-clock", "-g"]) else { return };
    let mut frames = Vec::new();
    all_records(&recording, |entry| {
        if let Ok(Sample { callchain: Some(chain), .. }) =
            Sample::from_record(&entry.record, entry.description.lookup())
        {
            frames.extend(chain.iter().filter(|word| *word < PERF_CONTEXT_MAX).map(|ip| ip % 4096));
        }
    });
    let script = recording.perf(&["script", "--no-inline", "-F", "ip", "-i"]);
    let mut theirs: Vec<_> = script
        .lines()
        .filter_map(|line| u64::from_str_radix(line.trim(), 16).ok())
        .map(|ip| ip % 4096)
        .collect();
    frames.sort_unstable();
    theirs.sort_unstable();
    assert!(!theirs.is_empty());
    assert!(theirs.iter().eq(&frames), "{} frames, {} by perf", frames.len(), theirs.len());
}

/// Small rings make many rounds.
#[test]
fn sorts_the_rounds_of_perf() {
    let Some(recording) = record(&[
        "-a",
        "-m",
        "1",
        "-e",
        "raw_syscalls:*",
        "-e",
        "sched:sched_switch",
        "-e",
        "cpu-clock",
    ]) else {
        return;
    };
    let mut sorter = Sorter::default();
    let mut came = Vec::new();
    let mut went = Vec::new();
    let mut rounds = 0;
    let mut drain = |sorter: &mut Sorter| {
        while let Some(ordered) = sorter.pop() {
            went.push((ordered.time_ns, ordered.tag));
        }
    };
    all_records(&recording, |entry| {
        if let Some(time_ns) = entry.description.lookup().time_ns(&entry.record) {
            came.push((time_ns, entry.offset));
            sorter.push(time_ns, entry.offset, &entry.record);
        } else if entry.record.kind == kind::FINISHED_ROUND {
            rounds += 1;
            sorter.round();
        }
        drain(&mut sorter);
    });
    sorter.finish();
    drain(&mut sorter);
    let is_sorted = came.is_sorted();
    came.sort_unstable();
    if is_sorted {
        println!("skipped: {rounds} rounds of one CPU's records, which come in order");
    }
    assert!(rounds > 2);
    // On a busy machine, perf's rounds sometimes end too early. The sorter counts the late records.
    let mut youngest = 0;
    let mut late = 0;
    for (time_ns, _) in &went {
        late += u64::from(*time_ns < youngest);
        youngest = youngest.max(*time_ns);
    }
    assert_eq!(late, sorter.late());
    assert!(late * 100 <= came.len() as u64, "{late} of {} records came late", came.len());
    went.sort_unstable();
    assert!(went == came, "{} records went out of {}", went.len(), came.len());
}

#[test]
fn reads_the_pipe_of_a_running_perf() {
    if recording::is_missing("perf") {
        return;
    }
    let mut perf = Command::new("perf");
    perf.args([
        "record",
        "--no-bpf-event",
        "-o",
        "-",
        "-e",
        "cpu-clock",
        "--",
        "sh",
        "-c",
        recording::WORKLOAD,
    ]);
    let mut child = perf
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = Reader::stream(child.stdout.take().unwrap()).unwrap();
    let mut samples = 0;
    let mut last = 0;
    while let Some(entry) = reader.next_record().unwrap() {
        samples += u32::from(entry.record.kind == kind::PERF_RECORD_SAMPLE);
        last = entry.record.kind;
    }
    child.wait().unwrap();
    assert!(samples > 0);
    assert!(reader.losses().is_empty() && kind::name(last).is_some());
}
