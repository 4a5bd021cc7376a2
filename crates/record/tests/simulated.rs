//! Runs the recorder on a simulated machine: ring buffers fill, the disk fails and writes less than
//! it was given, and the test moves the clock.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tare_events::Sources;
use tare_format::abi::bindings::PERF_RECORD_SAMPLE;
use tare_format::file::Reader;
use tare_format::ledger::Ledger;
use tare_format::record::{FileId, Record};
use tare_kernel::host::Host;
use tare_kernel::simulated::{Emitted, Simulated, SimulatedSample};
use tare_record::clock::Clock;
use tare_record::options::{RecorderOptions, Rings, Synthesize, Target};
use tare_record::output::{self, Destination, Output, OutputError};
use tare_record::{Backend, Recorder, Recording, RecordingState, Start, StopReason};
use tare_simulate::clock::VirtualClock;
use tare_simulate::disk::{Faults, SimulatedDisk};
use tempfile::TempDir;

/// The recording's file name.
const FILE: &str = "simulated.data";

/// `<elf.h>`
const NT_GNU_BUILD_ID: u32 = 3;

/// A simulated machine with two CPUs.
struct SimulatedMachine {
    root: TempDir,
    kernel: Simulated,
    clock: Arc<VirtualClock>,
    disk: SimulatedDisk,
}

impl SimulatedMachine {
    /// `room`: bytes of its disk. `most`: bytes that one write takes at most.
    fn new(room: u64, most: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("sys/devices/system/cpu/online");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "0-1\n").unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let clock = Arc::new(VirtualClock::new());
        let faults = Faults { room: Some(room), most, ..Faults::default() };
        let disk = SimulatedDisk::new(faults, Arc::clone(&clock), false);
        Self { root, kernel: Simulated::default(), clock, disk }
    }

    fn record(&self, ring_bytes: u64) -> Recording {
        let host = Host::at(self.root.path());
        let options = RecorderOptions {
            groups: tare_events::parse("cpu-clock", &Sources::new(host.clone())).unwrap(),
            target: Target::Cpus("0-1".parse().unwrap()),
            rings: Rings { bytes: Some(ring_bytes), ..Rings::default() },
            synthesize: Synthesize { tasks: false, maps: false, ..Synthesize::default() },
            ..RecorderOptions::default()
        };
        let backend = Backend {
            host,
            kernel: Rc::new(self.kernel.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
        };
        let output = Output::open_on(
            Arc::new(self.disk.clone()),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            &Destination::File(PathBuf::from(FILE)),
            &output::OutputOptions::default(),
        );
        let start = Start {
            output: output.unwrap(),
            command: None,
            gives_other_rights: false,
            files: None,
        };
        Recorder::new(options, backend).unwrap().start(start).unwrap()
    }

    /// Emits this many samples on each CPU. Returns how many the ring buffers had room for.
    fn sample(&self, samples: u64) -> u64 {
        // The events that planning opened to probe the kernel are closed again and aren't among
        // these.
        let events = self.kernel.sampled();
        let mut stored = 0;
        for number in 0..samples {
            self.kernel.advance_ns(1000);
            let sample = SimulatedSample { pid: 7, tid: 7, ip: number };
            let emitted = events.iter().map(|(event, _)| self.kernel.sample(*event, sample));
            stored += emitted.filter(|emitted| *emitted == Emitted::Stored).count() as u64;
        }
        stored
    }

    /// Advances the clock by half a second.
    fn pass(&self) {
        self.clock.advance(Duration::from_millis(500));
    }

    /// Loads a kernel module. Its build id is its name, followed by the byte `build`.
    fn load(&self, name: &str, start: u64, build: u8) {
        let words = [4_u32, 4, NT_GNU_BUILD_ID].map(u32::to_ne_bytes).concat();
        let note = [&words[..], b"GNU\0", name.as_bytes(), &[build]].concat();
        let folder = self.root.path().join("sys/module").join(name).join("notes");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(".note.gnu.build-id"), note).unwrap();
        let before = std::fs::read_to_string(self.root.path().join("proc/modules"));
        let line = format!("{name} 40960 0 - Live {start:#x}\n");
        self.list(&(line + &before.unwrap_or_default()));
    }

    /// Unloads a kernel module.
    fn unload(&self, name: &str) {
        std::fs::remove_dir_all(self.root.path().join("sys/module").join(name)).unwrap();
        let before = std::fs::read_to_string(self.root.path().join("proc/modules")).unwrap();
        let left = before.lines().filter(|line| !line.starts_with(name));
        self.list(&left.map(|line| format!("{line}\n")).collect::<String>());
    }

    fn list(&self, modules: &str) {
        std::fs::write(self.root.path().join("proc/modules"), modules).unwrap();
    }

    fn reader(&self) -> Reader<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&self.disk.snapshot().files[&PathBuf::from(FILE)]).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        Reader::open(file).unwrap()
    }

    /// Returns the number of samples in the file, and its last ledger.
    fn read_back(&self) -> (u64, Ledger) {
        let mut reader = self.reader();
        let mut samples = 0;
        while let Some(entry) = reader.next_record().unwrap() {
            samples += u64::from(entry.record.kind == PERF_RECORD_SAMPLE);
        }
        assert!(reader.losses().is_empty(), "{:?}", reader.losses());
        let ledger = reader
            .description()
            .notes()
            .iter()
            .rev()
            .find_map(|note| Ledger::from_note(note))
            .unwrap();
        (samples, ledger)
    }
}

#[test]
fn every_sample_is_in_the_file_or_counted_as_lost() {
    let machine = SimulatedMachine::new(1 << 30, 4096 + 7);
    let mut recording = machine.record(4096);
    let mut stored = 0;
    for _ in 0..4 {
        stored += machine.sample(300);
        machine.pass();
        assert!(recording.deadline() <= machine.clock.now());
        assert_eq!(*recording.process().unwrap(), RecordingState::Recording);
    }
    assert!(stored < 2400, "the ring buffers are large enough for all");
    stored += machine.sample(3);
    assert_eq!(recording.status().recorded, Duration::from_secs(2));
    let finished = recording.finish(None).unwrap();
    let (samples, ledger) = machine.read_back();
    assert_eq!((samples, ledger.events[0].samples), (stored, stored));
    assert_eq!(ledger.events[0].lost, Some(2406 - stored));
    assert_eq!(ledger.losses.iter().map(|loss| loss.records).sum::<u64>(), 2406 - stored);
    assert_eq!(finished.output.stopped, None);
    assert_eq!(finished.ledger.recorded_ns, 2_000_000_000);
}

#[test]
fn a_full_disk_ends_the_recording_with_a_whole_file() {
    let machine = SimulatedMachine::new(64 << 10, 10_000);
    let mut recording = machine.record(1 << 16);
    let mut passes = 0;
    while *recording.state() == RecordingState::Recording && passes < 100 {
        machine.sample(300);
        machine.pass();
        recording.process().unwrap();
        passes += 1;
    }
    assert_eq!(*recording.state(), RecordingState::Stopped(StopReason::Output(OutputError::Full)));
    assert_eq!(machine.sample(1), 0, "events are off");
    let finished = recording.finish(None).unwrap();
    assert_eq!(finished.output.stopped, Some(OutputError::Full));
    assert!(!finished.output.unfinished && finished.output.dropped_bytes > 0);
    let (samples, ledger) = machine.read_back();
    assert!(samples > 300 && ledger.stopped.is_some(), "{samples} samples");
}

/// Returns the mappings of modules in file order, as name, address, length and build id, with
/// "samples" for each run of samples between them.
fn modules(machine: &SimulatedMachine) -> Vec<String> {
    let mut reader = machine.reader();
    let mut all = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        let word = match entry.record.decode() {
            Ok(Record::Mmap(mmap)) if mmap.pid == -1 => {
                let id = if let FileId::BuildId(id) = mmap.file { id } else { &[] };
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                format!("{} {:x}+{:x} {}", text(mmap.path), mmap.start, mmap.len, text(id))
            }
            _ if entry.record.kind == PERF_RECORD_SAMPLE => "samples".to_owned(),
            _ => continue,
        };
        if all.last() != Some(&word) {
            all.push(word);
        }
    }
    all
}

#[test]
fn modules_loaded_during_a_recording_have_mappings() {
    let machine = SimulatedMachine::new(1 << 30, 1 << 20);
    let process = |recording: &mut Recording| {
        machine.sample(2);
        // The recorder looks for modules once a second.
        machine.pass();
        machine.pass();
        recording.process().unwrap();
    };
    machine.load("old", 0xffff_0000_0002_0000, b'1');
    let mut recording = machine.record(1 << 16);
    process(&mut recording);
    // The module is longer than the distance to the next one, because /proc/modules counts data
    // too.
    machine.load("new", 0xffff_0000_0001_9000, b'1');
    process(&mut recording);
    machine.unload("old");
    process(&mut recording);
    machine.load("old", 0xffff_0000_0003_0000, b'2');
    process(&mut recording);
    process(&mut recording);
    // One module replaces another, so the number of modules stays the same.
    machine.unload("new");
    machine.load("end", 0xffff_0000_0001_9000, b'1');
    process(&mut recording);
    recording.finish(None).unwrap();
    let expected = [
        "[old] ffff000000020000+a000 ",
        "samples",
        "[new] ffff000000019000+7000 new1",
        "samples",
        "[old] ffff000000030000+a000 old2",
        "samples",
        "[end] ffff000000019000+a000 end1",
    ];
    assert_eq!(modules(&machine), expected);
    let reader = machine.reader();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let listed = reader.description().features().build_ids().unwrap();
    let listed: Vec<_> =
        listed.map(|listed| format!("{} {}", text(listed.path), text(listed.build_id))).collect();
    // The list names the first build of each path; later builds are in the records of their
    // mappings.
    assert_eq!(listed, ["[end] end1", "[new] new1", "[old] old1"]);
}
