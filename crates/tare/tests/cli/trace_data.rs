//! `tare trace --data`: records with BPF programs or, if they can't be loaded, with perf events.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{ProcessGuard, document, sh, status, stderr, tare, wait_until, workload};
use crate::trace::can_trace;
use crate::trace_who::without_btf;

/// The number of getppid(2).
const GETPPID: &str = if cfg!(target_arch = "x86_64") { "NR 110" } else { "NR 173" };

/// The source of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallRecorder {
    Programs,
    Events,
}

/// Returns the sources that work here; prints why a source is skipped.
fn recorders() -> Vec<CallRecorder> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.data");
    let can = |by: &CallRecorder| {
        let output = record(*by, &file, "true");
        let can = status(&output) == 0
            && stderr(&output).contains("by perf events instead") == (*by == CallRecorder::Events);
        if !can {
            // If the kernel rejects a program, the test fails.
            assert!(!stderr(&output).contains("can't be attached"), "{output:?}");
            println!("skipped: {by:?}: {}", stderr(&output));
        }
        can
    };
    [CallRecorder::Programs, CallRecorder::Events].into_iter().filter(can).collect()
}

fn record(by: CallRecorder, file: &Path, words: &str) -> Output {
    let words = format!("--data {} {words}", file.display());
    match by {
        CallRecorder::Programs => sh(&format!("exec {} trace {words}", env!("CARGO_BIN_EXE_tare"))),
        CallRecorder::Events => without_btf(&words),
    }
}

/// Returns the lines of `tare script`, one per sample.
fn script(file: &Path) -> String {
    let output = tare().args(["script", "-i"]).arg(file).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Counts the lines of an event that name this call.
fn count_lines(text: &str, event: &str, call: &str) -> usize {
    let event = format!("raw_syscalls:{event}: ");
    let call = format!("{call} ");
    text.lines().filter(|line| line.contains(&event) && line.contains(&call)).count()
}

fn report(file: &Path) -> Value {
    document(&tare().args(["report", "--json", "-i"]).arg(file).output().unwrap())
}

/// Returns the ledger's numbers of samples and lost samples of `sys_enter` and `sys_exit`.
fn counts(file: &Path) -> [(u64, u64); 2] {
    let document = report(file);
    let ledger = &document["ledger"];
    ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"].map(|name| {
        let events = ledger["events"].as_array().unwrap();
        let event = events.iter().find(|event| event["name"] == name).unwrap();
        let number = |key: &str| event[key].as_u64().unwrap_or(0);
        (number("samples"), number("lost"))
    })
}

#[test]
fn both_sources_record_the_same_calls_in_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.data");
    let mut recorded: Vec<Vec<String>> = Vec::new();
    for by in recorders() {
        let output = record(by, &file, "sh -c \"cd /; umask 077; exit 5\"");
        assert_eq!(status(&output), 5, "{output:?}");
        assert!(stderr(&output).contains("none lost"), "{output:?}");
        let text = script(&file);
        assert!(text.lines().all(|line| line.trim_start().starts_with("sh ")), "{text}");
        // The first line is the return of execve(2).
        let calls = text.lines().map(|line| {
            let (_, event) = line.split_once("raw_syscalls:").unwrap();
            event.split([' ', '=']).take(3).collect::<Vec<_>>().join(" ")
        });
        recorded.push(calls.collect());
    }
    for calls in &recorded {
        assert!(calls[0].starts_with("sys_exit: NR "), "{calls:?}");
        assert!(calls[1].starts_with("sys_enter: NR "), "{calls:?}");
        assert_eq!(calls, &recorded[0]);
    }
}

#[test]
fn records_each_call_of_threads_and_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.data");
    let workload = workload("calls");
    for by in recorders() {
        for (threads, children, each) in [(8, 0, 4000), (0, 1000, 20)] {
            let words = format!("{} {threads} {children} {each}", workload.display());
            let output = record(by, &file, &words);
            assert_eq!(status(&output), 0, "{output:?}");
            let text = script(&file);
            let found = ["sys_enter", "sys_exit"].map(|event| count_lines(&text, event, GETPPID));
            let wanted = (threads + children) * each;
            assert_eq!(found, [wanted; 2], "{by:?} {words}: {}", stderr(&output));
            let threads = text.lines().filter_map(|line| line.split_whitespace().nth(1));
            let threads: std::collections::BTreeSet<_> = threads.collect();
            assert_eq!(threads.len(), 1 + if children == 0 { 8 } else { children }, "{by:?}");
        }
    }
}

#[test]
fn perf_reads_all_samples_in_time_order() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.data");
    let words = format!("{} 0 24 500", workload("calls").display());
    assert_eq!(status(&record(CallRecorder::Programs, &file, &words)), 0);
    let perf = |words: &str| sh(&format!("exec perf {words} -i {}", file.display()));
    let script_of_perf = perf("script");
    if status(&script_of_perf) != 0 {
        return println!("skipped: {}", stderr(&script_of_perf));
    }
    let text = String::from_utf8_lossy(&script_of_perf.stdout);
    let ours = script(&file);
    for event in ["sys_enter", "sys_exit"] {
        assert_eq!(count_lines(&text, event, GETPPID), 24 * 500);
        assert_eq!(count_lines(&text, event, "NR"), count_lines(&ours, event, "NR"));
    }
    assert!(!stderr(&script_of_perf).contains("out of order"), "{}", stderr(&script_of_perf));
    let times: Vec<f64> = text
        .lines()
        .filter_map(|line| line.split_once("]")?.1.trim().split(':').next()?.parse().ok())
        .collect();
    assert!(times.len() > 24_000 && times.is_sorted(), "{}", times.len());
    let shown = perf("trace");
    let text = String::from_utf8_lossy(&shown.stdout) + String::from_utf8_lossy(&shown.stderr);
    assert_eq!(text.matches("getppid()").count(), 24 * 500, "{}", status(&shown));
}

/// Samples and lost samples add up to the number of calls, by event.
#[test]
fn counts_the_samples_that_a_full_ring_buffer_loses() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.data");
    let words = format!("{} 0 1 100000", workload("calls").display());
    let record = |more: &str| {
        let output = record(CallRecorder::Programs, &file, &format!("{more} {words}"));
        assert_eq!(status(&output), 0, "{output:?}");
        (counts(&file), stderr(&output))
    };
    let (whole, text) = record("");
    assert_eq!([whole[0].1, whole[1].1], [0, 0], "{text}");
    let (some, text) = record("--ring-size 64K");
    let lost = some[0].1 + some[1].1;
    assert!(lost > 0, "{text}");
    for ((samples, lost), (all, _)) in some.into_iter().zip(whole) {
        assert_eq!(samples + lost, all, "{some:?} {whole:?}");
    }
    let document = report(&file);
    let losses = &document["ledger"]["losses"];
    let records = |loss: &Value| loss["records"].as_u64().unwrap();
    let of_cpus: u64 = losses.as_array().unwrap().iter().map(records).sum();
    // The last losses are known by event only, not by CPU.
    assert!(0 < of_cpus && of_cpus <= lost, "{losses} {some:?}");
    assert!(text.contains(" LOST;"), "{text}");
}

#[test]
fn records_children_of_a_process_and_not_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.data");
    let go = folder.path().join("go");
    for by in recorders() {
        let line = format!(
            "while [ ! -e {} ]; do sleep 0.05; done; cat /proc/self/comm >/dev/null; mkdir /proc/x 2>/dev/null",
            go.display()
        );
        let mut shell = ProcessGuard::spawn(Command::new("sh").args(["-c", &line]));
        let words = format!("-p {}", shell.id());
        let recorder = std::thread::spawn({
            let file = file.clone();
            move || record(by, &file, &words)
        });
        wait_until("the recording has begun", || {
            let output = tare().args(["script", "-i"]).arg(&file).output().unwrap();
            String::from_utf8_lossy(&output.stdout).contains("sys_enter")
        });
        std::fs::write(&go, "").unwrap();
        let output = recorder.join().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        shell.end();
        std::fs::remove_file(&go).unwrap();
        let text = script(&file);
        std::fs::remove_file(&file).unwrap();
        for comm in ["sh ", "cat ", "mkdir "] {
            let has = text.lines().any(|line| line.trim_start().starts_with(comm));
            assert!(has, "{by:?}: no {comm}in {text}");
        }
        let mut busy = ProcessGuard::spawn(
            Command::new("sh").args(["-c", "while :; do cat /proc/self/comm >/dev/null; done"]),
        );
        let output = record(by, &file, "-a --timeout 300");
        busy.end();
        assert_eq!(status(&output), 0, "{output:?}");
        let text = script(&file);
        let recorder = &report(&file)["ledger"]["recorder"]["tids"];
        let own: Vec<u64> = recorder.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        let of_recorder = text
            .lines()
            .filter_map(|line| line.split_once(" [")?.0.split(' ').next_back()?.parse().ok());
        assert_eq!(
            (own.is_empty(), of_recorder.filter(|tid| own.contains(tid)).count()),
            (false, 0)
        );
        assert!(text.lines().any(|line| line.trim_start().starts_with("cat ")), "{by:?}");
        std::fs::remove_file(&file).unwrap();
    }
}
