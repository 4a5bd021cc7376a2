#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tare_format::file::Reader;
use tare_format::file::features::TRACING_DATA;
use tare_format::file::writer::{CpuPlace, Description, EventDescription, HEADER_SIZE};
use tare_format::record::Record;

use super::*;

/// Makes a recording with perf. Prints the reason and returns `None` if perf can't record here.
fn perf_record(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let path = folder.join("perf.data");
    let perf = Command::new("perf")
        .args(["record", "--no-bpf-event", "-q", "-o"])
        .arg(&path)
        .args(options)
        .args(["--", "true"])
        .output();
    let done = perf.as_ref().is_ok_and(|output| output.status.success());
    if !done {
        println!("skipped: perf can't record {options:?} here");
    }
    done.then_some(path)
}

/// Returns perf's listing of a file's header.
fn header(path: &Path) -> Vec<String> {
    let output = Command::new("perf")
        .args(["report", "--header-only", "-I", "-i"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Writes a finished file without samples.
fn write(
    path: &Path,
    events: Vec<EventDescription>,
    features: Vec<Feature>,
    tracing_data: Option<Vec<u8>>,
) {
    let description = Description { events, features, tracing_data };
    let mut bytes = description.beginning(|_| 0, 1).unwrap().bytes;
    let ending = description.ending(&(bytes.len() as u64..bytes.len() as u64)).unwrap();
    bytes.extend(&ending.tail);
    bytes[..HEADER_SIZE].copy_from_slice(&ending.header);
    std::fs::write(path, bytes).unwrap();
}

fn events_of(path: &Path) -> Vec<EventDescription> {
    let reader = Reader::open(std::fs::File::open(path).unwrap()).unwrap();
    let text = |name: &Option<Vec<u8>>| {
        String::from_utf8_lossy(name.as_deref().unwrap_or_default()).into_owned()
    };
    let events = reader.description().events().iter();
    events
        .map(|event| EventDescription {
            attr: event.attr.clone(),
            ids: event.ids.clone(),
            name: text(&event.name),
        })
        .collect()
}

/// The beginnings of lines that differ between files: dates and times, offsets in the file, the
/// session's own facts, missing features, and PMUs, which perf lists in folder order and tare by
/// name.
const OWN_LINES: [&str; 11] = [
    // Of programs that others have loaded.
    "btf info",
    "captured on",
    "data ",
    "feat ",
    "perf version",
    "cmdline",
    "time of",
    "sample duration",
    "reference time",
    "missing",
    "pmu mappings",
];

/// perf prints our description line by line like its own, except for lines that differ between
/// files.
#[test]
fn perf_prints_the_same_header_as_for_its_own_recording() {
    let folder = tempfile::tempdir().unwrap();
    let Some(theirs) =
        perf_record(folder.path(), &["-k", "CLOCK_MONOTONIC", "-e", "{cpu-clock,page-faults}"])
    else {
        return;
    };
    let session = SessionFacts {
        version: "1.2.3-tare".to_owned(),
        command_line: vec!["/bin/tare".to_owned(), "record".to_owned()],
        clock: RecordingClock::now(1),
        sample_time_ns: Some((1_500_000_000, 2_500_000_000)),
        groups: vec![tare_format::file::writer::Group {
            name: String::new(),
            leader: 0,
            members: 2,
        }],
        ..SessionFacts::default()
    };
    let ours = folder.path().join("ours.data");
    write(&ours, events_of(&theirs), features(&Host::default(), &session), None);
    let ours = header(&ours);
    let theirs = header(&theirs);
    let common = |lines: &[String]| {
        let kept = lines.iter().filter(|line| {
            !OWN_LINES.iter().any(|own| line.trim_start_matches("# ").starts_with(own))
        });
        kept.map(|line| line.split(", free =").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(common(&ours), common(&theirs));
    let line = |lines: &[String], what: &str| {
        lines.iter().find(|line| line.contains(what)).cloned().unwrap()
    };
    let pmus = |lines: &[String]| {
        let line = line(lines, "pmu mappings: ");
        let mut pmus: Vec<_> =
            line.split(": ").nth(1).unwrap().split(", ").map(str::to_owned).collect();
        pmus.sort();
        pmus
    };
    assert_eq!(pmus(&ours), pmus(&theirs));
    assert_eq!(line(&ours, "cmdline"), "# cmdline : /bin/tare record");
    // perf lists sections without content as empty, and tare leaves them out. The written file has
    // no samples and no tracepoints.
    let missing = |lines: &[String]| {
        line(lines, "missing features: ").split(' ').map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let differing: Vec<_> =
        missing(&ours).symmetric_difference(&missing(&theirs)).cloned().collect();
    let expected = ["BPF_BTF", "BPF_PROG_INFO", "BUILD_ID", "PMU_CAPS"];
    assert!(differing.iter().all(|name| expected.contains(&name.as_str())), "{differing:?}");
}

#[test]
fn tracepoint_formats_equal_perfs() {
    let folder = tempfile::tempdir().unwrap();
    for tracepoints in [
        &[("raw_syscalls", "sys_enter")][..],
        &[("sched", "sched_switch"), ("sched", "sched_switch")],
    ] {
        let name = format!("{}:{}", tracepoints[0].0, tracepoints[0].1);
        let Some(path) = perf_record(folder.path(), &["-e", &name]) else { return };
        let reader = Reader::open(std::fs::File::open(path).unwrap()).unwrap();
        let theirs = reader.description().features().section(TRACING_DATA).unwrap();
        let ours = tracing_data(&Host::default(), tracepoints.iter().copied()).unwrap().unwrap();
        let first = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
        assert_eq!((first, ours.len()), (None, theirs.len()), "{name}");
    }
    assert!(matches!(tracing_data(&Host::default(), []), Ok(None)));
    let unknown = tracing_data(&Host::default(), [("sched", "sched_swich")]);
    assert!(matches!(unknown, Err(tare_kernel::tracefs::TracefsError::NoSuch(_))));
}

#[test]
fn build_ids_equal_perfs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = perf_record(folder.path(), &["-e", "cpu-clock", "-F", "20000", "-a"]) else {
        return;
    };
    let mut reader = Reader::open(std::fs::File::open(&path).unwrap()).unwrap();
    let mut seen = BuildIds::default();
    while let Some(entry) = reader.next_record().unwrap() {
        if let Ok(Record::Mmap(mmap)) = entry.record.decode() {
            seen.see_mapping(&mmap);
        }
    }
    let ours: Vec<_> = seen
        .read(&Host::default())
        .into_iter()
        .map(|file| (file.path.into_bytes(), file.id))
        .collect();
    let theirs = reader.description().features().build_ids().unwrap();
    let mut compared = 0;
    for file in theirs.filter(|file| {
        std::fs::exists(Path::new(std::str::from_utf8(file.path).unwrap())).unwrap()
            || file.path.starts_with(b"[")
    }) {
        assert!(
            ours.contains(&(file.path.to_vec(), file.build_id.to_vec())),
            "{:?} in {ours:?}",
            String::from_utf8_lossy(file.path)
        );
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn a_file_that_is_not_the_mapped_one_has_no_build_id() {
    let exe = std::env::current_exe().unwrap();
    let exe = exe.to_str().unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(exe).unwrap());
    let own = std::process::id().cast_signed();
    let found = |path: &str, inode: u64| {
        let mut seen = BuildIds::default();
        let file = tare_format::record::FileId::Inode { major: 0, minor: 0, inode, generation: 0 };
        let mmap = tare_format::record::Mmap {
            pid: own,
            tid: own,
            start: 0,
            len: 1,
            pgoff: 0,
            file,
            prot: 5,
            flags: 2,
            path: path.as_bytes(),
            is_data: false,
        };
        seen.see_mapping(&mmap);
        seen.see_mapping(&tare_format::record::Mmap { path: b"//anon", ..mmap });
        seen.read(&Host::default()).len()
    };
    assert_eq!(
        [
            found(exe, inode),
            found(exe, inode + 1),
            found("/proc/self/maps", inode),
            found("/none", inode)
        ],
        [1, 0, 0, 0]
    );
}

/// Writes the files of a machine below a folder. Returns the folder, and a host that reads it.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let host = Host::at(root.path());
    (root, host)
}

/// A machine with a PMU for one kind of cores, two online CPUs that share a cache, an offline one,
/// and two nodes, of which one has memory.
fn larger_machine() -> (tempfile::TempDir, Host) {
    let cpu = |cpu: u32, file: &str| format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
    let mut files = vec![
        ("/sys/devices/system/cpu/present".to_owned(), "0-2"),
        ("/sys/devices/system/cpu/online".to_owned(), "0-1"),
        (
            "/proc/cpuinfo".to_owned(),
            "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 151\nmodel name\t: A  CPU\nstepping\t: 2\n",
        ),
        ("/sys/bus/event_source/devices/cpu_core/type".to_owned(), "4"),
        ("/sys/bus/event_source/devices/cpu_core/cpus".to_owned(), "0"),
        ("/sys/bus/event_source/devices/cpu_core/caps/branches".to_owned(), "32"),
        ("/sys/bus/event_source/devices/software/type".to_owned(), "1"),
        ("/sys/devices/system/node/online".to_owned(), "0-1"),
        (
            "/sys/devices/system/node/node1/meminfo".to_owned(),
            "Node 1 MemTotal:  10 kB\nNode 1 MemFree:  7 kB\n",
        ),
        ("/sys/devices/system/node/node1/cpulist".to_owned(), "0-2"),
        ("/sys/devices/system/node/node1/memory33/state".to_owned(), ""),
        ("/sys/devices/system/memory/block_size_bytes".to_owned(), "8000000"),
    ];
    for number in 0..2 {
        files.push((cpu(number, "topology/core_id"), if number == 0 { "0" } else { "4" }));
        files.push((cpu(number, "topology/physical_package_id"), "0"));
        files.push((cpu(number, "topology/core_siblings_list"), "0-1"));
        files.push((cpu(number, "topology/core_cpus_list"), if number == 0 { "0" } else { "1" }));
    }
    for (file, value) in
        [("shared_cpu_list", "0-1"), ("level", "3"), ("type", "Unified"), ("size", "8M")]
    {
        files.push((cpu(0, &format!("cache/index0/{file}")), value));
    }
    let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    machine(&files)
}

#[test]
fn features_describe_cores_caches_nodes_and_offline_cpus() {
    let (_root, host) = larger_machine();
    let found = features(&host, &SessionFacts::default());
    let has = |wanted: &dyn Fn(&Feature) -> bool| assert!(found.iter().any(wanted), "{found:#?}");
    has(&|feature| matches!(feature, Feature::CpuCount { available: 3, online: 2 }));
    has(&|feature| *feature == Feature::CpuDescription("A CPU".to_owned()));
    has(&|feature| *feature == Feature::CpuId("GenuineIntel,6,151,2".to_owned()));
    has(&|feature| {
        let Feature::CpuTopology(topology) = feature else { return false };
        let offline = CpuPlace { core: u32::MAX, socket: u32::MAX, die: 0 };
        topology.sockets == ["0-1"]
            && topology.cores == ["0", "1"]
            && topology.dies.is_empty()
            && topology.cpus[2] == offline
    });
    has(
        &|feature| matches!(feature, Feature::Caches(caches) if caches.len() == 1 && caches[0].cpus == "0-1"),
    );
    has(
        &|feature| matches!(feature, Feature::NumaTopology(nodes) if nodes.len() == 1 && (nodes[0].total_kib, nodes[0].free_kib) == (10, 7)),
    );
    has(
        &|feature| matches!(feature, Feature::MemoryTopology(memory) if memory.nodes == [(1, vec![33])] && memory.block_bytes == 1 << 27),
    );
    has(
        &|feature| matches!(feature, Feature::HybridTopology(pmus) if pmus == &[("cpu_core".to_owned(), "0".to_owned())]),
    );
    has(
        &|feature| matches!(feature, Feature::PmuCaps(pmus) if pmus[0].1 == [("branches".to_owned(), "32".to_owned())]),
    );
}

#[test]
fn an_unreadable_machine_has_a_version_and_an_architecture() {
    let (_root, host) = machine(&[]);
    let found =
        features(&host, &SessionFacts { version: "0.1".to_owned(), ..SessionFacts::default() });
    assert!(matches!(&found[..], [Feature::Version(_), Feature::Arch(_)]), "{found:?}");
}
