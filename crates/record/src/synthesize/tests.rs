#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use tare_format::record::{Record, Records};

use super::*;

fn mappings() -> SynthesizeOptions {
    SynthesizeOptions { mappings: true, ..SynthesizeOptions::default() }
}

fn layout() -> Layout {
    let sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
    Layout { sample_type: sample_type.into(), sample_id_all: true, ..Layout::default() }
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

/// Returns each record as a line, and the counts.
fn lines(
    host: &Host,
    targets: &Targets,
    options: SynthesizeOptions,
) -> (Vec<String>, SynthesisCounts) {
    let layout = layout();
    let mut bytes = Vec::new();
    let done = synthesize(host, targets, &options, &layout, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    let mut records = Records::new(&bytes, Endian::NATIVE);
    let mut lines = Vec::new();
    for record in records.by_ref() {
        let end = layout.sample_id(&record);
        assert_eq!(
            (end.pid, end.tid, end.time_ns, end.id, end.cpu),
            (Some(0), Some(0), Some(0), Some(0), Some(0))
        );
        lines.push(line(&record.decode().unwrap()));
    }
    assert!(records.rest().is_empty());
    let done = done.unwrap();
    assert_eq!(done.bytes, bytes.len() as u64);
    (lines, done)
}

fn line(record: &Record<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match record {
        Record::Mmap(m) => format!(
            "mmap {} {:x}+{:x}@{:x} {}{}",
            m.pid,
            m.start,
            m.len,
            m.pgoff,
            text(m.path),
            if m.is_data { " data" } else { "" }
        ),
        Record::Comm(c) => format!("comm {}/{} {}", c.pid, c.tid, text(c.comm)),
        Record::Fork(f) => format!("fork {}/{} from {}/{}", f.pid, f.tid, f.ppid, f.ptid),
        Record::Cgroup(c) => format!("cgroup {}", text(c.path)),
        Record::Namespaces(n) => format!("namespaces {}/{} {}", n.pid, n.tid, n.links().len()),
        other => panic!("{other:?}"),
    }
}

const STAT: &str = "S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0";
const MAPS: &str = "1000-3000 r-xp 00001000 08:01 77 /bin/a b\n\
    4000-5000 r--p 00000000 08:01 77 /bin/a b\n5000-6000 rw-p 00000000 00:00 0 \n6000-7000 r-xp 00000000 00:00 0\n\
    7000-8000 r-xp 00000000 00:00 0 [vdso]\n8000-9000 ---p 00000000 00:00 0 \n9000-a000 --xp 00000000 08:01 9 /tmp/\\012\x1b[31m (deleted)\n";

fn small() -> (tempfile::TempDir, Host) {
    machine(&[
        ("/proc/2/task/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1"),
        ("/proc/7/task/7/stat", &format!("7 (a) (b\n) {STAT} 2 0 500")),
        ("/proc/7/task/9/comm", "thread\n"),
        ("/proc/7/maps", MAPS),
        ("/proc/7/status", "Name:\ta\nTgid:\t7\n"),
        ("/proc/9/status", "Tgid:\t7\n"),
        // An exited process: only its folder was seen.
        ("/proc/30/nothing", ""),
        ("/proc/kallsyms", "ffffffff81000000 T _stext\nffffffff81000000 T _text\n"),
        ("/proc/modules", "ext4 4096 0 - Live 0xffffffffc0600000\n"),
    ])
}

const PROCESS_7: [&str; 8] = [
    "fork 7/7 from 1/1",
    "comm 7/7 a) (b\n",
    "fork 7/9 from 7/7",
    "comm 7/9 thread",
    "mmap 7 1000+2000@1000 /bin/a b",
    "mmap 7 6000+1000@0 //anon",
    "mmap 7 7000+1000@0 [vdso]",
    "mmap 7 9000+1000@0 /tmp/\n\u{1b}[31m (deleted)",
];

#[test]
fn all_processes_are_described() {
    let (_root, host) = small();
    let (found, done) =
        lines(&host, &Targets::All, SynthesizeOptions { kernel: true, ..mappings() });
    let kernel = [
        "mmap -1 ffffffff81000000+3f600000@ffffffff81000000 [kernel.kallsyms]_text",
        "mmap -1 ffffffffc0600000+1000@0 [ext4]",
    ];
    let kthread = ["fork 2/2 from 0/0", "comm 2/2 kthreadd"];
    assert_eq!(found, [&kernel[..], &kthread, &PROCESS_7].concat());
    let counts =
        (done.processes, done.threads, done.mappings, done.modules.len(), done.gone, done.kernel);
    assert_eq!(
        counts,
        (2, 3, 4, 1, 2, true),
        "process 9 has no folder of threads, and 30 has nothing"
    );
}

#[test]
fn only_the_given_processes_and_threads_are_described() {
    let (_root, host) = small();
    assert_eq!(lines(&host, &Targets::Processes(vec![7]), mappings()).0, PROCESS_7);
    assert_eq!(
        lines(&host, &Targets::Threads(vec![9, 9, 7]), mappings()).0.len(),
        PROCESS_7.len() + 2 - 2
    );
    let (found, done) = lines(
        &host,
        &Targets::Threads(vec![7, 555]),
        SynthesizeOptions { namespaces: true, ..mappings() },
    );
    let wanted =
        [&["fork 7/7 from 1/1", "namespaces 7/7 7", "comm 7/7 a) (b\n"][..], &PROCESS_7[4..]]
            .concat();
    assert_eq!((found, done.gone), (wanted.iter().map(ToString::to_string).collect(), 1));
    let (found, _) =
        lines(&host, &Targets::Processes(vec![7]), SynthesizeOptions { data: true, ..mappings() });
    let data: Vec<_> = found.iter().filter(|line| line.ends_with(" data")).collect();
    assert_eq!(data, ["mmap 7 4000+1000@0 /bin/a b data", "mmap 7 5000+1000@0 //anon data"]);
}

#[test]
fn cgroups_are_described_from_the_top_down() {
    let (_root, host) = machine(&[
        ("/proc/self/mountinfo", "30 20 0:7 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/b\n"),
        ("/proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\nperf_event\t0\t1\t1\n"),
        ("/sys/fs/cgroup/b/c/cgroup.procs", ""),
        ("/sys/fs/cgroup/a/cgroup.procs", ""),
    ]);
    let (found, done) = lines(
        &host,
        &Targets::Processes(Vec::new()),
        SynthesizeOptions { cgroups: true, ..mappings() },
    );
    assert_eq!(found, ["cgroup /", "cgroup /a", "cgroup /b", "cgroup /b/c"]);
    assert_eq!((done.cgroups, done.processes), (4, 0));
}

#[test]
fn an_error_of_emit_is_returned() {
    let (_root, host) = small();
    let failed = synthesize(&host, &Targets::All, &mappings(), &layout(), &mut |_| {
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

/// Starts `sleep`, and returns when the program runs.
fn sleeper() -> Child {
    let sleeper = Command::new("sleep")
        .arg("100")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while std::fs::read(format!("/proc/{}/comm", sleeper.id())).unwrap() != b"sleep\n" {
        std::thread::yield_now();
    }
    sleeper
}

/// The records are the process's name, mappings and namespaces, and the kernel's mappings.
#[test]
fn perf_describes_a_process_in_the_same_records() {
    let mut sleeper = sleeper();
    let pid = i32::try_from(sleeper.id()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let options = [
        "record",
        "--no-bpf-event",
        "-q",
        "-e",
        "cpu-clock",
        "-d",
        "--namespaces",
        "-p",
        &pid.to_string(),
        "-o",
    ];
    let perf = Command::new("perf")
        .args(options)
        .arg(&path)
        .args(["--", "true"])
        .stderr(Stdio::null())
        .status();
    let options = SynthesizeOptions { data: true, namespaces: true, kernel: true, ..mappings() };
    let ours = lines(&Host::default(), &Targets::Processes(vec![pid]), options).0;
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(
        ours.iter()
            .any(|line| line.starts_with(&format!("mmap {pid} ")) && line.ends_with("/sleep")),
        "{ours:#?}"
    );
    if !perf.is_ok_and(|status| status.success()) {
        println!("skipped: perf can't record here");
        return;
    }
    let mut reader = tare_format::file::Reader::open(std::fs::File::open(&path).unwrap()).unwrap();
    let mut theirs = BTreeSet::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if let Ok(record @ (Record::Mmap(_) | Record::Comm(_) | Record::Namespaces(_))) =
            entry.record.decode()
        {
            theirs.insert(line(&record));
        }
    }
    // perf writes no fork of a target process, and adds records of its own command.
    let about = [format!(" {pid} "), format!(" {pid}/"), " -1 ".to_owned()];
    theirs.retain(|line| about.iter().any(|name| line.contains(name)));
    let ours: BTreeSet<_> = ours.into_iter().filter(|line| !line.starts_with("fork ")).collect();
    let differing: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(differing.is_empty(), "{differing:#?}");
}
