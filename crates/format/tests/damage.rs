//! Reading any damaged recording ends, without a panic and in bounded memory.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

#[path = "perf/recording.rs"]
mod recording;

use std::io::Cursor;

use recording::{record, record_to_pipe};
use tare_format::file::{Description, Reader};
use tare_format::record::{Record, Sample, TaskRead};
use tare_format::{Endian, limits};

/// A pseudo-random sequence (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// Changes, removes or duplicates random bytes.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        // The front has the offsets and sizes of everything else.
        let front = if numbers.below(2) == 0 { bytes.len() } else { bytes.len().min(1024) };
        let at = numbers.below(front.max(1));
        let length = 1 + numbers.below(64);
        let end = (at + length).min(bytes.len());
        match numbers.below(6) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at..end].fill(0xff),
            2 => bytes[at..end].fill(0),
            3 => bytes.truncate(at.max(16)),
            4 => drop(bytes.splice(at..at, bytes[at..end].to_vec()).count()),
            _ => drop(bytes.drain(at..end).count()),
        }
        bytes.resize(bytes.len().max(16), 0);
    }
}

/// Decodes all records, and most features. Returns a sum, so that the compiler can't remove the
/// work; `None` if the recording can't be opened.
fn read_all(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::open(Cursor::new(bytes)).ok()?;
    let mut sum = 0;
    let mut covered = 0;
    while let Some(entry) = reader.next_record().unwrap() {
        let record = &entry.record;
        let events = entry.description.lookup();
        covered += record.size();
        sum += usize::from(events.time_ns(record).is_some());
        sum += record.decode().map_or(0, |record| lists(&record));
        if let Some(layout) = events.layout_of(record) {
            sum += layout.sample_id(record).cpu.map_or(0, |_| 1);
            sum += TaskRead::decode(record, layout).map_or(0, |read| read.values.values().count());
        }
        if let Ok(sample) = Sample::from_record(record, events) {
            sum += sample.callchain.map_or(0, |chain| chain.iter().count());
            sum += sample.branches.map_or(0, |branches| branches.iter().count());
            sum += sample.read.map_or(0, |read| read.values().count());
            sum += sample
                .regs_user
                .map_or(0, |regs| (0..65).filter_map(|register| regs.get(register)).count());
        }
    }
    assert!(covered <= bytes.len(), "{covered} bytes of records in {}", bytes.len());
    Some(sum + features(reader.description()) + reader.losses().gaps().len())
}

fn lists(record: &Record<'_>) -> usize {
    match record {
        Record::CpuMap(map) => map.cpus().count(),
        Record::ThreadMap(map) => map.threads().count(),
        Record::IdIndex(index) => index.entries().count(),
        Record::Namespaces(namespaces) => namespaces.links().len(),
        _ => 0,
    }
}

fn features(description: &Description) -> usize {
    let features = description.features();
    let texts = features
        .bits()
        .filter(|bit| features.text(*bit).is_ok() || features.number(*bit).is_ok())
        .count();
    let lists = [
        features.cmdline().map_or(0, |list| list.len()),
        features.event_desc().map_or(0, |list| list.len()),
        features.cpu_topology().map_or(0, |topology| topology.cpus.len()),
        features.numa_topology().map_or(0, |list| list.len()),
        features.pmu_mappings().map_or(0, |list| list.len()),
        features.group_desc().map_or(0, |list| list.len()),
        features.caches().map_or(0, |list| list.len()),
        features.memory_topology().map_or(0, |memory| memory.nodes.len()),
        features.build_ids().map_or(0, Iterator::count),
    ];
    let others = features.sample_time_ns().is_ok()
        || features.clock_data().is_ok()
        || features.compression().is_ok();
    texts + lists.iter().sum::<usize>() + usize::from(others)
}

/// Returns the peak memory of this process in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn reads_damaged_recordings_in_bounded_memory() {
    let options = [
        "-e",
        "raw_syscalls:sys_enter",
        "-e",
        "{cpu-clock,page-faults}:S",
        "-g",
        "-s",
        "--namespaces",
    ];
    let recordings = [
        record(&options),
        record_to_pipe(&options),
        record(&["-e", "cpu-clock", "--call-graph", "dwarf,1024"]),
    ];
    let before = peak_bytes();
    let mut largest = 0;
    for recording in recordings.iter().flatten() {
        let mut whole = std::fs::read(&recording.path).unwrap();
        assert!(read_all(&whole).is_some_and(|sum| sum > 100), "the whole recording is read");
        // A truncated recording is damaged already, and a random change hits its tables more often.
        for (seed, cut) in
            (1..=400).flat_map(|seed| [(seed, whole.len()), (seed + 1000, whole.len().min(20_000))])
        {
            let mut bytes = whole[..cut].to_vec();
            damage(&mut bytes, &mut Numbers(seed));
            read_all(&bytes);
            largest = largest.max(bytes.len() as u64);
        }
        // The same bytes, marked as those of a machine with the other byte order.
        whole[..8].copy_from_slice(if Endian::NATIVE == Endian::Little {
            b"2ELIFREP"
        } else {
            b"PERFILE2"
        });
        read_all(&whole);
    }
    // The reader's buffer, and four times the recording for its feature sections, its ids and this
    // test's copies; four times that sum and 32 MiB for growing vectors and the allocator.
    let room = 4 * (limits::READ_BUFFER as u64 + 4 * largest) + (32 << 20);
    let grown = peak_bytes() - before;
    assert!(grown < room, "{grown} bytes of memory for recordings of at most {largest}");
}
