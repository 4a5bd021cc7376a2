//! Calls and waits that were in progress when `tare trace -p` or `tare lock -p` attached.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{ProcessGuard, document, sh, stderr, tare, wait_until, workload};
use crate::symbols::compile;
use crate::trace::can_trace;

/// Starts a process that reads from a FIFO, which it also holds open for writing, so that it waits
/// for data. Returns it once it waits.
fn reader(folder: &Path) -> ProcessGuard {
    let fifo = folder.join("fifo");
    assert!(sh(&format!("mkfifo {}", fifo.display())).status.success());
    let line = format!("exec 3<>{0}; exec cat <&3", fifo.display());
    let process = ProcessGuard::spawn(Command::new("sh").args(["-c", &line]).stdout(Stdio::null()));
    let shown = |name: &str| {
        std::fs::read_to_string(format!("/proc/{}/{name}", process.id())).unwrap_or_default()
    };
    wait_until("cat waits", || shown("comm") == "cat\n" && shown("stat").contains(") S "));
    process
}

/// Removes its own file, and then opens a file again and again.
const DELETES_ITSELF: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int opened;
__attribute__((noinline)) void inner(void) { opened = open("/dev/null", 0); close(opened); }
__attribute__((noinline)) void outer(void) { inner(); opened++; }
int main(int argc, char **argv) {
    unlink(argv[0]);
    puts("removed");
    fflush(stdout);
    for (int i = 0; i < (argc > 1 ? 600 : 5); i++) { outer(); usleep(100000); }
    return 0;
}
"#;

#[test]
fn stacks_in_a_deleted_program_have_names() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let wanted = ["(inner+0x", "(outer+0x", "(main+0x"];
    let Some(program) = compile(folder.path(), DELETES_ITSELF, "deleted", &["-O1"]) else { return };
    let mut command = tare();
    let output = command.args(["trace", "-k", "-e", "openat"]).arg(&program).output().unwrap();
    let text = stderr(&output);
    assert!(wanted.iter().all(|name| text.contains(name)), "a command: {text}");
    compile(folder.path(), DELETES_ITSELF, "deleted", &["-O1"]).unwrap();
    let mut process = Command::new(&program);
    let mut process = ProcessGuard::spawn(process.arg("waits").stdout(Stdio::piped()));
    BufReader::new(process.take_stdout()).read_line(&mut String::new()).unwrap();
    let mut command = tare();
    command.args(["trace", "-k", "-e", "openat", "--timeout", "1000", "-p"]);
    let text = stderr(&command.arg(process.id().to_string()).output().unwrap());
    assert!(wanted.iter().all(|name| text.contains(name)), "a process: {text}");
}

#[test]
fn calls_in_progress_are_shown_as_begun_before() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let process = reader(folder.path());
    let pid = process.id().to_string();
    let traced = |options: &[&str]| {
        let mut command = tare();
        command.args(["trace", "-p", &pid, "--timeout", "500"]).args(options);
        command.output().unwrap()
    };
    let text = stderr(&traced(&[]));
    assert!(text.starts_with("read(0,") && text.contains("<begun before the trace>"), "{text}");
    let sums = String::from_utf8(traced(&["-s"]).stdout).unwrap();
    let wanted = format!("still in progress: read of thread {pid}, begun before the trace\n");
    assert!(sums.contains(&wanted), "{sums}");
    let json = String::from_utf8(traced(&["--json"]).stdout).unwrap();
    let call: Value = serde_json::from_str(&json).unwrap();
    assert!(call["call"] == "read" && call["begun_before"] == true, "{json}");
    assert!(call["result"].is_null() && call["duration_ns"].is_null(), "{json}");
}

#[test]
fn a_call_in_progress_is_shown_with_its_result() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut process = reader(folder.path());
    let out = folder.path().join("out");
    let mut command = tare();
    command.args(["trace", "-T", "-p", &process.id().to_string(), "-o"]).arg(&out);
    let mut tracer = ProcessGuard::spawn(&mut command);
    let text = || std::fs::read_to_string(&out).unwrap_or_default();
    wait_until("the call is shown", || text().starts_with("read(0,"));
    let mut fifo = OpenOptions::new().write(true).open(folder.path().join("fifo")).unwrap();
    fifo.write_all(b"hello\n").unwrap();
    wait_until("the result is shown", || text().contains("write(1, \"hello\\n\", 6)"));
    process.end();
    tracer.wait_for_exit();
    let text = text();
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("read(0, \"hello\\n\", "), "{text}");
    assert!(first.ends_with(" = 6 <begun before the trace>"), "{text}");
    assert_eq!(text.matches("begun before").count(), 1, "{text}");
}

#[test]
fn lists_of_processes_add_up() {
    if !can_trace() {
        return;
    }
    let sleeper = || ProcessGuard::spawn(Command::new("sleep").arg("1000"));
    let processes = [sleeper(), sleeper()];
    let [first, second] = processes.each_ref().map(|process| process.id().to_string());
    let is_sleeping = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/syscall"))
            .is_ok_and(|text| !text.starts_with("running"))
    };
    wait_until("both sleep", || is_sleeping(&first) && is_sleeping(&second));
    let both = format!("{first} {second}");
    for words in [&["-p", &first, "-p", &second][..], &["-p", &both]] {
        let mut command = tare();
        command.args(["trace", "--timeout", "300"]).args(words);
        let text = stderr(&command.output().unwrap());
        for pid in [&first, &second] {
            assert!(text.contains(&format!("[pid {pid:>5}] ")), "{text}");
        }
    }
    let wrong = tare().args(["lock", "-p", "1 x"]).output().unwrap();
    assert!(stderr(&wrong).contains("'x' is not the id of a process"), "{wrong:?}");
}

#[test]
fn threads_that_are_stuck_have_rows() {
    if !can_trace() {
        return;
    }
    let mut command = Command::new(workload("deadlock"));
    let mut process = ProcessGuard::spawn(command.stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(process.take_stdout()).read_line(&mut line).unwrap();
    let pid = process.id().to_string();
    let is_stuck = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.flatten().all(|task| {
            std::fs::read_to_string(task.path().join("stat"))
                .is_ok_and(|text| text.contains(") S "))
        })
    };
    wait_until("all threads wait", is_stuck);
    let mut command = tare();
    command.args(["lock", "--json", "-p", &pid, "--timeout", "300"]);
    let found = document(&command.output().unwrap());
    let waits = found["still_waiting"].as_array().unwrap();
    for caller in ["take_first", "take_second"] {
        let wait = waits.iter().find(|wait| wait["caller"] == caller);
        let wait = wait.unwrap_or_else(|| panic!("{found}"));
        assert!(wait["begun_before"] == true && wait["type"] == "futex", "{found}");
        assert!(wait["waited_ns"].as_u64().unwrap() > 0, "{found}");
    }
    let output = tare().args(["lock", "-p", &pid, "--timeout", "300"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("begun before the trace: futex take_first"), "{text}");
    assert!(!text.contains("no task waited"), "{text}");
}
