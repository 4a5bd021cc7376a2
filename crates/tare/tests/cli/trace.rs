//! `tare trace -s`: sums of the system calls of real programs, made by BPF programs.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{ProcessGuard, document, sh, status, stderr, tare, wait_until, workload};

fn trace(args: &[&str]) -> Output {
    tare().arg("trace").args(args).output().unwrap()
}

/// Whether BPF programs can be loaded here; if not, prints why the test is skipped.
pub(crate) fn can_trace() -> bool {
    let output = trace(&["-s", "true"]);
    let text = stderr(&output);
    let can = status(&output) == 0 && !text.contains("by perf events instead");
    if !can {
        // If the kernel rejects a program, the test fails.
        assert!(!text.contains("can't be attached"), "{text}");
        println!("skipped: {text}");
    }
    can
}

fn summary(args: &[&str]) -> Value {
    let output = trace(&[&["-s", "--json"], args].concat());
    assert_eq!(status(&output), 0, "{output:?}");
    document(&output)
}

/// Returns the rows of a call.
fn rows<'a>(document: &'a Value, call: &str) -> Vec<&'a Value> {
    document["calls"].as_array().unwrap().iter().filter(|row| row["call"] == call).collect()
}

fn calls(document: &Value, call: &str) -> u64 {
    rows(document, call).iter().map(|row| row["calls"].as_u64().unwrap()).sum()
}

#[test]
fn counts_are_exact_over_threads_and_children() {
    if !can_trace() {
        return;
    }
    let calls_of = workload("calls");
    let program = calls_of.to_str().unwrap();
    for (threads, children, each, by) in [
        ("8", "0", "20000", None),
        ("0", "1000", "100", None),
        ("4", "50", "300", Some("--per-thread")),
        ("4", "50", "300", Some("--per-cgroup")),
    ] {
        let command = [program, threads, children, each];
        let document = summary(&[by.as_slice(), &command].concat());
        let number = |text: &str| text.parse::<u64>().unwrap();
        let wanted = (number(threads) + number(children)) * number(each);
        assert_eq!(calls(&document, "getppid"), wanted, "{command:?} {by:?}");
        // The command's execve is counted; calls of the child before it are not.
        assert_eq!(calls(&document, "execve"), 1, "{command:?} {by:?}");
        assert_eq!(document["missing_calls"], 0);
        let row = rows(&document, "getppid")[0];
        let ns = |name: &str| row[name].as_f64().unwrap();
        assert!(ns("p50_ns") <= ns("p99_ns") && ns("p99_ns") <= ns("max_ns"), "{row}");
        let of_buckets = |row: &Value| -> u64 {
            row["histogram"]
                .as_array()
                .unwrap()
                .iter()
                .map(|bucket| bucket[2].as_u64().unwrap())
                .sum()
        };
        for row in document["calls"].as_array().unwrap() {
            assert_eq!(of_buckets(row), row["calls"].as_u64().unwrap());
        }
        if by == Some("--per-thread") {
            assert_eq!(rows(&document, "getppid").len(), 54);
            assert!(
                rows(&document, "getppid")
                    .iter()
                    .all(|row| row["calls"] == 300 && row["comm"] == "calls")
            );
        }
    }
}

#[test]
fn measures_the_duration_of_a_sleep() {
    if !can_trace() {
        return;
    }
    let document = summary(&["sleep", "0.2"]);
    let row = rows(&document, "clock_nanosleep")[0];
    for name in ["total_ns", "p50_ns", "max_ns"] {
        let ns = row[name].as_f64().unwrap();
        assert!((0.18e9..30e9).contains(&ns), "{name}: {row}");
    }
}

#[test]
fn names_errors_and_selects_calls() {
    if !can_trace() {
        return;
    }
    let document = summary(&["--calls", "%file,!access", "cat", "/dev/null"]);
    assert_eq!(document["version"], 1);
    let output = trace(&["-s", "-e", "trace=openat,mkdir", "sh", "-c", "mkdir /proc/x; exit 3"]);
    let text = stderr(&output);
    assert_eq!(status(&output), 3, "{output:?}");
    assert!(text.contains("mkdir: ENOENT 1"), "{text}");
    assert!(text.contains(" openat") && !text.contains("execve"), "{text}");
    assert!(calls(&document, "execve") > 0 && calls(&document, "access") == 0);
    let histogram = stderr(&trace(&["-s", "--hist", "-e", "execve", "true"]));
    assert!(histogram.contains("|########################################|"), "{histogram}");
}

#[test]
fn running_processes_are_traced_with_their_children() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let line = format!(
        "while [ ! -e {go} ]; do sleep 0.05; done; sh -c 'mkdir /proc/x; mkdir /proc/y' 2>/dev/null",
        go = go.display()
    );
    let shell = ProcessGuard::spawn(Command::new("sh").args(["-c", &line]));
    let mut command = tare();
    command.args(["trace", "-s", "--json", "-p", &shell.id().to_string()]);
    let tracer = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("the programs are attached", || {
        String::from_utf8_lossy(&sh("bpftool link show 2>/dev/null || echo sys_exit").stdout)
            .contains("sys_exit")
            || std::fs::read_dir(format!("/proc/{}/fd", tracer.id()))
                .is_ok_and(|files| files.count() > 12)
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::fs::write(&go, "").unwrap();
    let output = tracer.wait_with_output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(calls(&document(&output), "mkdir"), 2);
}

#[test]
fn refuses_invalid_options() {
    let missing = trace(&["-s", "-p", "999999999"]);
    assert_eq!((status(&missing), stderr(&missing).lines().count()), (2, 1), "{missing:?}");
    for args in [&["-s"][..], &["-s", "-e", "opneat", "true"], &["-s", "-a", "-p", "1"]] {
        assert_eq!(status(&trace(args)), 2, "{args:?}");
    }
}

/// Returns the ids of the loaded BPF programs that may be tare's.
fn programs() -> Option<Vec<u64>> {
    let output = Command::new("bpftool").args(["-j", "prog", "show"]).output().ok()?;
    let programs: Value = serde_json::from_slice(&output.stdout).ok()?;
    let ours = |program: &&Value| {
        let name = program["name"].as_str().unwrap_or_default();
        name.starts_with("sys_e") || name.starts_with("sched_process_")
    };
    Some(
        programs
            .as_array()?
            .iter()
            .filter(ours)
            .filter_map(|program| program["id"].as_u64())
            .collect(),
    )
}

#[test]
fn a_killed_tracer_leaves_no_program_in_the_kernel() {
    if !can_trace() {
        return;
    }
    if programs().is_none() {
        return println!("skipped: bpftool isn't installed");
    }
    // Programs of tests that run at the same time disappear, too.
    for milliseconds in [1, 20, 40, 60, 90, 130, 200, 400] {
        let mut tracer = ProcessGuard::spawn(
            tare().args(["trace", "-s", "sleep", "0.5"]).stderr(std::process::Stdio::null()),
        );
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        tracer.end();
    }
    wait_until("the programs are gone", || programs().is_some_and(|ids| ids.is_empty()));
}
