//! A recording from the kernel to the file, read by the real perf: the finished file, and the file
//! of a killed recorder.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS, PERF_RECORD_SAMPLE, PERF_SAMPLE_CPU,
    PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::Reader;
use tare_format::file::writer::{
    Beginning, BuildId, Clock, CpuPlace, CpuTopology, DATA_SIZE_OFFSET, Description,
    EventDescription, FINISHED_INIT, FINISHED_ROUND, Feature,
};
use tare_kernel::child::{ChildCommand, FileLimit, WaitingChild};
use tare_kernel::open::{EventFile, EventTarget, Kernel, System};
use tare_kernel::ring::Ring;
use tare_kernel::signals::Signals;

/// Runs perf and returns its output; `None` if it can't be run.
fn perf(words: &[&str], file: &Path) -> Option<String> {
    let output = match std::process::Command::new("perf").args(words).arg("-i").arg(file).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: perf can't be run: {error}");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {words:?}: {}\n{errors}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The end of the data at a flush, and the number of samples up to it, as a killed recorder leaves
/// them.
struct Flush {
    end: usize,
    samples: usize,
}

struct TestRecording {
    description: Description,
    beginning: Beginning,
    bytes: Vec<u8>,
    data: Range<u64>,
    flushes: Vec<Flush>,
    samples: usize,
}

impl TestRecording {
    fn begin(description: Description) -> Self {
        let beginning = description.beginning(|_| 0, 1).unwrap();
        let bytes = beginning.bytes.clone();
        let start = bytes.len() as u64;
        Self { description, beginning, bytes, data: start..start, flushes: Vec::new(), samples: 0 }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.data.end += bytes.len() as u64;
    }

    /// Moves everything from the ring to the file without changes, and notes the flush.
    fn drain(&mut self, ring: &mut Ring) {
        let batch = ring.batch();
        self.samples +=
            batch.records().filter(|record| record.kind() == PERF_RECORD_SAMPLE).count();
        for slice in batch.slices() {
            self.append(slice);
        }
        batch.advance();
        self.append(&FINISHED_ROUND);
        self.flushes.push(Flush { end: self.bytes.len(), samples: self.samples });
        let table = self.beginning.feature_table.clone();
        self.append(&table);
    }

    /// Returns the file of a recorder that was killed after a flush: the header knows the data up
    /// to the flush. Behind it may be a part of later data, or zeros where space was allocated.
    fn killed_at(&self, flush: &Flush, behind: &[u8]) -> Vec<u8> {
        let table = &self.beginning.feature_table;
        let mut bytes = [&self.bytes[..flush.end], table, behind].concat();
        let at = usize::try_from(DATA_SIZE_OFFSET).unwrap();
        bytes[at..at + 8].copy_from_slice(&self.beginning.data_size(flush.end as u64));
        bytes
    }

    fn ended(&self) -> Vec<u8> {
        let ending = self.description.ending(&self.data).unwrap();
        let mut bytes = [&self.bytes[..], &ending.tail].concat();
        bytes[..ending.header.len()].copy_from_slice(&ending.header);
        bytes
    }
}

/// Records a command in one ring until it exits; `None` if perf_event_open is not allowed.
fn record(
    words: &[&str],
    events: &[(&str, Attr)],
    features: Vec<Feature>,
    tracing_data: Option<Vec<u8>>,
) -> Option<TestRecording> {
    let signals = Signals::block().unwrap();
    let command = ChildCommand::find(words, std::env::var_os("PATH").as_deref()).unwrap();
    let waiting = WaitingChild::fork(&command, &signals, &FileLimit::now()).unwrap();
    let mut files: Vec<Box<dyn EventFile>> = Vec::new();
    let mut described = Vec::new();
    for (name, attr) in events {
        let file = match System.open(attr, EventTarget::Task(waiting.pid()), None) {
            Ok(file) => file,
            Err(error @ (Errno::ACCESS | Errno::PERM | Errno::NOSYS)) => {
                println!("skipped: perf_event_open is not allowed here: {error}");
                return None;
            }
            Err(error) => panic!("perf_event_open: {error}"),
        };
        described.push(EventDescription {
            attr: attr.clone(),
            ids: vec![file.id().unwrap()],
            name: (*name).to_owned(),
        });
        files.push(file);
    }
    let mut ring = Ring::map(&*files[0], 1 << 20).unwrap();
    files[1..].iter().for_each(|file| file.set_output(&*files[0]).unwrap());

    let mut recording =
        TestRecording::begin(Description { events: described, features, tracing_data });
    recording.append(&FINISHED_INIT);
    let mut running = waiting.start().unwrap();
    while running.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
        recording.drain(&mut ring);
    }
    recording.drain(&mut ring);
    Some(recording)
}

fn attr(kind: u32, config: u64, sampling: Sampling, sample_type: u32) -> Attr {
    let sample_type = sample_type
        | PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_CPU;
    let described = Flags::COMM | Flags::MMAP | Flags::MMAP2 | Flags::TASK | Flags::SAMPLE_ID_ALL;
    let flags = described | Flags::DISABLED | Flags::ENABLE_ON_EXEC;
    Attr { kind, config, sampling, sample_type: sample_type.into(), flags, ..Attr::default() }
}

fn software(config: u32, sampling: Sampling) -> Attr {
    let attr = attr(PERF_TYPE_SOFTWARE, config.into(), sampling, 0);
    Attr { flags: attr.flags | Flags::EXCLUDE_KERNEL, ..attr }
}

/// Counts a file's samples by perf's `report` and by the lines of its `script`.
fn samples(bytes: &[u8], path: &Path) -> Option<(usize, usize)> {
    std::fs::write(path, bytes).unwrap();
    let report = perf(&["report", "--stats"], path)?;
    let total = report.lines().find(|line| line.contains("SAMPLE events:"));
    let number =
        total.map_or(0, |line| line.split_whitespace().find_map(|word| word.parse().ok()).unwrap());
    let script = perf(&["script", "-F", "comm,tid,time,event"], path)?;
    Some((number, script.lines().count()))
}

/// Counts the samples that tare's own reader finds.
fn samples_read(bytes: &[u8]) -> usize {
    let mut reader = Reader::open(std::io::Cursor::new(bytes)).unwrap();
    let mut samples = 0;
    while let Some(entry) = reader.next_record().unwrap() {
        samples += usize::from(entry.record.kind == PERF_RECORD_SAMPLE);
    }
    assert!(reader.losses().is_empty(), "{:?}", reader.losses());
    samples
}

/// Checks that perf and tare's reader find the same samples in the finished file and in the file of
/// a recorder killed at each flush.
fn perf_agrees(recording: &TestRecording) {
    assert_eq!(samples_read(&recording.ended()), recording.samples);
    for flush in &recording.flushes {
        assert_eq!(samples_read(&recording.killed_at(flush, &[0; 100])), flush.samples);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let Some(counted) = samples(&recording.ended(), &path) else { return };
    assert!(recording.samples > 0);
    assert_eq!(counted, (recording.samples, recording.samples), "the finished file");
    let table = recording.beginning.feature_table.len();
    let start = usize::try_from(recording.data.start).unwrap();
    let before_the_first = Flush { end: start - table, samples: 0 };
    for (at, flush) in [&before_the_first].into_iter().chain(&recording.flushes).enumerate() {
        let rest = &recording.bytes[flush.end + recording.beginning.feature_table.len()..];
        let behind = [&[][..], &rest[..rest.len().min(1000 + at)], &[0; 5000]][at % 3];
        let counted = samples(&recording.killed_at(flush, behind), &path).unwrap();
        assert_eq!(
            counted,
            (flush.samples, flush.samples),
            "killed at {} of {}",
            flush.end,
            recording.bytes.len()
        );
    }
}

const BUSY: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"];

fn features() -> Vec<Feature> {
    let cpus = vec![CpuPlace::default(), CpuPlace { core: 1, ..CpuPlace::default() }];
    let cores = vec!["0".to_owned(), "1".to_owned()];
    vec![
        Feature::BuildIds(vec![BuildId {
            kernel: false,
            id: (1..=20).collect(),
            path: "/a/file".to_owned(),
        }]),
        Feature::Hostname("some-host".to_owned()),
        Feature::OsRelease("6.0-some".to_owned()),
        Feature::Version("0.1-some".to_owned()),
        Feature::Arch("some-arch".to_owned()),
        Feature::CpuCount { available: 2, online: 1 },
        Feature::CpuDescription("Some CPU".to_owned()),
        Feature::CpuId("Some,1,2,3".to_owned()),
        Feature::TotalMemoryKib(123_456),
        Feature::CommandLine(vec!["tare".to_owned(), "record".to_owned()]),
        Feature::CpuTopology(CpuTopology {
            sockets: vec!["0-1".to_owned()],
            cores,
            dies: Vec::new(),
            cpus,
        }),
        Feature::PmuMappings(vec![(1, "software".to_owned()), (2, "tracepoint".to_owned())]),
        Feature::SampleTime { first_ns: 1_500_000_000, last_ns: 2_500_000_000 },
        Feature::ClockResolutionNs(1),
        Feature::Clock(Clock { clockid: 1, wall_clock_ns: 5_000_000_000, clock_ns: 4_000_000_000 }),
    ]
}

#[test]
fn perf_agrees_about_two_software_events() {
    let clock = software(PERF_COUNT_SW_CPU_CLOCK, Sampling::Period(500_000));
    let faults = software(PERF_COUNT_SW_PAGE_FAULTS, Sampling::Period(1));
    let Some(recording) =
        record(&BUSY, &[("my-clock", clock), ("my-faults", faults)], features(), None)
    else {
        return;
    };
    assert!(recording.flushes.len() > 2, "{} flushes", recording.flushes.len());
    perf_agrees(&recording);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed");
    std::fs::write(&path, recording.killed_at(&recording.flushes[1], &[])).unwrap();
    let Some(script) = perf(&["script"], &path) else { return };
    assert!(script.contains(" my-clock: ") && script.contains(" my-faults: "), "{script}");
}

#[test]
fn perf_shows_every_feature() {
    let clock = software(PERF_COUNT_SW_CPU_CLOCK, Sampling::Period(1_000_000));
    let Some(recording) = record(&BUSY, &[("my-clock", clock)], features(), None) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    std::fs::write(&path, recording.ended()).unwrap();
    let Some(text) = perf(&["report", "--header-only", "-I"], &path) else { return };
    let expected = [
        "# hostname : some-host",
        "# os release : 6.0-some",
        "# perf version : 0.1-some",
        "# arch : some-arch",
        "# nrcpus online : 1",
        "# nrcpus avail : 2",
        "# cpudesc : Some CPU",
        "# cpuid : Some,1,2,3",
        "# total memory : 123456 kB",
        "# cmdline : tare record",
        "# event : name = my-clock, , id = { ",
        "# sibling sockets : 0-1",
        "# sibling threads : 1",
        "# CPU 1: Core ID 1, Socket ID 0",
        "# pmu mappings: software = 1, tracepoint = 2",
        "# time of first sample : 1.500000",
        "# time of last sample : 2.500000",
        "# clockid frequency: 1000 MHz",
        "# clockid: monotonic (1)",
    ];
    for line in expected {
        assert!(text.contains(line), "'{line}' is not in\n{text}");
    }
    let ids = perf(&["buildid-list"], &path).unwrap();
    assert!(ids.contains("0102030405060708090a0b0c0d0e0f1011121314 /a/file"), "{ids}");
}

/// Records a tracepoint with perf, and returns the section with the tracepoints' formats; `None` if
/// perf can't record one here.
fn tracing_data_of_perf(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join("perf.data");
    let words = ["record", "--quiet", "-e", "raw_syscalls:sys_enter", "-o"];
    let ran = std::process::Command::new("perf").args(words).arg(&path).arg("true").output();
    if !ran.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let bytes = std::fs::read(&path).unwrap();
    let word = |at: usize| {
        usize::try_from(u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    };
    // The first entry of the table behind the data is the tracepoints' section, whose bit is the
    // lowest.
    let table = word(40) + word(48);
    Some(bytes[word(table)..][..word(table + 8)].to_vec())
}

#[test]
fn perf_agrees_about_a_tracepoint() {
    let folder = tempfile::tempdir().unwrap();
    let ids = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .map(|root| format!("{root}/events/raw_syscalls/sys_enter/id"));
    let id = ids.iter().find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    let Some((id, formats)) = id.zip(tracing_data_of_perf(folder.path())) else {
        println!("skipped: perf can't record a tracepoint here");
        return;
    };
    let event = attr(PERF_TYPE_TRACEPOINT, id, Sampling::Period(1), PERF_SAMPLE_RAW);
    let words = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do true | cat; done"];
    let Some(recording) =
        record(&words, &[("raw_syscalls:sys_enter", event)], Vec::new(), Some(formats))
    else {
        return;
    };
    perf_agrees(&recording);
    let path = folder.path().join("killed");
    std::fs::write(&path, recording.killed_at(recording.flushes.last().unwrap(), &[])).unwrap();
    let script = perf(&["script"], &path).unwrap();
    assert!(script.lines().all(|line| line.contains("raw_syscalls:sys_enter: NR ")), "{script}");
}
