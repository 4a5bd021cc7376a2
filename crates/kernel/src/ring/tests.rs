//! Rings over plain memory, with the test as the kernel.

use tare_format::abi::Attr;
use tare_format::abi::bindings::{PERF_RECORD_COMM, PERF_RECORD_SAMPLE};

use super::*;
use crate::fake::Scripted;
use crate::open::{EventTarget, Kernel};

/// The kernel's side of a ring: writes records that fit, drops others.
struct Producer {
    head: u64,
}

impl Producer {
    /// A ring whose positions begin at `start`, as if everything before had been read.
    fn ring(size: usize, start: u64) -> (Self, Ring) {
        let mapping = Mapping::stand_in(size).unwrap();
        mapping.store(start, &[], start);
        mapping.set_tail(start);
        (Self { head: start }, Ring::from_mapping(mapping))
    }

    fn write(&mut self, ring: &Ring, record: &[u8]) -> bool {
        let used = self.head.wrapping_sub(ring.mapping.published_tail());
        let fits = usize::try_from(used).unwrap() + record.len() <= ring.size();
        if fits {
            let head = self.head.wrapping_add(record.len() as u64);
            ring.mapping.store(self.head, record, head);
            self.head = head;
        }
        fits
    }
}

/// A record of `size` bytes with random content.
fn record(random: &mut fastrand::Rng, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    random.fill(&mut bytes);
    bytes[6..8].copy_from_slice(&u16::try_from(size).unwrap().to_ne_bytes());
    bytes
}

fn joined(slices: [&[u8]; 2]) -> Vec<u8> {
    slices.concat()
}

/// Reads everything by one of the two ways, record by record or as a batch, and checks that nothing
/// is left.
fn drain(ring: &mut Ring, random: &mut fastrand::Rng, into: &mut Vec<u8>) {
    let available = ring.available();
    let before = into.len();
    if random.bool() {
        while let Some(record) = ring.next() {
            assert!(record.is_whole());
            into.extend(joined(record.slices()));
        }
    } else {
        let batch = ring.batch();
        let records: Vec<u8> = batch.records().flat_map(|record| joined(record.slices())).collect();
        assert_eq!(records, joined(batch.slices()));
        into.extend(records);
        batch.advance();
    }
    assert_eq!(into.len() - before, available);
    assert_eq!(ring.available(), 0);
    assert_eq!(ring.mapping.published_tail(), ring.tail);
}

#[test]
fn any_records_come_out_byte_for_byte() {
    let mut random = fastrand::Rng::with_seed(3);
    // Miri is some hundred times slower.
    let largest = if cfg!(miri) { 7 } else { 13 };
    for size in (6..=largest).map(|bits| 1_usize << bits) {
        // 64 start positions (4 under Miri), and as many that wrap around at 64 bits.
        let starts = (0..size as u64)
            .step_by(if cfg!(miri) { size / 4 } else { size / 64 })
            .flat_map(|start| [start, start.wrapping_sub(size as u64)]);
        for start in starts {
            let (mut producer, mut ring) = Producer::ring(size, start);
            let mut written = Vec::new();
            let mut read = Vec::new();
            for _ in 0..40 {
                // Any length, not only multiples of 8, so that headers wrap around too.
                let length = 8 + random.usize(..size / 2 - 7);
                let bytes = record(&mut random, length);
                if producer.write(&ring, &bytes) {
                    written.extend(bytes);
                } else {
                    drain(&mut ring, &mut random, &mut read);
                }
            }
            drain(&mut ring, &mut random, &mut read);
            assert!(read == written, "ring of {size} from {start}");
        }
    }
}

#[test]
fn a_full_ring_is_read_as_a_whole() {
    for start in 0..64 {
        let (mut producer, mut ring) = Producer::ring(64, start);
        let bytes = record(&mut fastrand::Rng::with_seed(start), 64);
        assert!(producer.write(&ring, &bytes) && !producer.write(&ring, &[0; 8]));
        assert_eq!(ring.batch().len(), 64);
        assert_eq!(joined(ring.next().unwrap().slices()), bytes);
    }
}

#[test]
fn the_kernel_gets_the_place_back_when_a_record_is_dropped() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut producer, mut ring) = Producer::ring(64, 0);
    assert!(
        producer.write(&ring, &record(&mut random, 24))
            && producer.write(&ring, &record(&mut random, 16))
    );
    let first = ring.next().unwrap();
    assert_eq!((first.len(), first.mapping.published_tail()), (24, 0));
    drop(first);
    assert_eq!(ring.mapping.published_tail(), 24);
    let _ = ring.batch();
    assert_eq!(ring.mapping.published_tail(), 24, "a batch that was not advanced over stays");
    ring.batch().advance();
    assert_eq!((ring.mapping.published_tail(), ring.batch().is_empty()), (40, true));
    assert!(ring.next().is_none());
}

#[test]
fn an_impossible_header_is_returned_and_skipped() {
    for size in [0_u16, 7, 200] {
        let (mut producer, mut ring) = Producer::ring(64, 48);
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&PERF_RECORD_SAMPLE.to_ne_bytes());
        bytes[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        assert!(producer.write(&ring, &bytes));
        let record = ring.next().unwrap();
        assert_eq!(
            (record.kind(), record.misc(), record.len(), record.is_whole()),
            (PERF_RECORD_SAMPLE, 2, 24, false)
        );
        drop(record);
        assert!(ring.next().is_none());
    }
}

/// Writes records backwards, like the kernel with `write_backward`, and takes two snapshots.
#[test]
fn an_overwritten_ring_holds_the_newest_whole_records_once() {
    let mut random = fastrand::Rng::with_seed(5);
    for size in [64, 256, 4096_usize] {
        for count in (0..60).step_by(if cfg!(miri) { 19 } else { 1 }) {
            let mut ring = OverwrittenRing::from_mapping(Mapping::stand_in(size).unwrap());
            let mut head = 0_u64;
            for count in [count, random.usize(..60)] {
                let mut newest_first: Vec<Vec<u8>> = Vec::new();
                for _ in 0..count {
                    let length = 8 * (1 + random.usize(..6));
                    let bytes = record(&mut random, length);
                    head = head.wrapping_sub(bytes.len() as u64);
                    ring.mapping.store(head, &bytes, head);
                    newest_first.insert(0, bytes);
                }
                let ends = newest_first.iter().scan(0, |end, bytes| {
                    *end += bytes.len();
                    Some(*end)
                });
                let fitting = ends.take_while(|&end| end <= size).count();
                let whole = newest_first[..fitting].concat();
                assert_eq!(ring.copy(), whole, "{count} records in {size} bytes");
            }
        }
    }
}

#[test]
fn sizes_fall_back_to_the_lockable_size() {
    let page = rustix::param::page_size();
    let open =
        |kernel: &Scripted| kernel.open(&Attr::default(), EventTarget::Cpu(0), None).unwrap();
    let limited = open(&Scripted::new().lockable(4 * page));
    assert_eq!(Ring::map(&*limited, 64 * page).unwrap().size(), 4 * page);
    assert_eq!(Ring::map(&*limited, 2 * page + 1).unwrap().size(), 4 * page);
    assert_eq!(OverwrittenRing::map(&*limited, 0).unwrap().size(), page);
    let none = open(&Scripted::new().lockable(0));
    assert_eq!(Ring::map(&*none, 64 * page).unwrap_err(), RingError::LockedMemory);
}

#[test]
fn a_snapshot_pauses_the_output() {
    let kernel = Scripted::new();
    let event = kernel.open(&Attr::default(), EventTarget::Cpu(0), None).unwrap();
    let mut ring = OverwrittenRing::map(&*event, 1).unwrap();
    let bytes = [PERF_RECORD_COMM.to_ne_bytes(), [0, 0, 8, 0]].concat();
    ring.mapping.store(u64::MAX - 7, &bytes, u64::MAX - 7);
    assert_eq!(ring.snapshot(&*event).unwrap(), bytes);
    assert_eq!(kernel.calls(), ["pause 3 true", "pause 3 false"]);
}

#[test]
fn a_shortened_batch_ends_with_a_record_and_leaves_the_rest() {
    let mut random = fastrand::Rng::with_seed(3);
    for start in [0, 4096 - 40, 4096 - 24, u64::MAX - 31] {
        let (mut producer, mut ring) = Producer::ring(4096, start);
        let written: Vec<Vec<u8>> = [24, 48, 16, 32].map(|size| record(&mut random, size)).into();
        assert!(written.iter().all(|record| producer.write(&ring, record)));
        let mut read = Vec::new();
        for (most, expected) in [(80, 72), (10, 16), (1000, 32), (1000, 0)] {
            let mut batch = ring.batch();
            batch.shorten(most);
            assert_eq!(batch.len(), expected, "{start} {most}");
            read.extend(joined(batch.slices()));
            batch.advance();
        }
        assert_eq!(read, written.concat());
    }
}

/// The kernel's side on another thread, as in reality. Miri checks that head and tail separate both
/// sides.
#[test]
fn a_writer_on_another_thread_hands_whole_records_over() {
    let records: u64 = if cfg!(miri) { 100 } else { 5_000 };
    let bytes_of = |number: u64| [24 << 48 | 9, number, !number].map(u64::to_le_bytes).concat();
    let mut ring = Ring::from_mapping(Mapping::stand_in(256).unwrap());
    let kernels = ring.mapping.shared();
    let mut read = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut head = 0;
            for record in (0..records).map(bytes_of) {
                while head + record.len() as u64 - kernels.published_tail() > 256 {
                    std::thread::yield_now();
                }
                kernels.store(head, &record, head + record.len() as u64);
                head += record.len() as u64;
            }
        });
        while read.len() < usize::try_from(records).unwrap() * 24 {
            let batch = ring.batch();
            read.extend(joined(batch.slices()));
            batch.advance();
            std::thread::yield_now();
        }
    });
    assert!(read == (0..records).flat_map(bytes_of).collect::<Vec<_>>());
}
