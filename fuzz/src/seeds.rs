//! Valid inputs from the format's own writer and encoder, and samples.

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::note;
use tare_format::file::writer::{
    BuildId, Cache, Clock, CpuPlace, CpuTopology, DATA_SIZE_OFFSET, Description, EventDescription,
    FINISHED_INIT, FINISHED_ROUND, Feature, Group, HEADER_SIZE, MemoryTopology, NumaNode,
};
use tare_format::record::encode::Encoder;
use tare_format::record::{
    BpfEvent, Cgroup, Comm, FileId, Ksymbol, Layout, Lost, Mmap, NamespaceLink, RecordHeader,
    SampleId, Task,
};

/// `PERF_SAMPLE_*`: IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW,
/// BRANCH_STACK, REGS_USER, STACK_USER, IDENTIFIER.
pub(crate) const SAMPLE_TYPE: u64 = 0x1_3fff;

fn attr(kind: u32) -> Attr {
    Attr {
        kind,
        config: u64::from(kind),
        sampling: Sampling::Period(1),
        sample_type: SAMPLE_TYPE,
        flags: Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::MMAP2,
        sample_regs_user: 0b11,
        ..Attr::default()
    }
}

fn pairs(number: usize) -> Vec<(String, String)> {
    (0..number).map(|n| (format!("name{n}"), n.to_string())).collect()
}

/// One feature of each kind but [`Feature::Compression`].
pub(crate) fn features() -> Vec<Feature> {
    let cpus = vec![CpuPlace::default(); 2];
    let lists = || vec!["0-1".to_owned()];
    let text = || "a text".to_owned();
    let cache = Cache {
        level: 1,
        line_size: 64,
        sets: 64,
        ways: 8,
        kind: text(),
        size: text(),
        cpus: text(),
    };
    vec![
        Feature::BuildIds(vec![
            BuildId { kernel: true, id: vec![7; 20], path: text() },
            BuildId { kernel: false, id: vec![8; 16], path: text() },
        ]),
        Feature::Hostname(text()),
        Feature::OsRelease(text()),
        Feature::Version(text()),
        Feature::Arch(text()),
        Feature::CpuCount { available: 2, online: 2 },
        Feature::CpuDescription(text()),
        Feature::CpuId(text()),
        Feature::TotalMemoryKib(1 << 20),
        Feature::CommandLine(vec![text(); 3]),
        Feature::CpuTopology(CpuTopology { sockets: lists(), cores: lists(), dies: lists(), cpus }),
        Feature::NumaTopology(vec![
            NumaNode { node: 0, total_kib: 2, free_kib: 1, cpus: text() };
            2
        ]),
        Feature::BranchStack,
        Feature::PmuMappings(vec![(1, text()), (2, text())]),
        Feature::Groups(vec![Group { name: text(), leader: 0, members: 2 }]),
        Feature::Caches(vec![cache; 2]),
        Feature::SampleTime { first_ns: 1, last_ns: 2 },
        Feature::MemoryTopology(MemoryTopology {
            block_bytes: 1 << 27,
            nodes: vec![(0, vec![0, 1, 90])],
        }),
        Feature::ClockResolutionNs(1),
        Feature::CpuPmuCaps(pairs(2)),
        Feature::Clock(Clock { clockid: 1, wall_clock_ns: 2, clock_ns: 1 }),
        Feature::HybridTopology(pairs(2)),
        Feature::PmuCaps(vec![(text(), pairs(2))]),
    ]
}

/// A recording of tracepoints, from names and ids of the events, their description section, and
/// records.
pub(crate) fn traced(tracepoints: &[(&str, u64)], tracing_data: Vec<u8>, data: &[u8]) -> Vec<u8> {
    let event = |(name, id): &(&str, u64)| EventDescription {
        attr: Attr { config: *id, ..attr(2) },
        ids: vec![*id],
        name: (*name).to_owned(),
    };
    let events = tracepoints.iter().map(event).collect();
    let described =
        Description { events, tracing_data: Some(tracing_data), ..Description::default() };
    let Ok(stream) = described.stream_beginning() else { return Vec::new() };
    [&stream[..], data].concat()
}

fn description() -> Description {
    let event =
        |kind, ids| EventDescription { attr: attr(kind), ids, name: format!("event{kind}") };
    Description {
        events: vec![event(1, vec![10, 11]), event(2, vec![20])],
        features: features(),
        tracing_data: Some(vec![9; 100]),
    }
}

/// A sample of an event with [`SAMPLE_TYPE`].
fn sample(id: u64, time_ns: u64) -> Vec<u8> {
    sample_of(id, time_ns, &[0; 4])
}

/// A sample with raw data. The data's length must be four more than a multiple of eight.
pub(crate) fn sample_of(id: u64, time_ns: u64, raw: &[u8]) -> Vec<u8> {
    let front: [u64; 14] = [
        id,
        0x1000,
        0x7_0000_0007, // process and thread
        time_ns,
        0x2000,
        id,
        id,
        1,
        100, // up to PERIOD
        55,  // READ: one count
        3,
        0xffff_ffff_ffff_fe00,
        0x1000,
        0x1100, // CALLCHAIN
    ];
    let back: [u64; 9] = [
        1, 0x10, 0x20, 0, // BRANCH_STACK
        2, 1, 2, // REGS_USER: abi and two registers
        8, 0x5555, // STACK_USER: eight bytes; the number of valid ones follows below
    ];
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let front: Vec<u8> = bytes(&front);
    let back: Vec<u8> = bytes(&back);
    let len = u32::try_from(raw.len()).unwrap_or(0).to_ne_bytes();
    record(9, &[&front, &len[..], raw, &back, &8_u64.to_ne_bytes()].concat())
}

/// A record of any kind.
pub(crate) fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len()).unwrap_or(u16::MAX);
    let header = RecordHeader { kind, misc: 0, size };
    [&header.encode()[..], &body[..header.record_size() - RecordHeader::SIZE]].concat()
}

/// Records of mappings, tasks, namespaces, a cgroup, a kernel symbol, a BPF program and losses, and
/// samples of two events out of order.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let layout = Layout::from(&attr(1));
    let encoder =
        Encoder::new(&layout, &SampleId { id: Some(10), time_ns: Some(5), ..SampleId::default() });
    let mmap = Mmap {
        pid: 1,
        tid: 1,
        start: 0x1000,
        len: 0x1000,
        pgoff: 0,
        file: FileId::BuildId(&[7; 20]),
        prot: 5,
        flags: 2,
        path: b"/a/path",
        is_data: false,
    };
    let task = Task { pid: 1, ppid: 0, tid: 2, ptid: 1, time_ns: 4 };
    let one = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        bytes
    };
    let mut records = vec![
        one(&|into| _ = encoder.mmap(into, &mmap)),
        one(&|into| _ = encoder.mmap(into, &Mmap { file: FileId::None, pid: -1, ..mmap })),
        one(&|into| _ = encoder.comm(into, &Comm { pid: 1, tid: 1, comm: b"name", is_exec: true })),
        one(&|into| _ = encoder.fork(into, &task, false)),
        one(&|into| _ = encoder.exit(into, &task)),
        one(&|into| _ = encoder.namespaces(into, 1, 1, &[NamespaceLink { dev: 1, inode: 2 }; 7])),
        one(&|into| _ = encoder.cgroup(into, &Cgroup { id: 1, path: b"/a" })),
        one(&|into| {
            _ = encoder.ksymbol(
                into,
                &Ksymbol { addr: 1, len: 2, ksym_type: 1, flags: 0, name: b"symbol" },
            );
        }),
        one(&|into| {
            _ = encoder.bpf_event(into, &BpfEvent { event_type: 1, flags: 0, id: 1, tag: [1; 8] });
        }),
        one(&|into| _ = encoder.lost(into, &Lost { id: 10, lost: 3 })),
    ];
    records.extend([(10, 50), (20, 40), (11, 60)].map(|(id, time_ns)| sample(id, time_ns)));
    records
}

/// A finished file, a file of a killed recorder, and a stream.
pub(crate) fn recordings() -> Vec<Vec<u8>> {
    let description = description();
    let Ok(beginning) = description.beginning(|_| 2, 1) else { return Vec::new() };
    let Ok(mut streamed) = description.stream_beginning() else { return Vec::new() };
    let mut killed = beginning.bytes.clone();
    let start = killed.len() as u64;
    killed.extend(FINISHED_INIT);
    killed.extend(note::encode(&[5; 100]).unwrap_or_default());
    for round in records().chunks(4) {
        round.iter().for_each(|record| killed.extend(record));
        killed.extend(FINISHED_ROUND);
    }
    let data = start..killed.len() as u64;
    let Ok(ending) = description.ending(&data) else { return Vec::new() };
    let mut finished = [&killed[..], &ending.tail].concat();
    finished[..HEADER_SIZE].copy_from_slice(&ending.header);
    let at = usize::try_from(DATA_SIZE_OFFSET).unwrap_or(0);
    streamed.extend(&killed[beginning.bytes.len()..]);
    killed.extend(&beginning.feature_table);
    killed[at..at + 8].copy_from_slice(&beginning.data_size(data.end));
    vec![finished, killed, streamed]
}

/// A stream of these records.
pub(crate) fn stream(records: &[u8]) -> Vec<u8> {
    let magic: &[u8; 8] = if cfg!(target_endian = "big") { b"2ELIFREP" } else { b"PERFILE2" };
    [&magic[..], &16_u64.to_ne_bytes(), records].concat()
}
