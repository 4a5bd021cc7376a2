//! Writes and reads features of the machine, branch stacks, groups, build ids and notes.

use super::super::*;
use crate::file::{Reader, note};
use crate::record::RawRecord;

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn written() -> Vec<Feature> {
    let node = NumaNode { node: 3, total_kib: 100, free_kib: 5, cpus: "0-1".to_owned() };
    let cache = Cache {
        level: 2,
        line_size: 64,
        sets: 8,
        ways: 4,
        kind: "Unified".to_owned(),
        size: "2K".to_owned(),
        cpus: "0".to_owned(),
    };
    let build_id = |byte, path: &str| BuildId {
        kernel: path.starts_with('['),
        id: vec![byte; 20],
        path: path.to_owned(),
    };
    vec![
        Feature::BuildIds(vec![build_id(1, "[kernel.kallsyms]"), build_id(2, "/bin/true")]),
        Feature::NumaTopology(vec![node]),
        Feature::BranchStack,
        Feature::Groups(vec![Group { name: "{a,b}".to_owned(), leader: 1, members: 2 }]),
        Feature::Caches(vec![cache.clone(), cache]),
        Feature::MemoryTopology(MemoryTopology {
            block_bytes: 1 << 27,
            nodes: vec![(0, vec![0, 1, 70]), (1, Vec::new())],
        }),
        Feature::CpuPmuCaps(pairs(&[("branches", "32"), ("pmu_name", "icelake")])),
        Feature::PmuCaps(vec![
            ("cpu_atom".to_owned(), pairs(&[("max_precise", "3")])),
            ("empty".to_owned(), Vec::new()),
        ]),
        Feature::HybridTopology(pairs(&[("cpu_core", "0-3"), ("cpu_atom", "4-7")])),
    ]
}

fn check(features: &crate::file::Features) {
    let ids: Vec<_> = features
        .build_ids()
        .unwrap()
        .map(|file| (file.pid, file.build_id.to_vec(), file.path.to_vec()))
        .collect();
    assert_eq!(
        ids,
        [
            (-1, vec![1; 20], b"[kernel.kallsyms]".to_vec()),
            (-1, vec![2; 20], b"/bin/true".to_vec())
        ]
    );
    let node = features.numa_topology().unwrap()[0];
    assert_eq!((node.node, node.total_kib, node.free_kib, node.cpus), (3, 100, 5, &b"0-1"[..]));
    let group = features.group_desc().unwrap()[0];
    assert_eq!((group.name, group.leader, group.members), (&b"{a,b}"[..], 1, 2));
    let cache = features.caches().unwrap()[1];
    assert_eq!((cache.level, cache.line_size, cache.sets, cache.ways), (2, 64, 8, 4));
    assert_eq!((cache.kind, cache.size, cache.cpus), (&b"Unified"[..], &b"2K"[..], &b"0"[..]));
    let memory = features.memory_topology().unwrap();
    assert_eq!(
        (memory.block_bytes, memory.nodes[0].bitmap.iter().collect()),
        (1 << 27, vec![0b11, 1 << 6])
    );
    assert_eq!((memory.nodes[1].node, memory.nodes[1].blocks()), (1, 0));
    assert_eq!(
        features.cpu_pmu_caps().unwrap(),
        [(&b"branches"[..], &b"32"[..]), (b"pmu_name", b"icelake")]
    );
    let caps = features.pmu_caps().unwrap();
    assert_eq!(
        (caps[0].pmu, &caps[0].caps[..], caps[1].caps.len()),
        (&b"cpu_atom"[..], &[(&b"max_precise"[..], &b"3"[..])][..], 0)
    );
    assert_eq!(features.hybrid_topology().unwrap()[1], (&b"cpu_atom"[..], &b"4-7"[..]));
}

#[test]
fn a_reader_finds_features_of_the_machine_in_unfinished_and_finished_files() {
    let description = Description { features: written(), ..Description::default() };
    let beginning = description.beginning(|_| 0, 1).unwrap();
    let mut killed = beginning.bytes.clone();
    let start = killed.len() as u64;
    killed.extend(note::encode(b"a note").unwrap());
    let end = killed.len() as u64;
    let at = usize::try_from(DATA_SIZE_OFFSET).unwrap();
    let ending = description.ending(&(start..end)).unwrap();
    let mut finished = [&killed[..], &ending.tail].concat();
    killed.extend(&beginning.feature_table);
    killed[at..at + 8].copy_from_slice(&beginning.data_size(end));
    finished[..HEADER_SIZE].copy_from_slice(&ending.header);
    for bytes in [killed, finished] {
        let mut reader = Reader::open(std::io::Cursor::new(&bytes)).unwrap();
        while reader.next_record().unwrap().is_some() {}
        assert!(reader.losses().is_empty(), "{:?}", reader.losses());
        check(reader.description().features());
        assert_eq!(reader.description().notes(), [b"a note".to_vec()]);
    }
}

#[test]
fn adds_build_id_records_of_the_other_byte_order() {
    let other = if crate::Endian::NATIVE == crate::Endian::Big {
        crate::Endian::Little
    } else {
        crate::Endian::Big
    };
    let mut description = crate::file::Description::new(other);
    let body = [&[0xff; 4][..], &[7; 20], &[20, 0, 0, 0], b"/bin/true\0"].concat();
    let record =
        RawRecord { kind: kind::HEADER_BUILD_ID, misc: 1 << 15, body: &body, endian: other };
    description.absorb(&record, 0, &mut crate::file::Losses::default());
    let ids: Vec<_> = description
        .features()
        .build_ids()
        .unwrap()
        .map(|file| (file.build_id.to_vec(), file.path.to_vec()))
        .collect();
    assert_eq!(ids, [(vec![7; 20], b"/bin/true".to_vec())]);
}
