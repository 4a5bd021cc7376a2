//! `tare lock`: waits for locks, compared with the times that the waiting programs measure.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ProcessGuard, document, is_root, status, stderr, tare, wait_until, workload};
use crate::symbols::compile;
use crate::trace::can_trace;

fn lock(args: &[&str]) -> Output {
    tare().arg("lock").args(args).output().unwrap()
}

/// Runs a program that waits for a lock. Fails if tare's time differs by more than 3% from the
/// program's own, or has another caller. On a loaded machine the program may lose its CPU between
/// the lock and its clock.
fn compare_with_own_time(kind: &str, caller: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locks.json");
    let program = workload("contended");
    let words = ["--json", "-o", file.to_str().unwrap(), "--", program.to_str().unwrap()];
    let output = lock(&[&words[..], &[kind, "5", "20"]].concat());
    assert_eq!(status(&output), 0, "{output:?}");
    let waited: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(document["missing_waits"], 0, "{document}");
    let rows = document["locks"].as_array().unwrap();
    let is_it = |row: &&Value| {
        let name = row["caller"].as_str().unwrap();
        name.contains(caller) && (row["type"] == "futex") == (kind == "futex")
    };
    let row = rows.iter().find(is_it).ok_or_else(|| format!("no {caller}: {document}"))?;
    let ratio = row["total_ns"].as_f64().unwrap() / waited;
    let is_near = (0.97..=1.03).contains(&ratio);
    if is_near { Ok(()) } else { Err(format!("{ratio} of {waited}: {row}")) }
}

#[test]
fn measures_the_waits_that_the_program_measures() {
    if !can_trace() {
        return;
    }
    for (kind, caller) in [("futex", "take_mutex"), ("kernel", "fdget_pos")] {
        let mut last = String::new();
        let is_near =
            (0..10).any(|_| compare_with_own_time(kind, caller).map_err(|why| last = why).is_ok());
        assert!(is_near, "{kind}: {last}");
    }
}

#[test]
fn call_chains_reach_main_without_frame_pointers() {
    if !can_trace() {
        return;
    }
    let program = workload("contended");
    let output =
        lock(&["--futexes", "--stacks", "--", program.to_str().unwrap(), "futex", "3", "20"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(status(&output), 0, "{output:?}");
    let at = text.find("take_mutex").unwrap_or_else(|| panic!("{text}"));
    assert!(text[at..].contains("> main\n"), "{text}");
    assert!(!text.contains("mutex  "), "a lock of the kernel: {text}");
}

#[test]
fn traces_running_processes_until_a_timeout() {
    if !can_trace() {
        return;
    }
    let program =
        ProcessGuard::spawn(Command::new(workload("contended")).args(["futex", "2000", "10"]));
    let pid = program.id().to_string();
    let found = document(&lock(&["--json", "-p", &pid, "--timeout", "1500"]));
    let rows = found["locks"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["caller"] == "take_mutex"), "{found}");
}

#[test]
fn reads_callers_and_waits_of_a_recording() {
    if !is_root() || !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let path = file.to_str().unwrap();
    let mut record = tare();
    record.args(["record", "-q", "-g", "-o", path]);
    record.args(["-e", "lock:contention_begin,lock:contention_end", "--"]);
    let output = record.arg(workload("contended")).args(["kernel", "10", "40"]).output().unwrap();
    if stderr(&output).contains("lock:contention_begin") {
        return println!("skipped: {}", stderr(&output));
    }
    assert_eq!(status(&output), 0, "{output:?}");
    let document = document(&lock(&["--json", "-i", path]));
    let rows = document["locks"].as_array().unwrap();
    let is_it = |row: &&Value| row["caller"].as_str().unwrap().contains("fdget_pos");
    let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{document}"));
    // The number of collisions depends on the machine.
    assert!(row["contended"].as_u64().unwrap() > 0 && row["type"] == "mutex", "{row}");
    let text = lock(&["-i", path, "--stacks", "-E", "3"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("contended") && text.contains(" > "), "{text}");
    compare_with_perf(path, rows);
}

/// Compares the number of waits for mutexes with the events that perf prints: a wait lasts from a
/// thread's first begin to its end. The sums of `perf lock` don't serve: perf 6.1 ignores an end
/// with other callers than its begin, and so merges two waits.
fn compare_with_perf(path: &str, rows: &[Value]) {
    let perf =
        Command::new("perf").args(["script", "-i", path, "-G", "-F", "tid,event,trace"]).output();
    let Some(perf) = perf.ok().filter(|perf| perf.status.success()) else {
        return println!("skipped: perf script doesn't read it");
    };
    let mut waiting = HashMap::new();
    let mut theirs = 0;
    let text = String::from_utf8_lossy(&perf.stdout);
    for line in text.lines() {
        // `29216 lock:contention_begin: 0xffff888102fcd898 (flags=MUTEX)`
        let mut words = line.split_whitespace();
        let [Some(tid), Some(event), Some(lock)] = [(); 3].map(|()| words.next()) else { continue };
        match event {
            "lock:contention_begin:" => {
                waiting
                    .entry((tid, lock))
                    .or_insert_with(|| words.any(|word| word.contains("MUTEX")));
            }
            _ => theirs += u64::from(waiting.remove(&(tid, lock)) == Some(true)),
        }
    }
    let ours = rows.iter().filter(|row| row["type"] == "mutex");
    let ours: u64 = ours.map(|row| row["contended"].as_u64().unwrap()).sum();
    assert_eq!(ours, theirs, "{text}\n{rows:?}");
}

#[test]
fn refuses_recordings_without_locks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data").display().to_string();
    let record = tare().args(["record", "-q", "-e", "cpu-clock", "-o", &file, "true"]).output();
    assert_eq!(status(&record.unwrap()), 0);
    let output = lock(&["-i", &file]);
    let said = stderr(&output);
    assert_eq!(status(&output), 1, "{said}");
    assert!(said.contains("lacks lock:contention_begin") && said.lines().count() == 1, "{said}");
}

#[test]
fn refuses_invalid_options() {
    for (args, says) in [
        (&[][..], "-p PID"),
        (&["-i", "perf.data", "-a"], "--all-cpus"),
        (&["--kernel", "--futexes", "true"], "--futexes"),
        (&["-p", "999999999"], "999999999"),
    ] {
        let output = lock(args);
        let said = stderr(&output);
        assert_eq!(status(&output), 2, "{args:?}: {said}");
        assert!(said.starts_with("tare: ") && said.contains(says), "{args:?}: {said}");
    }
}

/// One thread reads a file into memory that never comes, and so holds the lock of the descriptor's
/// position, for which another one waits.
const HOLDER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static int file;
static char *page;
static void *hold(void *none) { return read(file, page, 4096) < 0 ? page : none; }
static void *wait_for_it(void *none) { return lseek(file, 0, SEEK_SET) < 0 ? page : none; }
int main(int argc, char **argv) {
    pthread_t threads[2];
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register whole = {{(unsigned long)page, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &whole))
        return 2;
    file = open(argv[0], O_RDONLY);
    pthread_create(&threads[0], 0, hold, 0);
    usleep(100000);
    pthread_create(&threads[1], 0, wait_for_it, 0);
    getchar();
    struct uffdio_zeropage zeros = {{(unsigned long)page, 4096}, 0, 0};
    ioctl(faults, UFFDIO_ZEROPAGE, &zeros);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    getchar();
}
"#;

/// Returns the thread of a process that is in this kernel function.
fn thread_in(pid: &str, function: &str) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let is_in = |thread: &std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("wchan"))
            .is_ok_and(|wchan| wchan.contains(function))
    };
    threads.flatten().find(is_in)?.file_name().to_str()?.parse().ok()
}

#[test]
fn waits_for_kernel_locks_that_began_before_the_trace_are_shown_and_counted() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), HOLDER, "holder", &["-pthread"]) else { return };
    let mut command = Command::new(program);
    let mut process = ProcessGuard::spawn(command.stdin(Stdio::piped()));
    let pid = process.id().to_string();
    let waiter = (0..50).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        thread_in(&pid, "fdget_pos")
    });
    let Some(waiter) = waiter else {
        return println!("skipped: no userfaultfd(2), or another lock: {:?}", process.try_wait());
    };
    for words in [&["-p", &pid][..], &["-a"], &["--kernel", "-p", &pid]] {
        let mut lock = tare();
        lock.args(["lock", "--json", "--timeout", "200"]).args(words);
        let found = document(&lock.output().unwrap());
        let waits = found["still_waiting"].as_array().unwrap();
        let wait = waits.iter().find(|wait| wait["tid"] == waiter && wait["type"] == "mutex");
        let wait = wait.unwrap_or_else(|| panic!("{words:?}: {found}"));
        let caller = wait["caller"].as_str().unwrap();
        assert!(wait["begun_before"] == true && caller.contains("fdget_pos"), "{wait}");
        assert!(wait["waited_ns"].as_u64() >= Some(200_000_000), "{wait}");
    }
    // The wait ends during the trace.
    let file = folder.path().join("out.json");
    let mut lock = tare();
    lock.args(["lock", "--kernel", "--json", "--timeout", "10000", "-p", &pid, "-o"]).arg(&file);
    let mut lock = ProcessGuard::spawn(&mut lock);
    let proc = PathBuf::from(format!("/proc/{}", lock.id()));
    wait_until("tare waits with its programs attached", || {
        let files = std::fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        let has_links = links.filter(|link| link.ends_with("anon_inode:bpf_link")).count() > 0;
        let wchan = std::fs::read_to_string(proc.join("wchan")).unwrap_or_default();
        has_links && wchan.contains("poll")
    });
    process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_until("the wait has ended", || thread_in(&pid, "fdget_pos").is_none());
    kill_process(Pid::from_child(&lock), Signal::INT).unwrap();
    lock.wait_for_exit();
    let found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let rows = found["locks"].as_array().unwrap();
    let is_it = |row: &Value| {
        row["caller"].as_str().unwrap().contains("fdget_pos") && row["type"] == "mutex"
    };
    assert!(found["begun_before"] == 1 && rows.iter().any(is_it), "{found}");
    assert_eq!(found["still_waiting"].as_array().unwrap().len(), 0, "{found}");
}
