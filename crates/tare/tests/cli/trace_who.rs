//! Which users may trace, and the fallback to perf events if BPF programs can't be loaded.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{
    ProcessGuard, Unprivileged, document, sh, status, stderr, wait_until, workload,
};
use crate::trace::can_trace;

const TARE: &str = env!("CARGO_BIN_EXE_tare");

/// Runs `tare trace` as on a kernel without BTF, where BPF programs can't be loaded.
pub(crate) fn without_btf(words: &str) -> Output {
    tare_without_btf(&format!("trace {words}"))
}

/// Runs a command of tare as on a kernel without BTF.
fn tare_without_btf(words: &str) -> Output {
    sh(&format!(
        "LC_ALL=C exec unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && exec {TARE} {words}'"
    ))
}

/// Whether perf events on system calls can be opened here; if not, prints why the test is skipped.
fn can_step_back() -> bool {
    let output = without_btf("-s true");
    let can = status(&output) == 0 && stderr(&output).contains("no BTF");
    if !can {
        println!("skipped: {}", stderr(&output));
    }
    can
}

/// Returns a `setpriv` command that leaves an unprivileged user only these capabilities.
fn capabilities(names: &str) -> String {
    format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all{names} --ambient-caps=-all{names}"
    )
}

fn calls(document: &Value, call: &str) -> u64 {
    let rows = document["calls"].as_array().unwrap().iter().filter(|row| row["call"] == call);
    rows.map(|row| row["calls"].as_u64().unwrap()).sum()
}

/// Asserts that a message says that ptrace(2) is used, in the first line alone.
fn says_ptrace(text: &str) {
    let own = text.lines().filter(|line| line.starts_with("tare:"));
    let own: Vec<_> = own.collect();
    assert_eq!(own.len(), 1, "{text}");
    assert!(own[0].contains("by ptrace instead"), "{text}");
    assert!(own[0].contains("CAP_BPF with CAP_PERFMON"), "{text}");
}

#[test]
fn a_user_traces_programs_by_ptrace() {
    let Some(nobody) = Unprivileged::new() else { return };
    let refused = nobody.tare("trace", &["-a", "true"]);
    assert_eq!((status(&refused), stderr(&refused).lines().count()), (125, 1), "{refused:?}");
    assert!(stderr(&refused).contains("CAP_BPF and CAP_PERFMON"), "{refused:?}");
    let lines = nobody.tare("trace", &["-T", "sh", "-c", "cat /no/such/file & wait $!"]);
    let text = stderr(&lines);
    assert_eq!(status(&lines), 1, "{text}");
    says_ptrace(&text);
    assert!(text.contains("\nexecve(\"/"), "{text}");
    assert!(text.contains("\"/no/such/file\", O_RDONLY) = -1 ENOENT (No such file"), "{text}");
    assert!(text.contains("--- SIGCHLD {si_signo=SIGCHLD, "), "{text}");
    assert!(text.contains("[pid ") && text.ends_with("+++ exited with 1 +++\n"), "{text}");
    assert_eq!(text.matches("+++ exited with 1 +++").count(), 2, "{text}");
    let workload = workload("calls");
    let copy = nobody.path().with_file_name("calls");
    std::fs::copy(workload, &copy).unwrap();
    let program = copy.to_str().unwrap();
    let sums = nobody.tare("trace", &["-s", "--json", program, "3", "2", "100"]);
    says_ptrace(&stderr(&sums));
    let sums = document(&sums);
    assert_eq!((calls(&sums, "getppid"), calls(&sums, "execve")), (500, 1), "{sums}");
}

#[test]
fn ptrace_leaves_exit_statuses_signals_and_time_limits_alone() {
    let Some(nobody) = Unprivileged::new() else { return };
    for (line, wanted) in [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let output = nobody.tare("trace", &["-e", "none", "sh", "-c", line]);
        assert_eq!(status(&output), wanted, "{line}: {output:?}");
    }
    let stopped = nobody.tare("trace", &["--timeout", "300", "-e", "none", "sleep", "1000"]);
    assert!(stderr(&stopped).contains("by ptrace instead"), "{stopped:?}");
    let missing = nobody.tare("trace", &["/no/such/program"]);
    assert_eq!(status(&missing), 127, "{missing:?}");
}

#[test]
fn root_of_a_container_traces_by_ptrace() {
    let output = sh(&format!("unshare -Ur {TARE} trace -s true"));
    if stderr(&output).starts_with("unshare:") {
        return println!("skipped: {}", stderr(&output));
    }
    let text = stderr(&output);
    assert_eq!(status(&output), 0, "{text}");
    says_ptrace(&text);
}

#[test]
fn two_capabilities_are_enough() {
    if !can_trace() {
        return;
    }
    let Some(nobody) = Unprivileged::new() else { return };
    let tare = nobody.path().display().to_string();
    let output = sh(&format!("{} {tare} trace -s true", capabilities(",+bpf,+perfmon")));
    let text = stderr(&output);
    assert_eq!(status(&output), 0, "{text}");
    assert!(text.contains(" execve") && !text.contains("tare:"), "{text}");
}

#[test]
fn with_perfmon_and_a_readable_tracefs_perf_events_show_calls() {
    let Some(nobody) = Unprivileged::new() else { return };
    if !can_step_back() {
        return;
    }
    let tare = nobody.path().display().to_string();
    // CAP_DAC_READ_SEARCH stands for a tracefs that a group may read.
    let as_user = capabilities(",+perfmon,+dac_read_search");
    let output = sh(&format!("{as_user} {tare} trace -e openat,exit_group cat /no/such"));
    let text = stderr(&output);
    let ours: Vec<_> = text.lines().filter(|line| line.starts_with("tare:")).collect();
    assert_eq!((status(&output), ours.len()), (1, 1), "{text}");
    assert!(ours[0].contains("perf events") && ours[0].contains("pointers as addresses"), "{text}");
    assert!(text.contains("openat(AT_FDCWD, 0x"), "{text}");
    assert!(text.contains(", O_RDONLY) = -1 ENOENT (No such file or directory)"), "{text}");
    assert!(text.contains("exit_group(1) ") && text.ends_with("+++ exited with 1 +++\n"), "{text}");
    assert!(!text.contains("read(") && !text.contains("execve("), "{text}");
    let sums = sh(&format!("{as_user} {tare} trace -s --json sh -c :"));
    assert_eq!(calls(&document(&sums), "execve"), 1, "{sums:?}");
}

#[test]
fn perf_events_count_calls_exactly() {
    if !can_step_back() {
        return;
    }
    let workload = workload("calls");
    let program = workload.display();
    for (threads, children, each, by) in
        [(4, 0, 3000, ""), (0, 50, 100, "--per-thread"), (2, 20, 100, "--per-cgroup")]
    {
        let words = format!("-s --json {by} {program} {threads} {children} {each}");
        let output = without_btf(&words);
        assert_eq!(status(&output), 0, "{words}: {output:?}");
        let document = document(&output);
        assert_eq!(document["missing_calls"], 0, "{document}");
        assert_eq!(calls(&document, "getppid"), (threads + children) * each, "{words}");
        assert_eq!(calls(&document, "execve"), 1, "{words}");
        if by == "--per-thread" {
            let rows = document["calls"].as_array().unwrap().iter();
            let rows: Vec<_> = rows.filter(|row| row["call"] == "getppid").collect();
            assert_eq!(rows.len(), 50);
            assert!(rows.iter().all(|row| row["comm"] == "calls"), "{rows:?}");
        }
    }
}

#[test]
fn perf_events_show_calls_that_a_seccomp_filter_answers() {
    if !can_step_back() || cfg!(target_arch = "aarch64") {
        return;
    }
    let folder = workload("refuse");
    let folder = folder.parent().unwrap().display();
    let number = sh("printf '#include <sys/syscall.h>\\nSYS_getppid\\n' | cc -E -P - | tail -1");
    let number = String::from_utf8(number.stdout).unwrap();
    let command = format!("{folder}/refuse {} 1 {folder}/calls 0 1 5", number.trim());
    let text = stderr(&without_btf(&format!("-e getppid {command}")));
    assert_eq!(text.matches("getppid()").count(), 5, "{text}");
    assert!(text.contains("= -1 EPERM (Operation not permitted)"), "{text}");
    let sums = document(&without_btf(&format!("-s --json {command}")));
    assert_eq!(calls(&sums, "getppid"), 5);
}

#[test]
fn perf_events_show_ends_and_signals() {
    if !can_step_back() {
        return;
    }
    let output = without_btf("--json sh -c \"sh -c :; kill -USR1 \\$\\$\"");
    assert_eq!(status(&output), 128 + 10, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str, value: &str| objects.iter().filter(|o| o[key] == value).count();
    assert_eq!((of("call", "execve"), of("signal", "SIGCHLD")), (2, 1), "{text}");
    assert_eq!((of("end", "exited with 0"), of("end", "killed by a signal")), (1, 1), "{text}");
}

#[test]
fn perf_events_follow_children_and_exclude_the_tracer() {
    if !can_step_back() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let out = folder.path().join("out");
    let line = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; sh -c 'mkdir /proc/x; mkdir /proc/y' 2>/dev/null",
        go.display()
    );
    let shell = ProcessGuard::spawn(Command::new("sh").args(["-c", &line]));
    let words = format!("-e clone,vfork,mkdir,wait4 -o {} -p {}", out.display(), shell.id());
    let tracer = std::thread::spawn(move || without_btf(&words));
    wait_until("calls are seen", || {
        std::fs::read_to_string(&out).is_ok_and(|text| text.contains("wait4("))
    });
    std::fs::write(&go, "").unwrap();
    let output = tracer.join().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(text.matches(" mkdir(").count(), 2, "{text}");
    let all = without_btf(&format!("-a -e write --timeout 300 -o {}", out.display()));
    assert_eq!(status(&all), 0, "{all:?}");
    let text = std::fs::read_to_string(&out).unwrap();
    // Each line that the tracer writes would cause another one.
    assert!(!text.contains("+++ exited with") || text.lines().count() < 100_000);
}

#[test]
fn perf_events_show_followed_tasks_and_callers_of_locks() {
    if !can_step_back() {
        return;
    }
    let output = tare_without_btf("sched --json -- sh -c \"sleep 0.02; sleep 0.02; exit 3\"");
    assert_eq!(status(&output), 3, "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("by perf events instead") && said.lines().count() == 1, "{said}");
    let sums = document(&output);
    let tasks = sums["tasks"].as_array().unwrap();
    let named = |comm: &str| tasks.iter().filter(|task| task["comm"] == comm).count();
    assert_eq!((named("sleep"), named("sh"), named("tare")), (2, 1, 0), "{sums}");
    let waits = tasks.iter().filter(|task| task["wait"]["count"].as_u64() > Some(0)).count();
    assert_eq!(waits, 3, "{sums}");
    let program = workload("contended");
    let locks = format!("lock --json -- {} kernel 5 20", program.display());
    let output = tare_without_btf(&locks);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("fdget_pos") && stderr(&output).contains("without futexes"),
        "{output:?}"
    );
    let refused = tare_without_btf("lock --futexes true");
    assert!(stderr(&refused).contains("no BTF"), "{refused:?}");
    let Some(nobody) = Unprivileged::new() else { return };
    for command in ["sched", "lock"] {
        let refused = nobody.tare(command, &["true"]);
        assert_eq!(status(&refused), 125, "{refused:?}");
        assert!(stderr(&refused).contains("CAP_BPF and CAP_PERFMON"), "{refused:?}");
    }
}
