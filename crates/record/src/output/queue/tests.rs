//! A stream's queue before readers that are slow, or go.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tare_format::abi::bindings::PERF_RECORD_SAMPLE;
use tare_format::abi::{Attr, Flags};
use tare_format::file::Reader;
use tare_format::file::writer::EventDescription;

use super::super::disk::OpenDestination;
use super::super::{FileSystem, Options, disk::OutputBackend};
use super::*;
use crate::clock::SystemClock;

/// A record that holds its number, and filling up to `size` bytes, which is a multiple of eight.
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

/// Reads pieces of chance size with pauses; goes after so many bytes. Returns what it read.
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

/// The numbers of the whole records of a stream.
fn numbers(stream: &[u8]) -> Vec<u64> {
    let mut reader = Reader::stream(stream).unwrap();
    let mut numbers = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if entry.record.kind == PERF_RECORD_SAMPLE {
            numbers.push(u64::from_ne_bytes(*entry.record.body.first_chunk().unwrap()));
        }
    }
    numbers
}

/// Appends some MiB in batches of chance size to a queue whose reader goes after `most` bytes: the
/// account, what was read, the number of records, and the first error.
fn stream(
    seed: u64,
    compress: Option<i32>,
    most: usize,
) -> (OutputStats, Vec<u8>, u64, Option<OutputError>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (from, to) = std::io::pipe().unwrap();
    let reader = std::thread::spawn(move || read_slowly(from, seed, most));
    let capacity = random.usize(1..4 << 20);
    let options = Options { compress, queue_bytes: capacity, ..Options::default() };
    let recording = FileSeries::new(
        OpenDestination::Stream(Arc::new(File::from(OwnedFd::from(to)))),
        &options,
        OutputBackend { disk: Arc::new(FileSystem), clock: Arc::new(SystemClock) },
    )
    .unwrap();
    let queue = Queue::start(recording, capacity).unwrap();
    queue.begin(&description()).unwrap();
    let (mut appended, mut failed) = (0, None);
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
    let account = queue.finish(&Closing { description: &description(), records: &[] });
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

/// Nothing waits for a reader that is gone, and what it got is the beginning.
#[test]
fn a_reader_that_goes_ends_the_recording() {
    for seed in [0, 3, 6, 9, 12] {
        for compress in [None, Some(1)] {
            let most = usize::try_from(1_u64 << (seed + 7)).unwrap();
            let (account, bytes, appended, failed) = stream(seed, compress, most);
            let got = numbers(&bytes);
            assert_eq!(got, (0..got.len() as u64).collect::<Vec<_>>(), "{seed}, {compress:?}");
            // What fits into the pipe is through before the reader goes.
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
