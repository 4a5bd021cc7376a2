//! The list of targets, and those for recordings and their sections.

use std::hint::black_box;
use std::io::Cursor;

use tare_format::Endian;
use tare_format::abi::Attr;
use tare_format::file::writer::Feature;
use tare_format::file::{Description, Features, Reader, note};
use tare_format::order::Sorter;
use tare_format::record::{Layout, RawRecord, Record, Records, Sample, TaskRead, kind};

use crate::{
    binaries, compiled, machine_files, reports, rings, seeds, tracepoints, unwound, words,
};

/// A reader and its seeds.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input.
    pub read: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "recording", seeds: seeds::recordings, read: recording },
    Target { name: "header", seeds: headers, read: recording },
    Target { name: "attr", seeds: attrs, read: attr },
    Target { name: "feature", seeds: features, read: feature },
    Target { name: "record", seeds: kernel_and_recorder, read: record },
    Target { name: "sample", seeds: samples, read: sample },
    Target { name: "compressed", seeds: compressed, read: compressed_record },
    Target { name: "note", seeds: notes, read: in_stream },
    Target { name: "order", seeds: order, read: in_stream },
    Target { name: "tracing-data", seeds: tracepoints::sections, read: tracepoints::section },
    Target { name: "tracepoint", seeds: tracepoints::formats, read: tracepoints::format },
    Target { name: "jitdump", seeds: compiled::jitdumps, read: compiled::jitdump },
    Target { name: "perf-map", seeds: compiled::perf_maps, read: compiled::perf_map },
    Target { name: "elf", seeds: binaries::elves, read: binaries::elf },
    Target { name: "dwarf", seeds: binaries::debug_infos, read: binaries::dwarf },
    Target { name: "unwind", seeds: binaries::call_frames, read: binaries::unwind },
    Target { name: "unwound", seeds: unwound::records, read: unwound::unwind },
    Target { name: "kallsyms", seeds: binaries::symbol_lists, read: binaries::kallsyms },
    Target { name: "report", seeds: whole, read: reports::report },
    Target { name: "export", seeds: whole, read: reports::export },
    Target { name: "bpf-calls", seeds: rings::call_records, read: rings::calls },
    Target { name: "bpf-others", seeds: rings::other_records, read: rings::others },
    Target { name: "events", seeds: machine_files::event_texts, read: machine_files::events },
    Target { name: "proc", seeds: machine_files::proc_files, read: machine_files::proc },
    Target { name: "sys", seeds: machine_files::sys_files, read: machine_files::sys },
    Target { name: "control", seeds: words::orders, read: words::control },
    Target { name: "ledger", seeds: words::ledgers, read: words::ledger },
    Target { name: "stat", seeds: words::names, read: words::stat },
];

/// Reads a recording, decodes every record and sorts them.
fn recording(input: &[u8]) {
    let Ok(mut reader) = Reader::open(Cursor::new(input)) else { return };
    let mut sorter = Sorter::new(1 << 20);
    while let Ok(Some(entry)) = reader.next_record() {
        let raw = &entry.record;
        let events = entry.description.lookup();
        fields(raw, events.layout_of(raw));
        match events.time_ns(raw) {
            Some(time_ns) => sorter.push(time_ns, entry.offset, raw),
            None if raw.kind == kind::FINISHED_ROUND => sorter.round(),
            None => {}
        }
        while sorter.pop().is_some() {}
    }
    sorter.finish();
    while sorter.pop().is_some() {}
    sections(reader.description());
    black_box(reader.losses().gaps());
}

fn in_stream(input: &[u8]) {
    recording(&seeds::stream(input));
}

/// The first byte selects the feature; the rest is its section, read as a record and for a machine
/// with two CPUs.
fn feature(input: &[u8]) {
    let Some((number, content)) = input.split_first() else { return };
    let cpus = Feature::CpuCount { available: 2, online: 2 };
    let section = |number: u32, content: &[u8]| {
        seeds::record(
            kind::HEADER_FEATURE,
            &[&u64::from(number).to_ne_bytes()[..], content].concat(),
        )
    };
    in_stream(
        &[section(cpus.number(), &cpus.content()), section(u32::from(*number % 34), content)]
            .concat(),
    );
}

/// The first byte selects kind and byte order, the second is both bytes of `misc`.
fn record(input: &[u8]) {
    let [chosen, misc, body @ ..] = input else { return };
    let endian = if chosen & 0x80 == 0 { Endian::Little } else { Endian::Big };
    let misc = u16::from(*misc) << 8 | u16::from(*misc);
    let raw = RawRecord { kind: u32::from(chosen & 0x7f), misc, body, endian };
    let layout =
        Layout { sample_type: seeds::SAMPLE_TYPE, sample_id_all: true, ..Layout::default() };
    fields(&raw, Some(&layout));
}

/// The first 24 bytes are the layout.
fn sample(input: &[u8]) {
    let Some((layout, body)) = input.split_first_chunk::<24>() else { return };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| layout[at + n]));
    let layout = Layout {
        sample_type: word(0),
        branch_sample_type: word(8),
        regs_user: word(16),
        regs_intr: word(16),
        ..Layout::default()
    };
    for endian in [Endian::Little, Endian::Big] {
        fields(&RawRecord { kind: kind::PERF_RECORD_SAMPLE, misc: 0, body, endian }, Some(&layout));
    }
}

fn attr(input: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        if let Ok(attr) = Attr::from_bytes_in(input, endian) {
            black_box((attr.to_bytes(), Layout::from(&attr)));
        }
    }
}

fn compressed_record(input: &[u8]) {
    in_stream(&seeds::record(kind::COMPRESSED, input));
}

fn fields(raw: &RawRecord<'_>, layout: Option<&Layout>) {
    match raw.decode() {
        Ok(Record::CpuMap(map)) => _ = black_box(map.cpus().count()),
        Ok(Record::ThreadMap(map)) => _ = black_box(map.threads().count()),
        Ok(Record::IdIndex(index)) => _ = black_box(index.entries().count()),
        Ok(Record::Namespaces(namespaces)) => _ = black_box(namespaces.links().len()),
        Ok(Record::Compressed { data }) => _ = black_box(Records::new(data, raw.endian).count()),
        other => _ = black_box(other),
    }
    let Some(layout) = layout else { return };
    black_box((layout.sample_id(raw), layout.time_ns(raw)));
    black_box(TaskRead::decode(raw, layout).map_or(0, |read| read.values.values().count()));
    if let Ok(sample) = Sample::decode(raw, layout) {
        black_box(sample.callchain.map_or(0, |chain| chain.iter().count()));
        black_box(sample.branches.map_or(0, |branches| branches.iter().count()));
        black_box(sample.read.map_or(0, |read| read.values().count()));
        black_box(
            sample
                .regs_user
                .map_or(0, |regs| (0..65).filter_map(|register| regs.get(register)).count()),
        );
    }
}

fn sections(description: &Description) {
    let features: &Features = description.features();
    for bit in features.bits() {
        black_box((features.text(bit).is_ok(), features.number(bit).is_ok()));
    }
    black_box((
        features.cmdline().is_ok(),
        features.event_desc().is_ok(),
        features.cpu_topology().is_ok(),
        features.numa_topology().is_ok(),
    ));
    black_box((
        features.pmu_mappings().is_ok(),
        features.group_desc().is_ok(),
        features.caches().is_ok(),
        features.memory_topology().is_ok(),
    ));
    black_box((
        features.cpu_pmu_caps().is_ok(),
        features.pmu_caps().is_ok(),
        features.hybrid_topology().is_ok(),
        features.compression().is_ok(),
    ));
    black_box((
        features.sample_time_ns().is_ok(),
        features.clock_data().is_ok(),
        features.build_ids().map_or(0, Iterator::count),
    ));
    black_box(description.notes().len());
}

/// Recordings as for the target `recording`, and one of tracepoints.
fn whole() -> Vec<Vec<u8>> {
    [seeds::recordings(), vec![tracepoints::recording()]].concat()
}

/// The first 400 bytes of recordings, so that all damage hits the headers.
fn headers() -> Vec<Vec<u8>> {
    seeds::recordings().into_iter().map(|bytes| bytes[..bytes.len().min(400)].to_vec()).collect()
}

fn attrs() -> Vec<Vec<u8>> {
    vec![
        Attr { kind: 1, config: 2, sample_type: seeds::SAMPLE_TYPE, ..Attr::default() }
            .to_bytes()
            .to_vec(),
    ]
}

fn features() -> Vec<Vec<u8>> {
    // Feature numbers are below 34.
    let seed = |feature: Feature| {
        [&[u8::try_from(feature.number()).unwrap_or(0)][..], &feature.content()].concat()
    };
    seeds::features().into_iter().map(seed).collect()
}

fn kernel_and_recorder() -> Vec<Vec<u8>> {
    let mut all = seeds::records();
    // Records of perf's own kinds, with a body of ones.
    all.extend(
        (kind::USER_TYPE_START..=kind::COMPRESSED2).map(|kind| seeds::record(kind, &[1; 64])),
    );
    all.iter().map(|record| [&[record[0], record[5]], &record[8..]].concat()).collect()
}

fn samples() -> Vec<Vec<u8>> {
    let layout = [seeds::SAMPLE_TYPE, 0, 0b11].map(u64::to_le_bytes);
    let samples = seeds::records().into_iter().filter(|record| record[0] == 9);
    samples.map(|sample| [layout.as_flattened(), &sample[8..]].concat()).collect()
}

/// zstd frames of one raw block (RFC 8878) that holds records.
fn compressed() -> Vec<Vec<u8>> {
    let records = seeds::records().concat();
    // Three bytes hold the last-block flag, type and size. One block ends its frame, one doesn't.
    let block = |last: u32| (last | u32::try_from(records.len()).unwrap_or(0) << 3).to_le_bytes();
    let frame = |last: u32| {
        [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58][..], &block(last)[..3], &records].concat()
    };
    vec![frame(0), frame(1)]
}

fn notes() -> Vec<Vec<u8>> {
    [100, 70_000].iter().map(|len| note::encode(&vec![5; *len]).unwrap_or_default()).collect()
}

/// Records with round marks between them, described by a single event.
fn order() -> Vec<Vec<u8>> {
    let attr = Attr {
        sample_type: seeds::SAMPLE_TYPE,
        sample_regs_user: 0b11,
        flags: tare_format::abi::Flags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let event =
        seeds::record(kind::HEADER_ATTR, &[&attr.to_bytes()[..], &10_u64.to_ne_bytes()].concat());
    let round = seeds::record(kind::FINISHED_ROUND, &[]);
    vec![[event, seeds::records().join(&round[..])].concat()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A rejected seed would test only its first bytes.
    #[test]
    fn seeds_are_read_to_their_end() {
        let streams = [compressed(), order()].concat();
        for bytes in [
            seeds::recordings(),
            streams[..2]
                .iter()
                .map(|data| seeds::stream(&seeds::record(kind::COMPRESSED, data)))
                .collect(),
        ]
        .concat()
        {
            let mut reader = Reader::open(Cursor::new(&bytes)).unwrap();
            let mut samples = 0;
            while let Some(entry) = reader.next_record().unwrap() {
                let is_sample = entry.record.kind == kind::PERF_RECORD_SAMPLE;
                samples += usize::from(is_sample);
                let decoded = Sample::from_record(&entry.record, entry.description.lookup());
                let is_described = !entry.description.events().is_empty();
                assert!(
                    !is_sample
                        || !is_described
                        || decoded.is_ok_and(|sample| sample
                            .stack_user
                            .is_some_and(|stack| stack.bytes.len() == 8))
                );
            }
            assert_eq!((samples, reader.losses().bytes()), (3, 0), "{:?}", reader.losses());
        }
    }
}
