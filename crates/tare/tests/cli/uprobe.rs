//! Uprobes: counting and recording leave no probe behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{is_root, stat, stderr, tare};
use crate::symbols::compile;

/// A program that calls `tick` a hundred times and `ticks` once; `None` without a C compiler.
fn program(folder: &Path) -> Option<PathBuf> {
    let source = "static volatile int sum;\n\
                  __attribute__((noinline)) void tick(int n) { sum += n; }\n\
                  __attribute__((noinline)) void ticks(void) { for (int i = 0; i < 100; i++) tick(i); sum++; }\n\
                  int main(void) { ticks(); return sum != 4951; }\n";
    let path = folder.join("prog");
    let file = folder.join("prog.c");
    std::fs::write(&file, source).unwrap();
    match Command::new("cc").arg("-O1").arg("-o").arg(&path).arg(file).status() {
        Ok(built) => built.success().then_some(path),
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            None
        }
    }
}

/// The probes defined in tracefs.
fn probes() -> String {
    std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default()
}

fn can_probe() -> bool {
    let there = Path::new("/sys/bus/event_source/devices/uprobe").exists();
    if !there {
        println!("skipped: this kernel has no uprobes by perf events");
    }
    is_root() && there
}

#[test]
fn calls_and_returns_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = can_probe().then(|| program(folder.path())).flatten() else { return };
    let path = program.to_str().unwrap();
    let before = probes();
    let events = format!(
        "uprobe:{path}:tick,uretprobe:{path}:tick:u,uprobe:{path}:ticks/name=once/,{{uprobe:{path}:main}}"
    );
    let output = stat(&["-x,", "-e", &events, path]);
    let text = stderr(&output);
    let counts: Vec<&str> = text.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(counts, ["100", "100", "1", "1"], "{text}");
    assert_eq!(probes(), before);
}

/// The kernel can't pass a probe on to a new thread. `record` follows by cgroup, which has all
/// calls; `stat` says what it leaves out.
#[test]
fn calls_of_new_threads_are_recorded_or_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <pthread.h>\n\
                  static volatile int sum;\n\
                  __attribute__((noinline)) void *tick(void *n) { sum++; return n; }\n\
                  int main(void) { pthread_t t; tick(0); pthread_create(&t, 0, tick, 0);\
                  return pthread_join(t, 0); }\n";
    let Some(path) =
        can_probe().then(|| compile(folder.path(), source, "threads", &["-pthread"])).flatten()
    else {
        return;
    };
    let path = path.to_str().unwrap();
    let event = format!("uprobe:{path}:tick");
    let counted = stderr(&stat(&["-e", &event, "--", path]));
    assert!(counted.contains("no calls of threads that start later"), "{counted}");
    let counted = stderr(&stat(&["-x,", "-e", &event, "--follow=cgroup", "--", path]));
    if counted.contains("tare:") {
        return println!("skipped: no cgroup can be created: {counted}");
    }
    assert!(counted.starts_with("2,,"), "{counted}");
    let file = folder.path().join("perf.data");
    let mut record = tare();
    record.args(["record", "-c", "1", "-e", &event, "-o"]).arg(&file).args(["--", path]);
    let said = stderr(&record.output().unwrap());
    assert!(said.contains("tare: 2 samples") && !said.contains("start later"), "{said}");
    let mut record = tare();
    record.args(["record", "--follow=inherit", "-c", "1", "-e", &event, "-o"]).arg(&file);
    let said = stderr(&record.args(["--", path]).output().unwrap());
    assert!(said.contains("no calls of threads that start later"), "{said}");
}

/// The kernel can't inherit a uprobe event: forks would fail.
#[test]
fn a_command_with_probes_can_fork() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = can_probe().then(|| program(folder.path())).flatten() else { return };
    let path = program.to_str().unwrap();
    let output =
        stat(&["-e", &format!("uprobe:{path}:tick"), "sh", "-c", &format!("{path} && {path}")]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn calls_are_recorded_with_the_function() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = can_probe().then(|| program(folder.path())).flatten() else { return };
    let path = program.to_str().unwrap();
    let file = folder.path().join("perf.data");
    let event = format!("uprobe:{path}:tick");
    let output =
        tare().args(["record", "-q", "-e", &event, "-o"]).arg(&file).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let Ok(script) =
        Command::new("perf").args(["script", "-F", "comm,ip,sym", "-i"]).arg(&file).output()
    else {
        return println!("skipped: there is no perf to read the recording");
    };
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    let calls = script
        .lines()
        .filter(|line| line.trim_start().starts_with("prog") && line.ends_with(" tick"))
        .count();
    assert_eq!(calls, 100, "{script}");
}

/// A probe made by perf, removed on drop.
struct PerfProbe(String);

impl PerfProbe {
    /// If perf can't make it, prints the reason and returns `None`.
    fn new(program: &str) -> Option<Self> {
        let group = format!("tare_test_{}", std::process::id());
        let made = Command::new("perf")
            .args(["probe", "-q", "-x", program, "--add", &format!("{group}:tick=tick")])
            .stdin(Stdio::null())
            .output();
        match made {
            Ok(done) if done.status.success() => Some(Self(group)),
            other => {
                println!("skipped: perf probe: {other:?}");
                None
            }
        }
    }
}

impl Drop for PerfProbe {
    fn drop(&mut self) {
        let _ = Command::new("perf")
            .args(["probe", "-q", "-d", &format!("{}:*", self.0)])
            .stdin(Stdio::null())
            .output();
    }
}

#[test]
fn probes_of_perf_are_printed_as_by_perf() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = can_probe().then(|| program(folder.path())).flatten() else { return };
    let path = program.to_str().unwrap();
    let file = folder.path().join("perf.data");
    let before = probes();
    let Some(probe) = PerfProbe::new(path) else { return };
    let options = ["-g", "-e", &format!("{}:tick", probe.0)];
    let mut perf = Command::new("perf");
    let recorded = perf
        .args(["record", "--no-bpf-event", "-q", "-o"])
        .arg(&file)
        .args(options)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    drop(probe);
    assert_eq!(probes(), before);
    crate::script::same_file(&file, &options, &[]);
}

#[test]
fn a_wrong_place_is_named() {
    if !can_probe() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let path = program.to_str().unwrap();
    for (event, says) in [
        (format!("uprobe:{path}:tik"), "lists its functions); nearest: tick"),
        (format!("uprobe:{path}:tick+x"), "expected a number after +"),
        (format!("uprobe:{path}:99999999"), "the file has"),
        (format!("uprobe:{path}:tick+0x7fffffff"), "this address isn't in the file"),
        ("uprobe:/nowhere/prog:main".to_owned(), "No such file"),
        ("uprobe:/:main".to_owned(), "not a program"),
        (format!("uprobe:{path}.c:main"), "not an ELF file"),
        (format!("uprobe:{path}"), "uprobe:FILE:SYMBOL"),
        (format!("uprobe:{path}:tick:u:k"), "uprobe:FILE:SYMBOL"),
    ] {
        let output = stat(&["-e", &event, "true"]);
        assert!(
            stderr(&output).contains(says) && output.status.code() == Some(2),
            "{event}: {}",
            stderr(&output)
        );
    }
}
