//! `tare script` against `perf script`, line by line, on recordings that perf makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tare_format::tracepoint::Format;

use crate::support::{stderr, tare};

/// Some user time, short-lived processes, system calls, a sleep.
const WORKLOAD: &str =
    "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; for k in 1 2 3; do /bin/true; done; ls -R /usr/share/doc >/dev/null; sleep 0.05";

struct Recording {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// `None`, with the reason, where perf can't record this here.
fn record(options: &[&str]) -> Option<Recording> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "--no-bpf-event", "-o"]).arg(&path).args(options).args(["--", "sh", "-c", WORKLOAD]);
    match perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output() {
        Ok(done) if done.status.success() => Some(Recording { path, _folder: folder }),
        Ok(done) => {
            println!("skipped: perf record {options:?}: {}", stderr(&done));
            None
        }
        Err(error) => {
            println!("skipped: perf: {error}");
            None
        }
    }
}

fn lines(mut command: Command, path: &Path, options: &[&str]) -> Vec<String> {
    let done = command.arg("script").arg("-i").arg(path).args(options).stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{options:?}: {}", stderr(&done));
    String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect()
}

/// Both print the same lines.
fn same(recording: &[&str], options: &[&str]) {
    let Some(recorded) = record(recording) else { return };
    let theirs = lines(Command::new("perf"), &recorded.path, &[options, &["--no-inline"]].concat());
    let ours = lines(tare(), &recorded.path, options);
    assert!(!theirs.is_empty(), "{recording:?}: perf prints nothing");
    assert_eq!(ours.len(), theirs.len(), "{recording:?} {options:?}");
    // Overlapping symbols: which one perf finds depends on the shape of its tree; where it finds none, ours may.
    let is_same = |(ours, theirs): &(&String, &String)| ours == theirs || theirs.contains("[unknown]") && !ours.contains("[unknown]");
    let different: Vec<_> = ours.iter().zip(&theirs).filter(|pair| !is_same(pair)).take(5).collect();
    assert!(different.is_empty(), "{recording:?} {options:?} ours, theirs: {different:#?}");
}

#[test]
fn samples_are_printed_as_by_perf() {
    same(&["-e", "cpu-clock"], &[]);
    same(&["-e", "cpu-clock", "-g"], &[]);
    same(&["-g", "-e", "cpu-clock", "-e", "context-switches"], &[]);
    same(&["-e", "page-faults", "-c", "1", "-d"], &["-F", "comm,tid,pid,time,event,addr,ip,sym,dso", "--ns"]);
    same(&["-e", "{cpu-clock,page-faults}:S"], &[]);
    same(&["-e", "cpu-clock", "--user-regs=ip,sp", "--intr-regs=ip,sp"], &["-F", "+iregs,+uregs,+misc,-cpu"]);
    same(&["-e", "cpu-clock", "-g", "-z"], &["-G"]);
}

#[test]
fn tracepoints_are_printed_as_by_perf() {
    same(&["-a", "-e", "sched:*"], &[]);
    // On whole machines only events of the kernel: of other programs both print the same addresses, and not always the same C++.
    same(&["-a", "-e", "raw_syscalls:*", "-e", "context-switches"], &[]);
    same(&["-e", "syscalls:*"], &[]);
    same(&["-e", "kmem:*"], &[]);
    same(&["-a", "-e", "irq:*", "-e", "timer:hrtimer_*", "-e", "signal:*", "-e", "task:*", "-e", "block:*"], &[]);
    same(&["-g", "-e", "sched:sched_switch"], &[]);
    same(&["-e", "writeback:*", "-e", "ext4:*", "-e", "filemap:*", "-e", "exceptions:*"], &["-F", "trace:comm,event,trace"]);
}

#[test]
fn other_records_are_printed_as_by_perf() {
    let shown = ["--show-task-events", "--show-mmap-events", "--show-switch-events", "--show-lost-events", "--show-namespace-events"];
    same(&["-a", "-e", "context-switches", "--switch-events", "--namespaces"], &shown);
}

/// The share of the kernel's expressions that are understood.
#[test]
fn the_formats_of_this_kernel_are_understood() {
    let Ok(systems) = std::fs::read_dir("/sys/kernel/tracing/events") else { return println!("skipped: tracefs is not readable") };
    let events = systems.flatten().flat_map(|system| std::fs::read_dir(system.path()).into_iter().flatten().flatten());
    let texts = events.filter_map(|event| std::fs::read_to_string(event.path().join("format")).ok());
    let formats: Vec<_> = texts.map(|text| Format::parse(&text).unwrap()).collect();
    let failed: Vec<_> = formats.iter().filter(|format| !format.has_print()).map(|format| format.name.as_str()).collect();
    println!("{} of {} formats are not understood: {failed:?}", failed.len(), formats.len());
    assert!(failed.len() * 50 <= formats.len(), "{failed:?}");
}

#[test]
fn a_pipe_is_printed_as_it_comes_and_closing_it_ends_quietly() {
    if record(&["-e", "cpu-clock"]).is_none() {
        return;
    }
    let line = "perf record --no-bpf-event -e cpu-clock -o - -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done' 2>/dev/null";
    let run = |end: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-c", &format!("{line} | \"$TARE\" script -i - {end}")]).env("TARE", env!("CARGO_BIN_EXE_tare")).stdin(Stdio::null());
        sh.output().unwrap()
    };
    let done = run("");
    assert!(done.status.success() && String::from_utf8_lossy(&done.stdout).contains("cpu-clock:"), "{}", stderr(&done));
    let done = run("| head -1");
    assert!(done.status.success() && stderr(&done).is_empty(), "{}", stderr(&done));
}

#[test]
fn what_can_not_be_read_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, "no recording").unwrap();
    for path in [folder.path().join("absent"), other] {
        let done = tare().arg("script").arg("-i").arg(path).output().unwrap();
        assert_eq!((done.status.code(), stderr(&done).lines().count()), (Some(1), 1), "{}", stderr(&done));
    }
    let done = tare().args(["script", "-F", "nonsense"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!((done.status.code(), stderr(&done).lines().count()), (Some(2), 1), "{}", stderr(&done));
}
