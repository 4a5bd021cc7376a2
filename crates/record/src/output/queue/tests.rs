//! Queues of a stream whose reader is slow or closes it, and of a file whose growth and disk vary.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tare_format::abi::bindings::PERF_RECORD_SAMPLE;
use tare_format::abi::{Attr, Flags};
use tare_format::file::Reader;
use tare_format::file::writer::EventDescription;

use rustix::io::Errno;
use tare_kernel::file_window::{FileWindow, WindowError};

use super::super::disk::{DirectFile, DiskFile, FileState, OpenDestination, OutputBackend};
use super::super::{FileSystem, OutputOptions, Path as WayTaken};
use super::piece::PIECE;
use super::*;
use crate::clock::{Clock, SystemClock};
use crate::describe::RecordingClock;

/// A record that holds its number, padded to `size` bytes, a multiple of eight.
fn record(number: u64, size: u16) -> Vec<u8> {
    let mut record =
        [PERF_RECORD_SAMPLE.to_ne_bytes(), (u32::from(size) << 16).to_le_bytes()].concat();
    record.extend(number.to_ne_bytes());
    record.resize(size.into(), 0x5a);
    record
}

fn description() -> Description {
    let attr = Attr { flags: Flags::SAMPLE_ID_ALL, ..Attr::default() };
    Description {
        events: vec![EventDescription { attr, ids: vec![7], name: "made-up".to_owned() }],
        features: Vec::new(),
        tracing_data: None,
    }
}

/// Reads pieces of random size with pauses, and closes after `most` bytes. Returns everything read.
fn read_slowly(mut from: impl Read, seed: u64, most: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let mut piece = vec![0; random.usize(1..200_000).min(most - bytes.len())];
        let read = from.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..read]);
        if random.u8(..8) == 0 {
            std::thread::sleep(Duration::from_millis(random.u64(..4)));
        }
    }
    bytes
}

/// Returns the numbers of the whole records in a stream.
fn numbers(stream: &[u8]) -> Vec<u64> {
    numbers_in(Reader::stream(stream).unwrap())
}

fn numbers_in<R: Read>(mut reader: Reader<R>) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if entry.record.kind == PERF_RECORD_SAMPLE {
            numbers.push(u64::from_ne_bytes(*entry.record.body.first_chunk().unwrap()));
        }
    }
    numbers
}

/// Appends a random number of batches of random size to a queue whose reader closes after `most`
/// bytes. Returns the figures, the bytes read, the number of records, and the first error.
fn stream(
    seed: u64,
    compress: Option<i32>,
    most: usize,
) -> (OutputStats, Vec<u8>, u64, Option<OutputError>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (from, to) = std::io::pipe().unwrap();
    let reader = std::thread::spawn(move || read_slowly(from, seed, most));
    let capacity = random.usize(1..4 << 20);
    let options = OutputOptions { compress, queue_bytes: capacity, ..OutputOptions::default() };
    let recording = FileSeries::new(
        OpenDestination::Stream(Arc::new(File::from(OwnedFd::from(to)))),
        &options,
        OutputBackend { disk: Arc::new(FileSystem), clock: Arc::new(SystemClock) },
    )
    .unwrap();
    let mut queue = Queue::start(recording, capacity).unwrap();
    queue.begin(&description()).unwrap();
    let mut appended = 0;
    let mut failed = None;
    for _ in 0..random.usize(1..40) {
        let end = appended + [1, 100, 2000][random.usize(..3)];
        let batch: Vec<u8> =
            (appended..end).flat_map(|number| record(number, 8 * random.u16(2..100))).collect();
        let (first, second) = batch.split_at(random.usize(..=batch.len()));
        let result = queue
            .append(&[first, second])
            .and_then(|()| if random.bool() { queue.flush() } else { Ok(()) });
        failed = failed.or(result.err());
        appended = end;
    }
    let account = Box::new(queue).finish(&Closing { description: &description(), records: &[] });
    assert!(
        account.queue_high_water <= capacity.max(PIECE) && account.queue_high_water > 0,
        "{seed}: {capacity}: {account:?}"
    );
    (account, reader.join().unwrap(), appended, failed)
}

#[test]
fn records_come_out_once_and_in_order() {
    for seed in 0..4 {
        for compress in [None, Some(1)] {
            let (account, bytes, appended, failed) = stream(seed, compress, usize::MAX);
            assert_eq!(
                (account.stopped.as_ref(), account.dropped_bytes, failed),
                (None, 0, None),
                "{seed}: {account:?}"
            );
            assert_eq!(account.bytes, bytes.len() as u64, "{seed}: {account:?}");
            assert_eq!(numbers(&bytes), (0..appended).collect::<Vec<_>>(), "{seed}, {compress:?}");
        }
    }
}

/// The recorder doesn't wait for a closed reader, which has received the stream up to its close.
#[test]
fn a_closed_reader_ends_the_recording() {
    for seed in [0, 3, 6, 9, 12] {
        for compress in [None, Some(1)] {
            let most = usize::try_from(1_u64 << (seed + 7)).unwrap();
            let (account, bytes, appended, failed) = stream(seed, compress, most);
            let got = numbers(&bytes);
            assert_eq!(got, (0..got.len() as u64).collect::<Vec<_>>(), "{seed}, {compress:?}");
            // If the rest of a stream fits into the pipe, it may be written before the reader
            // closes.
            let is_through = account.stopped.is_none();
            assert!(
                !is_through || account.dropped_bytes == 0 && account.bytes <= most as u64 + 65_536,
                "{seed}, {compress:?}: {account:?}"
            );
            assert!(is_through || bytes.len() == most, "{seed}, {compress:?}: {account:?}");
            assert!(failed.is_none() || failed == account.stopped, "{seed}: {failed:?}");
            assert!(got.len() as u64 <= appended);
        }
    }
}

/// A file on a disk that is slow past the page cache.
#[derive(Debug)]
struct SlowDisk {
    file: Arc<File>,
    is_direct: bool,
}

impl DiskFile for SlowDisk {
    fn write_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> std::result::Result<usize, Errno> {
        if self.is_direct {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.file.write_at(pieces, offset)
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> std::result::Result<usize, Errno> {
        DiskFile::write(&*self.file, pieces)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> std::result::Result<usize, Errno> {
        DiskFile::read_at(&*self.file, into, offset)
    }

    fn state(&self) -> std::result::Result<FileState, Errno> {
        self.file.state()
    }

    fn set_len(&self, bytes: u64) -> std::result::Result<(), Errno> {
        DiskFile::set_len(&*self.file, bytes)
    }

    fn sync(&self) -> std::result::Result<(), Errno> {
        self.file.sync()
    }

    fn window(&self, offset: u64, len: usize) -> std::result::Result<FileWindow, WindowError> {
        self.file.window(offset, len)
    }

    fn direct(&self) -> std::result::Result<DirectFile, String> {
        let file = Self { file: Arc::clone(&self.file), is_direct: true };
        Ok(DirectFile { file: Arc::new(file), block: 4096 })
    }

    fn forget(&self, bytes: u64) {
        self.file.forget(bytes);
    }

    fn allocate(&self, offset: u64, len: u64) -> std::result::Result<(), Errno> {
        self.file.allocate(offset, len)
    }
}

/// The appending thread writes a slow file, the queue's thread a fast one. If the disk is too slow,
/// the thread writes through the page cache.
#[test]
fn fast_files_go_to_the_thread_and_a_slow_disk_is_spared() {
    let path = tempfile::NamedTempFile::new().unwrap();
    for (records, is_fast) in [(50, false), (200_000, true)] {
        let file = File::options().read(true).write(true).truncate(true).open(path.path()).unwrap();
        let file = Arc::new(SlowDisk { file: Arc::new(file), is_direct: false });
        let options = OutputOptions { direct_at: 100 << 10, ..OutputOptions::default() };
        let recording = FileSeries::new(
            OpenDestination::File { file, path: path.path().to_owned() },
            &options,
            OutputBackend { disk: Arc::new(FileSystem), clock: Arc::new(SystemClock) },
        )
        .unwrap();
        let mut queue = Queue::by_pace(recording, 2 << 20);
        queue.begin(&description()).unwrap();
        assert!(queue.threads().is_empty());
        for from in (0..records).step_by(1000) {
            let batch: Vec<u8> =
                (from..records.min(from + 1000)).flat_map(|number| record(number, 64)).collect();
            queue.append(&[&batch]).unwrap();
            queue.flush().unwrap();
        }
        assert_eq!(queue.threads().len(), usize::from(is_fast));
        let account =
            Box::new(queue).finish(&Closing { description: &description(), records: &[] });
        let reader = Reader::open(File::open(path.path()).unwrap()).unwrap();
        assert_eq!(account.bytes, std::fs::metadata(path.path()).unwrap().len(), "{account:?}");
        assert_eq!(numbers_in(reader), (0..records).collect::<Vec<_>>(), "{account:?}");
        let way = if is_fast { WayTaken::Direct } else { WayTaken::Write };
        assert_eq!((account.path, account.spills > 0), (way, is_fast), "{account:?}");
    }
}

/// A clock that the test sets, in seconds.
#[derive(Debug)]
struct SetClock(Instant, AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Instant {
        self.0 + Duration::from_secs(self.1.load(Ordering::Relaxed))
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn cpu_ns(&self) -> u64 {
        0
    }

    fn recording_clock(&self, _: i32) -> Option<RecordingClock> {
        None
    }
}

/// The file grows slowly, fast, slowly, fast and slowly again.
#[test]
fn the_thread_has_a_file_while_it_grows_fast() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = File::options().read(true).write(true).open(path.path()).unwrap();
    let clock = Arc::new(SetClock(Instant::now(), AtomicU64::new(0)));
    let options = OutputOptions { direct_at: 100 << 10, ..OutputOptions::default() };
    let recording = FileSeries::new(
        OpenDestination::File { file: Arc::new(file), path: path.path().to_owned() },
        &options,
        OutputBackend { disk: Arc::new(FileSystem), clock: Arc::clone(&clock) as Arc<dyn Clock> },
    )
    .unwrap();
    let mut queue = Queue::by_pace(recording, 2 << 20);
    queue.begin(&description()).unwrap();
    let mut end = 0;
    let mut has = Vec::new();
    for (seconds, a_second) in [(30, 100), (5, 4000), (30, 100), (5, 4000), (30, 100)] {
        for _ in 0..seconds {
            clock.1.fetch_add(1, Ordering::Relaxed);
            let batch: Vec<u8> =
                (end..end + a_second).flat_map(|number| record(number, 64)).collect();
            end += a_second;
            queue.append(&[&batch]).unwrap();
            // Everything is written before the next second, even on a busy machine.
            while queue.here.is_none() && queue.shared.lock().fill.bytes > 0 {
                std::thread::yield_now();
            }
            queue.flush().unwrap();
        }
        has.push(queue.here.is_none());
    }
    assert_eq!(has, [false, true, false, true, false]);
    let account = Box::new(queue).finish(&Closing { description: &description(), records: &[] });
    let reader = Reader::open(File::open(path.path()).unwrap()).unwrap();
    assert_eq!(numbers_in(reader), (0..end).collect::<Vec<_>>(), "{account:?}");
    assert_eq!(account.bytes, std::fs::metadata(path.path()).unwrap().len(), "{account:?}");
}
