//! `tare record --off-cpu`: programs that wait in known ways, for known times.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::blocked::{BlockedTimes, stolen_ns};
use crate::support::{ProcessGuard, document, status, stderr, tare, workload};
use crate::symbols::compile;

/// Records and returns the recorder's output. If BPF programs can't be loaded, prints that and
/// returns `None`.
fn record(file: &Path, options: &[&str], command: &[&str]) -> Option<Output> {
    let mut tare = tare();
    tare.args(["record", "--off-cpu", "-o"]).arg(file).args(options).arg("--").args(command);
    let output = tare.output().unwrap();
    if stderr(&output).contains("BPF programs are not allowed") {
        println!("skipped: {}", stderr(&output));
        return None;
    }
    Some(output)
}

fn report(file: &Path) -> Value {
    let output =
        tare().args(["report", "--json", "--no-children", "-i"]).arg(file).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    document(&output)
}

fn event<'a>(document: &'a Value, name: &str) -> &'a Value {
    let mut events = document["events"].as_array().unwrap().iter();
    events.find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

/// Nanoseconds of a program's waits for a reason, which is the innermost frame.
fn waited(document: &Value, comm: &str, reason: &str) -> u64 {
    let entries = event(document, "offcpu-time")["entries"].as_array().unwrap().iter();
    let symbol = format!("off-CPU ({reason})");
    entries
        .filter(|entry| entry["comm"] == comm && entry["symbol"] == symbol.as_str())
        .map(|entry| entry["own"]["period"].as_u64().unwrap())
        .sum()
}

/// Nanoseconds of the waits for a reason in a function.
fn waited_in(document: &Value, reason: &str, function: &str) -> u64 {
    let entries = event(document, "offcpu-time")["entries"].as_array().unwrap().iter();
    let symbol = format!("off-CPU ({reason})");
    entries
        .filter(|entry| entry["symbol"] == symbol.as_str())
        // A wait whose stack was lost has only the reason.
        .flat_map(|entry| entry["graph"].as_array().into_iter().flatten())
        .filter(|node| node["symbol"] == function)
        .map(|node| node["total"]["period"].as_u64().unwrap())
        .sum()
}

/// Compares the times of one recording with those that the workload measured of 40 waits, and lists
/// the differences. Other work on the machine lengthens the waits that a program sees, by a
/// different time in each try.
fn wrong_times(
    document: &Value,
    what: &str,
    reason: &str,
    times: BlockedTimes,
    stolen: u64,
) -> Vec<String> {
    let slack = times.tolerance(40);
    let mut wrong = Vec::new();
    if what == "queue" {
        // The two threads wait for each other; the workload prints the waits of the first.
        let found = waited(document, "blocked", reason);
        if found + slack < times.waited {
            wrong.push(format!("queue: {found} of {times:?}"));
        }
    } else {
        let function = format!("wait_for_{what}");
        let found = waited_in(document, reason, &function);
        let queued = waited_in(document, "run queue", &function);
        let least = times.least_off_cpu(40, stolen);
        if found > times.waited + slack || found + queued < least {
            wrong.push(format!(
                "{what}: {found} and {queued} queued, at least {least} of {times:?}"
            ));
        }
    }
    // Each thread is always either on a CPU, by the kernel's account, or off it.
    let off: u64 = event(document, "offcpu-time")["period"].as_u64().unwrap();
    let command = &document["ledger"]["command"];
    let on = command["user_ns"].as_u64().unwrap() + command["system_ns"].as_u64().unwrap();
    if off + on + stolen + times.lived / 50 < times.lived {
        wrong.push(format!("{what}: {off} off and {on} on a CPU of {times:?}"));
    }
    // The workload has no frame pointers.
    let all = &document["loss"]["off_cpu_ns"];
    let whole = &document["loss"]["off_cpu_whole_ns"];
    let all = all.as_u64().unwrap();
    let whole = whole.as_u64().unwrap();
    if whole * 10 < all * 9 {
        wrong.push(format!("{what}: {whole} of {all} reaches main"));
    }
    wrong
}

#[test]
fn reasons_have_the_times_that_programs_waited() {
    let blocked = workload("blocked");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    for (what, reason) in [
        ("sleep", "sleep"),
        ("pipe", "pipe"),
        ("mutex", "futex"),
        ("futex", "futex"),
        ("queue", "run queue"),
    ] {
        let command = [blocked.to_str().unwrap(), what, "5", "40"];
        let mut tries = Vec::new();
        for _ in 0..5 {
            let stolen_before = stolen_ns();
            let Some(output) = record(&file, &[], &command) else { return };
            assert_eq!(status(&output), 0, "{output:?}");
            let document = report(&file);
            let waits = &document["ledger"]["off_cpu"];
            assert_eq!(waits["missing_waits"], 0);
            assert_eq!(waits["ns"], event(&document, "offcpu-time")["period"]);
            let times = BlockedTimes::parse(&output);
            let stolen = stolen_ns() - stolen_before;
            let wrong = wrong_times(&document, what, reason, times, stolen);
            if wrong.is_empty() {
                tries.clear();
                break;
            }
            tries.push(wrong);
        }
        assert!(tries.is_empty(), "{tries:#?}");
    }
}

#[test]
fn call_chains_lead_to_main_and_who_woke_stands_below() {
    let blocked = workload("blocked");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let command = [blocked.to_str().unwrap(), "pipe", "5", "20"];
    let Some(output) = record(&file, &["--wakers"], &command) else { return };
    assert_eq!(status(&output), 0, "{output:?}");
    let script =
        tare().args(["script", "-F", "comm,event,ip,sym", "-i"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let chains: Vec<Vec<&str>> = text
        .split("\n\n")
        .map(|sample| sample.lines().filter_map(|line| line.split_whitespace().nth(1)).collect())
        .collect();
    let place = |chain: &[&str], symbol: &str| chain.iter().position(|frame| *frame == symbol);
    let is_pipe = |chain: &&Vec<&str>| chain.contains(&"wait_for_pipe") && chain.contains(&"main");
    let found = chains.iter().filter(is_pipe).any(|chain| {
        let waker = chain.iter().position(|frame| *frame == "woken");
        place(chain, "main") < waker && waker < place(chain, "helper")
    });
    assert!(found, "{text}");
    // A timer's interrupt ends a sleep. Equal waits are one sample, so times are compared.
    let command = [blocked.to_str().unwrap(), "sleep", "5", "20"];
    let Some(output) = record(&file, &["--wakers"], &command) else { return };
    assert_eq!(status(&output), 0, "{output:?}");
    let script = tare().args(["script", "-F", "period,ip,sym", "-i"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout);
    let sleeps = text.split("\n\n").filter(|chain| chain.contains("off-CPU (sleep)"));
    let sleeps: Vec<(u64, bool)> = sleeps
        .filter(|chain| chain.contains("wait_for_sleep"))
        .map(|chain| (period(chain), chain.contains("woken by an interrupt")))
        .collect();
    let slept: u64 = sleeps.iter().map(|(ns, _)| ns).sum();
    let interrupts: u64 = sleeps.iter().filter(|(_, woken)| *woken).map(|(ns, _)| ns).sum();
    assert!(slept >= 75_000_000 && interrupts >= slept / 2, "{sleeps:?} {text}");
}

/// The period in front of a printed call chain.
fn period(chain: &str) -> u64 {
    chain.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn single_long_waits_have_their_times_and_short_ones_are_counted() {
    let blocked = workload("blocked");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let command = [blocked.to_str().unwrap(), "sleep", "20", "5"];
    let options = ["--off-cpu-thresh", "10ms", "--off-cpu-min", "5ms", "--no-call-graph"];
    let Some(output) = record(&file, &options, &command) else { return };
    assert_eq!(status(&output), 0, "{output:?}");
    let document = report(&file);
    let entries = event(&document, "offcpu-time")["entries"].as_array().unwrap();
    let sleeps = entries.iter().find(|entry| entry["symbol"] == "off-CPU (sleep)").unwrap();
    assert_eq!(sleeps["own"]["samples"], 5, "{document}");
    assert!(sleeps["own"]["period"].as_u64().unwrap() >= 100_000_000, "{document}");
    let short = &document["ledger"]["off_cpu"];
    assert!(
        short["short_ns"].as_u64().unwrap() <= short["short_waits"].as_u64().unwrap() * 5_000_000
    );
}

/// A process that waits from before the recording until after its end.
#[test]
fn waits_count_from_the_beginning_to_the_end_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut sleeper = ProcessGuard::spawn(Command::new("sleep").arg("60"));
    let pid = sleeper.id().to_string();
    crate::support::wait_until("sleep sleeps", || {
        let wchan = std::fs::read_to_string(format!("/proc/{pid}/wchan"));
        wchan.is_ok_and(|wchan| wchan.contains("nanosleep"))
    });
    let options = ["-p", &pid, "--timeout", "300"];
    let output =
        tare().args(["record", "--off-cpu", "-o"]).arg(&file).args(options).output().unwrap();
    sleeper.end();
    if stderr(&output).contains("BPF programs are not allowed") {
        return println!("skipped: {}", stderr(&output));
    }
    assert_eq!(status(&output), 0, "{output:?}");
    let document = report(&file);
    let ns = waited(&document, "sleep", "sleep");
    let recorded = document["ledger"]["recorded_ns"].as_u64().unwrap();
    assert!(ns.abs_diff(recorded) < recorded / 10, "{ns} of {recorded}");
}

/// A command that waits for 2 s, of which the first 500 ms aren't recorded.
#[test]
fn waits_before_the_delay_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let begun = Instant::now();
    let Some(output) = record(&file, &["-D", "500"], &["sleep", "2"]) else { return };
    let lived = begun.elapsed();
    assert_eq!(status(&output), 0, "{output:?}");
    let document = report(&file);
    let waits = event(&document, "offcpu-time")["period"].as_u64().unwrap();
    let most = lived - Duration::from_millis(500);
    assert!(waits > 0 && u128::from(waits) <= most.as_nanos(), "{waits} of {most:?}: {document}");
}

/// A process that waits all the time, recorded in two windows.
#[test]
fn only_waits_while_enabled_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    if record(&path("first"), &[], &["true"]).is_none() {
        return;
    }
    let fifos = ["orders", "answers"].map(path);
    assert!(Command::new("mkfifo").args(&fifos).status().unwrap().success());
    let control = format!("fifo:{},{}", fifos[0].display(), fifos[1].display());
    let sleeper = ProcessGuard::spawn(Command::new("sleep").arg("120"));
    let pid = sleeper.id().to_string();
    let mut recorder = tare();
    recorder.args(["record", "--off-cpu", "-q", "-D", "-1", "--control", &control, "-p", &pid]);
    let mut recorder = ProcessGuard::spawn(recorder.arg("-o").arg(path("perf.data")));
    let [mut orders, answers] =
        fifos.map(|fifo| File::options().read(true).write(true).open(fifo).unwrap());
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(answers).lines().map_while(Result::ok);
        lines.all(|line| answer.send(line).is_ok())
    });
    // Returns when the order was given and when it had been carried out.
    let mut order = |order: &str| {
        let given = Instant::now();
        writeln!(orders, "{order}").unwrap();
        let answer = answered.recv_timeout(Duration::from_secs(60));
        assert_eq!(answer.as_deref(), Ok("ack"), "{order}");
        [given, Instant::now()]
    };
    let mut least = Duration::ZERO;
    let mut most = Duration::ZERO;
    for _ in 0..2 {
        let pause = || std::thread::sleep(Duration::from_millis(300));
        pause();
        let enabled = order("enable");
        pause();
        let disabled = order("disable");
        least += disabled[0] - enabled[1];
        most += disabled[1] - enabled[0];
    }
    order("stop");
    recorder.wait_for_exit();
    let document = report(&path("perf.data"));
    let waits = Duration::from_nanos(waited(&document, "sleep", "sleep"));
    assert!(least <= waits && waits <= most, "{least:?} {waits:?} {most:?}: {document}");
}

#[test]
fn wrong_times_are_refused() {
    for arguments in [
        ["--off-cpu", "--off-cpu-min", "soon"].as_slice(),
        &["--off-cpu", "--off-cpu-thresh", "2h"],
        &["--off-cpu-min", "1us"],
        &["--wakers"],
    ] {
        let output = tare().arg("record").args(arguments).args(["--", "true"]).output().unwrap();
        assert_eq!(status(&output), 2, "{output:?}");
    }
}

/// Naps behind 2 KiB of locals: 150 times called by `reads` and 50 times by `writes`; the same from
/// a library; or 512 times, each with other callers.
const NAPS: &str = r#"
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#define FUNCTION __attribute__((noinline)) void
FUNCTION nap(void) {
    volatile char locals[2048];
    struct timespec time = {0, 1000000};
    locals[0] = 1;
    nanosleep(&time, 0);
    locals[1] = locals[0];
}
FUNCTION reads(void) { nap(); __asm__ volatile(""); }
FUNCTION writes(void) { nap(); __asm__ volatile(""); }
FUNCTION left(int depth, int path);
FUNCTION right(int depth, int path);
static void turn(int depth, int path) {
    if (!depth) nap();
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("");
}
FUNCTION left(int depth, int path) { turn(depth, path); __asm__ volatile(""); }
FUNCTION right(int depth, int path) { turn(depth, path); __asm__ volatile(""); }
int main(int count, char **words) {
    if (!strcmp(words[1], "paths")) {
        for (int path = 0; path < 512; path++) left(9, path);
    } else if (!strcmp(words[1], "own")) {
        for (int i = 0; i < 200; i++) (i % 4 ? reads : writes)();
    } else {
        void *library = dlopen(words[1], RTLD_NOW);
        void (*call[2])(void (*)(void)) = {dlsym(library, "writes_by"), dlsym(library, "reads_by")};
        for (int i = 0; i < 200; i++) call[i % 4 != 0](nap);
    }
    return count < 2;
}
"#;

const NAPS_LIBRARY: &str = r#"
void reads_by(void (*call)(void)) { call(); __asm__ volatile(""); }
void writes_by(void (*call)(void)) { call(); __asm__ volatile(""); }
"#;

/// Records the naps of a kind; `None` if that isn't possible here.
fn record_naps(program: &Path, kind: &str, file: &Path) -> Option<()> {
    let output = record(file, &["-e", "dummy"], &[program.to_str().unwrap(), kind])?;
    assert_eq!(status(&output), 0, "{output:?}");
    Some(())
}

#[test]
fn callers_behind_large_frames_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let library_flags = ["-shared", "-fPIC"];
    let Some(library) = compile(folder.path(), NAPS_LIBRARY, "called", &library_flags) else {
        return;
    };
    let Some(program) = compile(folder.path(), NAPS, "naps", &["-ldl"]) else { return };
    let file = folder.path().join("perf.data");
    for (kind, reads, writes) in
        [("own", "reads", "writes"), (library.to_str().unwrap(), "reads_by", "writes_by")]
    {
        let Some(()) = record_naps(&program, kind, &file) else { return };
        let document = report(&file);
        // A sleep of 1 ms can't be shorter; the timer may have begun before the wait does.
        for (function, naps) in [(reads, 150), (writes, 50)] {
            let found = waited_in(&document, "sleep", function);
            assert!(found > naps * 800_000, "{function}: {found} ns: {document:#}");
        }
    }
}

#[test]
fn each_of_many_call_chains_of_waits_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), NAPS, "naps", &["-ldl"]) else { return };
    let file = folder.path().join("perf.data");
    let Some(()) = record_naps(&program, "paths", &file) else { return };
    let script = tare().args(["script", "-F", "ip,sym", "-i"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout);
    let paths: HashSet<Vec<&str>> = text
        .split("\n\n")
        .map(|chain| {
            let names = chain.lines().filter_map(|line| line.split_whitespace().nth(1));
            names.filter(|name| matches!(*name, "left" | "right")).collect()
        })
        // A thread may also wait for a CPU on the way to a nap.
        .filter(|path: &Vec<&str>| path.len() == 10)
        .collect();
    // On a busy machine a nap may be over before its thread waits.
    assert!((480..=512).contains(&paths.len()), "{} {}", paths.len(), stderr(&script));
    let lost = &report(&file)["ledger"]["off_cpu"];
    assert_eq!((&lost["missing_copies"], &lost["missing_stacks"]), (&0.into(), &0.into()));
}

/// Naps of a thread below 45 KiB of frames: 150 times called by `reads` and 50 times by `writes`.
/// With the argument `rest`, the thread naps once, for a minute, and writes a line before.
const DEEP_NAPS: &str = r#"
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline)) void
static int rests;
static void nap(void) {
    struct timespec time = {rests ? 60 : 0, rests ? 0 : 1000000};
    if (rests && write(1, "rests\n", 6) < 0) return;
    nanosleep(&time, 0);
}
FUNCTION descend(int depth) {
    volatile char locals[1000];
    locals[0] = locals[999] = depth;
    if (depth) descend(depth - 1);
    else nap();
    __asm__ volatile("" : : "r"(locals[0]));
}
FUNCTION reads(void) { descend(44); __asm__ volatile(""); }
FUNCTION writes(void) { descend(44); __asm__ volatile(""); }
static void *run(void *unused) {
    if (rests) reads();
    else for (int i = 0; i < 200; i++) (i % 4 ? reads : writes)();
    return unused;
}
int main(int count, char **words) {
    pthread_t thread;
    rests = count > 1;
    (void)words;
    pthread_create(&thread, 0, run, 0);
    pthread_join(thread, 0);
    return 0;
}
"#;

/// Asserts that nearly all waiting time has a chain to the start of its thread.
fn assert_whole(document: &Value) {
    let nanoseconds = |name: &str| document["loss"][name].as_u64().unwrap();
    let whole = nanoseconds("off_cpu_whole_ns");
    assert!(whole * 100 >= nanoseconds("off_cpu_ns") * 95, "{}", document["loss"]);
}

#[test]
fn callers_behind_many_frames_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), DEEP_NAPS, "deep", &["-pthread"]) else { return };
    let file = folder.path().join("perf.data");
    let Some(output) = record(&file, &["-e", "dummy"], &[program.to_str().unwrap()]) else {
        return;
    };
    assert_eq!(status(&output), 0, "{output:?}");
    let document = report(&file);
    for (function, naps) in [("reads", 150), ("writes", 50)] {
        let found = waited_in(&document, "sleep", function);
        assert!(found > naps * 800_000, "{function}: {found} ns: {document:#}");
    }
    assert_whole(&document);
}

#[test]
fn waits_in_progress_at_the_beginning_have_their_callers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), DEEP_NAPS, "deep", &["-pthread"]) else { return };
    let mut resting =
        ProcessGuard::spawn(Command::new(&program).arg("rest").stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(resting.take_stdout()).read_line(&mut line).unwrap();
    let file = folder.path().join("perf.data");
    let process = resting.id().to_string();
    let Some(output) = record(&file, &["-e", "dummy", "-p", &process], &["sleep", "0.5"]) else {
        return;
    };
    assert_eq!(status(&output), 0, "{output:?}");
    let document = report(&file);
    // Both threads wait all the time.
    for (reason, function) in [("sleep", "reads"), ("futex", "main")] {
        let found = waited_in(&document, reason, function);
        assert!(found > 100_000_000, "{function}: {found} ns: {document:#}");
    }
    assert_whole(&document);
}
