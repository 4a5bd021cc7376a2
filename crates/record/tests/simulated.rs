//! The recorder on a simulated machine: ring buffers that fill, a disk that fails and writes less
//! than it was given, a clock that a test moves.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use std::io::{self, IoSlice, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use tare_events::Sources;
use tare_format::abi::bindings::PERF_RECORD_SAMPLE;
use tare_format::file::Reader;
use tare_format::ledger::Ledger;
use tare_kernel::file_window::{FileWindow, Step, WindowError};
use tare_kernel::host::Host;
use tare_kernel::simulated::{Emitted, Sample, Simulated};
use tare_record::clock::Clock;
use tare_record::describe::RecordingClock;
use tare_record::options::{Options, Rings, Synthesize, Target};
use tare_record::output::disk::{Disk, DiskFile, FileState, OpenDestination};
use tare_record::output::{self, Destination, Output, OutputError};
use tare_record::{Backend, Recorder, Recording, Start, State, Stopped};
use tempfile::TempDir;

/// A clock that stands still until it is moved.
#[derive(Debug)]
struct VirtualClock {
    start: Instant,
    passed: Mutex<Duration>,
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + *self.passed.lock().unwrap()
    }

    fn cpu_ns(&self) -> u64 {
        1_000_000
    }

    fn of_events(&self, _clockid: i32) -> Option<RecordingClock> {
        None
    }
}

/// A disk with one file, in memory.
#[derive(Clone, Debug)]
struct SimulatedDisk {
    file: Arc<SimulatedFile>,
}

#[derive(Debug)]
struct SimulatedFile {
    bytes: Mutex<Vec<u8>>,
    /// The file becomes no longer.
    room: u64,
    /// A write takes no more.
    most: usize,
}

impl SimulatedDisk {
    fn new(room: u64, most: usize) -> Self {
        Self { file: Arc::new(SimulatedFile { bytes: Mutex::default(), room, most }) }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, _to: &Destination) -> output::Result<OpenDestination> {
        let file = Arc::clone(&self.file);
        Ok(OpenDestination::File { file, path: PathBuf::from("simulated.data") })
    }

    fn create(&self, _path: &Path) -> output::Result<Arc<dyn DiskFile>> {
        Ok(Arc::clone(&self.file) as Arc<dyn DiskFile>)
    }

    fn stamp(&self, path: &Path, _now: SystemTime) -> Result<PathBuf, Errno> {
        Ok(path.to_owned())
    }

    fn write_anew(
        &self,
        _file: &dyn DiskFile,
        path: &Path,
        _now: SystemTime,
    ) -> Result<PathBuf, Errno> {
        Ok(path.to_owned())
    }

    fn sync_folder(&self, _of: &Path) -> Result<(), Errno> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> Result<(), Errno> {
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        let mut file = self.bytes.lock().unwrap();
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let room = usize::try_from(self.room.saturating_sub(offset)).unwrap();
        let len = all.len().min(self.most).min(room);
        if len == 0 {
            return Err(Errno::NOSPC);
        }
        let at = usize::try_from(offset).unwrap();
        let end = file.len().max(at + len);
        file.resize(end, 0);
        file[at..at + len].copy_from_slice(&all[..len]);
        Ok(len)
    }

    fn write(&self, _pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        Err(Errno::SPIPE)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let file = self.bytes.lock().unwrap();
        let rest = file.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn state(&self) -> Result<FileState, Errno> {
        let bytes = self.bytes.lock().unwrap().len() as u64;
        Ok(FileState { bytes, is_deleted: false })
    }

    fn set_len(&self, bytes: u64) -> Result<(), Errno> {
        self.bytes.lock().unwrap().resize(usize::try_from(bytes).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn window(&self, _offset: u64, _len: usize) -> Result<FileWindow, WindowError> {
        Err(WindowError::NotSupported { step: Step::Map, error: Errno::OPNOTSUPP })
    }
}

/// A machine of two CPUs that exists in a test alone.
struct Machine {
    root: TempDir,
    kernel: Simulated,
    clock: Arc<VirtualClock>,
    disk: SimulatedDisk,
}

impl Machine {
    fn new(disk: SimulatedDisk) -> Self {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("sys/devices/system/cpu/online");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "0-1\n").unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let clock = Arc::new(VirtualClock { start: Instant::now(), passed: Mutex::default() });
        Self { root, kernel: Simulated::default(), clock, disk }
    }

    fn record(&self, ring_bytes: u64) -> Recording {
        let host = Host::at(self.root.path());
        let options = Options {
            groups: tare_events::parse("cpu-clock", &Sources::new(host.clone())).unwrap(),
            target: Target::Cpus("0-1".parse().unwrap()),
            rings: Rings { bytes: Some(ring_bytes), ..Rings::default() },
            synthesize: Synthesize { tasks: false, maps: false, ..Synthesize::default() },
            ..Options::default()
        };
        let backend = Backend {
            host,
            kernel: Rc::new(self.kernel.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
        };
        let output = Output::open_on(
            Arc::new(self.disk.clone()),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            &Destination::File(PathBuf::from("simulated.data")),
            &output::Options::default(),
        );
        let start = Start {
            output: output.unwrap(),
            command: None,
            gives_other_rights: false,
            files: None,
        };
        Recorder::new(options, backend).unwrap().start(start).unwrap()
    }

    /// So many samples on each CPU; how many found room.
    fn sample(&self, samples: u64) -> u64 {
        // Those that planning opened are closed again, and off.
        let events = self.kernel.sampled();
        let mut stored = 0;
        for number in 0..samples {
            self.kernel.advance_ns(1000);
            let sample = Sample { pid: 7, tid: 7, ip: number };
            let emitted = events.iter().map(|(event, _)| self.kernel.sample(*event, sample));
            stored += emitted.filter(|emitted| *emitted == Emitted::Stored).count() as u64;
        }
        stored
    }

    /// Half a second passes.
    fn pass(&self) {
        *self.clock.passed.lock().unwrap() += Duration::from_millis(500);
    }

    /// Samples in the file, and the ledger that it ends with.
    fn read_back(&self) -> (u64, Ledger) {
        let mut file = tempfile::tempfile().unwrap();
        io::copy(&mut &self.disk.file.bytes.lock().unwrap()[..], &mut file).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut reader = Reader::open(file).unwrap();
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
fn a_sample_that_found_room_is_in_the_file_and_one_that_did_not_is_counted() {
    let machine = Machine::new(SimulatedDisk::new(1 << 30, 4096 + 7));
    let mut recording = machine.record(4096);
    let mut stored = 0;
    for _ in 0..4 {
        stored += machine.sample(300);
        machine.pass();
        assert!(recording.deadline() <= machine.clock.now());
        assert_eq!(*recording.process().unwrap(), State::Recording);
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
fn a_disk_that_is_full_ends_the_recording_and_keeps_a_whole_file() {
    let machine = Machine::new(SimulatedDisk::new(64 << 10, 10_000));
    let mut recording = machine.record(1 << 16);
    let mut passes = 0;
    while *recording.state() == State::Recording && passes < 100 {
        machine.sample(300);
        machine.pass();
        recording.process().unwrap();
        passes += 1;
    }
    assert_eq!(*recording.state(), State::Stopped(Stopped::Output(OutputError::Full)));
    assert_eq!(machine.sample(1), 0, "events are off");
    let finished = recording.finish(None).unwrap();
    assert_eq!(finished.output.stopped, Some(OutputError::Full));
    assert!(!finished.output.unfinished && finished.output.dropped_bytes > 0);
    let (samples, ledger) = machine.read_back();
    assert!(samples > 300 && ledger.stopped.is_some(), "{samples} samples");
}
