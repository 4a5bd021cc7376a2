//! Compares feature sections with the output of `perf report --header-only` and `perf
//! buildid-list`.

use tare_format::file::Features;
use tare_format::file::features::{
    ARCH, CPUDESC, CPUID, FeatureError, HOSTNAME, MemoryNode, OSRELEASE, TOTAL_MEM, VERSION,
};

use crate::reading::all_records;
use crate::recording::{PerfRecording, record};

fn text(bytes: Result<&[u8], FeatureError>) -> String {
    String::from_utf8_lossy(bytes.unwrap()).into_owned()
}

/// Returns the lines with single spaces, because perf pads some.
fn lines(printed: &str) -> Vec<String> {
    printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Formats the blocks of a node as a list: `0-23,32-199`.
fn ranges(node: &MemoryNode<'_>) -> String {
    let has = |block: usize| {
        node.bitmap.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    };
    let ends = (0..node.bitmap.len() * 64)
        .filter(|block| has(*block) && (*block == 0 || !has(block - 1) || !has(block + 1)));
    let ends: Vec<_> = ends.collect();
    let pairs: Vec<_> = ends.chunks(2).map(|pair| format!("{}-{}", pair[0], pair[1])).collect();
    pairs.join(",")
}

/// Asserts that perf prints each line of `ours`.
fn check(options: &[&str], ours: impl Fn(&Features) -> Vec<String>) {
    let Some(recording) = record(options) else { return };
    let header = lines(&recording.perf(&["report", "--header-only", "-I", "-i"]));
    let reader = all_records(&recording, |_| ());
    for line in ours(reader.description().features()) {
        assert!(header.contains(&line), "'{line}' is not among\n{}", header.join("\n"));
    }
}

#[test]
fn reads_the_machine_like_perf() {
    check(&["-e", "cpu-clock"], |features| {
        let mut ours = vec![
            format!("# hostname : {}", text(features.text(HOSTNAME))),
            format!("# os release : {}", text(features.text(OSRELEASE))),
            format!("# perf version : {}", text(features.text(VERSION))),
            format!("# arch : {}", text(features.text(ARCH))),
            format!("# cpudesc : {}", text(features.text(CPUDESC))),
            format!("# cpuid : {}", text(features.text(CPUID))),
            format!("# total memory : {} kB", features.number(TOTAL_MEM).unwrap()),
        ];
        let (available, online) = features.cpus().unwrap();
        ours.extend([
            format!("# nrcpus avail : {available}"),
            format!("# nrcpus online : {online}"),
        ]);
        let pmus = features
            .pmu_mappings()
            .unwrap()
            .into_iter()
            .map(|(kind, name)| format!("{} = {kind}", text(Ok(name))));
        ours.push(format!("# pmu mappings: {}", pmus.collect::<Vec<_>>().join(", ")));
        let cache = |level: u32, kind, size, cpus| {
            format!("# L{level} {} {} [{}]", text(Ok(kind)), text(Ok(size)), text(Ok(cpus)))
        };
        ours.extend(
            features.caches().unwrap().iter().map(|c| cache(c.level, c.kind, c.size, c.cpus)),
        );
        if let Ok(memory) = features.memory_topology() {
            ours.push(format!(
                "# memory nodes (nr {}, block size {:#x}):",
                memory.nodes.len(),
                memory.block_bytes
            ));
            let gib = |blocks: u64| (blocks * memory.block_bytes) >> 30;
            ours.extend(memory.nodes.iter().map(|node| {
                format!("# {} [{}G]: {}", node.node, gib(node.blocks()), ranges(node))
            }));
        }
        ours
    });
}

#[test]
fn reads_the_topology_like_perf() {
    check(&["-e", "cpu-clock"], |features| {
        let topology = features.cpu_topology().unwrap();
        let mut ours: Vec<_> = topology
            .sockets
            .iter()
            .map(|cpus| format!("# sibling sockets : {}", text(Ok(cpus))))
            .collect();
        ours.extend(
            topology.cores.iter().map(|cpus| format!("# sibling threads : {}", text(Ok(cpus)))),
        );
        ours.extend(topology.cpus.iter().enumerate().map(|(cpu, place)| {
            let die = place.die.map_or_else(String::new, |die| format!(", Die ID {die}"));
            format!("# CPU {cpu}: Core ID {}{die}, Socket ID {}", place.core, place.socket)
        }));
        for node in features.numa_topology().unwrap() {
            ours.push(format!(
                "# node{} meminfo : total = {} kB, free = {} kB",
                node.node, node.total_kib, node.free_kib
            ));
            ours.push(format!("# node{} cpu list : {}", node.node, text(Ok(node.cpus))));
        }
        ours
    });
}

#[test]
fn reads_the_session_like_perf() {
    check(&["-e", "{cpu-clock,page-faults}", "-k", "CLOCK_MONOTONIC"], |features| {
        let group = features.group_desc().unwrap()[0];
        assert_eq!((group.leader, group.members), (0, 2));
        let events = features.event_desc().unwrap();
        assert!(events.iter().map(|event| text(Ok(event.name))).eq(["cpu-clock", "page-faults"]));
        let (first, last) = features.sample_time_ns().unwrap();
        assert!(0 < first && first < last);
        let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
        let clock = features.clock_data().unwrap();
        assert_eq!(clock.clockid, 1, "CLOCK_MONOTONIC");
        let arguments: Vec<_> =
            features.cmdline().unwrap().into_iter().map(|argument| text(Ok(argument))).collect();
        vec![
            format!("# cmdline : {}", arguments.join(" ")),
            format!("# time of first sample : {}", seconds(first)),
            format!("# time of last sample : {}", seconds(last)),
        ]
    });
}

#[test]
fn reads_the_clocks_like_perf() {
    let Some(recording) = record(&["-e", "cpu-clock", "-k", "CLOCK_MONOTONIC"]) else { return };
    let reader = all_records(&recording, |_| ());
    let clock = reader.description().features().clock_data().unwrap();
    let seconds =
        format!("{}.{:09}", clock.clock_ns / 1_000_000_000, clock.clock_ns % 1_000_000_000);
    let of_day = format!(
        "{}.{:06}",
        clock.wall_clock_ns / 1_000_000_000,
        clock.wall_clock_ns % 1_000_000_000 / 1000
    );
    let header = recording.perf(&["report", "--header-only", "-I", "-i"]);
    let wanted = format!("= {of_day} (TOD) = {seconds} (");
    assert!(header.contains(&wanted), "'{wanted}' in\n{header}");
}

#[test]
fn reads_compression_like_perf() {
    check(&["-e", "cpu-clock", "-z"], |features| {
        let compression = features.compression().unwrap();
        vec![format!(
            "# compressed : Zstd, level = {}, ratio = {}",
            compression.level, compression.ratio
        )]
    });
}

#[test]
fn reads_the_build_ids_that_perf_lists() {
    let Some(recording) = record(&["-e", "cpu-clock"]) else { return };
    let listed = |recording: &PerfRecording| lines(&recording.perf(&["buildid-list", "-i"]));
    let reader = all_records(&recording, |_| ());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let ours = reader
        .description()
        .features()
        .build_ids()
        .unwrap()
        .map(|file| format!("{} {}", hex(file.build_id), text(Ok(file.path))));
    let mut ours = ours.collect::<Vec<_>>();
    let mut theirs = listed(&recording);
    ours.sort();
    theirs.sort();
    assert!(!ours.is_empty());
    assert_eq!(ours, theirs);
}
