//! `tare report --latency`: the share of the time that passes, by context switches.

use std::path::{Path, PathBuf};

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, Layout, RecordHeader, SampleId, kind};

use crate::support::{stderr, tare};

/// IP, TID, TIME.
const SAMPLE_TYPE: u64 = 0x7;

/// `PERF_RECORD_MISC_SWITCH_OUT`.
const SWITCH_OUT: u16 = 1 << 13;

/// A recording of three threads, `main`, `one` and `two`, at fixed times.
struct Threads {
    stream: Vec<u8>,
    time_ns: u64,
}

impl Threads {
    fn new(flags: Flags) -> Self {
        let attr = Attr {
            kind: 1,
            sampling: Sampling::Period(1_000_000),
            sample_type: SAMPLE_TYPE,
            flags: Flags::SAMPLE_ID_ALL | Flags::COMM | flags,
            ..Attr::default()
        };
        let id = SampleId { time_ns: Some(1), ..SampleId::default() };
        let encoder = Encoder::new(&Layout::from(&attr), &id);
        let event = EventDescription { attr, ids: vec![1], name: "cpu-clock".into() };
        let description = Description { events: vec![event], ..Description::default() };
        let mut stream = description.stream_beginning().unwrap();
        for (tid, comm) in [(10, &b"main"[..]), (11, b"one"), (12, b"two")] {
            let comm = Comm { pid: 10, tid, comm, is_exec: false };
            encoder.comm(&mut stream, &comm).unwrap();
        }
        Self { stream, time_ns: 1 }
    }

    fn record(&mut self, kind: u32, misc: u16, words: &[u64]) {
        let size = u16::try_from(RecordHeader::SIZE + words.len() * 8).unwrap();
        self.stream.extend(RecordHeader { kind, misc, size }.encode());
        self.stream.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn switch(&mut self, tid: u64, misc: u16) {
        self.time_ns += 1;
        self.record(kind::PERF_RECORD_SWITCH, misc, &[10 | tid << 32, self.time_ns]);
    }

    fn exit(&mut self, tid: u64) {
        self.time_ns += 1;
        let time_ns = self.time_ns;
        let task = [10 | 10 << 32, tid | 10 << 32, time_ns, 10 | tid << 32, time_ns];
        self.record(kind::PERF_RECORD_EXIT, 0, &task);
    }

    fn samples(&mut self, tid: u64, count: u64) {
        for _ in 0..count {
            self.time_ns += 1;
            self.record(kind::PERF_RECORD_SAMPLE, 2, &[0x1000, 10 | tid << 32, self.time_ns]);
        }
    }

    /// `main` alone, then with `one`, then `one` and `two`, then `one` alone.
    fn write(mut self, folder: &Path) -> PathBuf {
        self.samples(10, 6);
        self.switch(11, 0);
        self.samples(11, 4);
        self.switch(10, SWITCH_OUT);
        self.switch(12, 0);
        self.samples(12, 4);
        self.exit(12);
        self.samples(11, 2);
        let file = folder.join("threads.data");
        std::fs::write(&file, self.stream).unwrap();
        file
    }
}

/// Returns the rows of a report, with single spaces.
fn rows(file: &Path, words: &[&str]) -> Vec<String> {
    let mut report = tare();
    report.args(["report", "--stdio", "-i"]).arg(file).args(words);
    let output = report.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with("# ") && line.contains("Latency"));
    let title = lines.map(|line| line.trim_start_matches("# ")).next();
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    title.into_iter().chain(rows).map(squeeze).collect()
}

#[test]
fn a_report_weighs_samples_by_the_number_of_running_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = Threads::new(Flags::CONTEXT_SWITCH).write(folder.path());
    // 6 + 2 samples of one thread, 4 + 4 of two: 12 in all.
    let by_overhead = [
        "Overhead Latency Command",
        "37.50% 50.00% main",
        "37.50% 33.33% one",
        "25.00% 16.67% two",
    ];
    assert_eq!(rows(&file, &["-s", "comm"]), by_overhead);
    let by_latency = [
        "Latency Overhead Command",
        "50.00% 37.50% main",
        "33.33% 37.50% one",
        "16.67% 25.00% two",
    ];
    assert_eq!(rows(&file, &["-s", "comm", "--latency"]), by_latency);
    assert_eq!(
        rows(&file, &["-s", "latency,parallelism"]),
        ["Latency Parallelism", "66.67% 1", "33.33% 2"]
    );
    assert_eq!(
        rows(&file, &["-F", "latency,overhead,parallelism,comm", "--parallelism", "2"]),
        ["Latency Overhead Parallelism Command", "16.67% 25.00% 2 one", "16.67% 25.00% 2 two"]
    );
    let of_levels = rows(&file, &["--hierarchy", "-s", "latency,parallelism,comm"]);
    assert_eq!(of_levels[1..3], ["66.67% 1", "50.00% main"], "{of_levels:?}");
    let relative = ["-s", "comm", "--latency", "--percentage", "relative", "--parallelism", "1"];
    assert_eq!(rows(&file, &relative)[1..], ["75.00% 75.00% main", "25.00% 25.00% one"]);
}

#[test]
fn a_recording_without_switches_has_no_latency() {
    let folder = tempfile::tempdir().unwrap();
    let file = Threads::new(Flags::empty()).write(folder.path());
    assert_eq!(rows(&file, &["-s", "comm"]).len(), 3, "no title with Latency");
    let wanted =
        [&["--latency"][..], &["--parallelism", "1"], &["-s", "latency"], &["-F", "parallelism"]];
    for words in wanted {
        let output = tare().args(["report", "-i"]).arg(&file).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains("tare record --latency"), "{}", stderr(&output));
    }
    let wrong = tare().args(["report", "--parallelism", "0-2", "-i"]).arg(&file).output().unwrap();
    assert!(stderr(&wrong).contains("such as 1,8-16"), "{}", stderr(&wrong));
}

/// One thread spins, starts three others that spin, and waits for them.
#[test]
fn a_recorded_program_has_the_latency_of_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let spin = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let script = format!("{spin}; ({spin}) & ({spin}) & wait");
    let mut record = tare();
    record.args(["record", "-q", "--latency", "-e", "cpu-clock", "-F", "2000", "-o"]).arg(&file);
    let output = record.args(["sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&file, &["-F", "latency,overhead,parallelism", "-s", "parallelism"]);
    let share = |row: &String| {
        let mut words = row.split(' ').map(|word| word.trim_end_matches('%'));
        [words.next(), words.next(), words.next()].map(|word| word.unwrap().parse::<f64>().unwrap())
    };
    let alone = rows[1..].iter().map(share).find(|[.., running]| *running == 1.0).unwrap();
    let [latency, overhead, _] = alone;
    assert!(latency >= overhead, "alone, it has more of the time than of the CPU time: {rows:?}");
    let is_parallel = rows.len() > 2;
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus > 1 && is_parallel {
        assert!(latency > overhead, "{rows:?}");
    }
}
