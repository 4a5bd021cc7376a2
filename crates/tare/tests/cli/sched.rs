//! `tare sched`: which tasks ran and which waited for a CPU, live and in recordings, compared with
//! perf.

use std::process::{Command, Output};

use serde_json::Value;

use crate::record_waits::{can_step_back, without_btf};
use crate::support::{ProcessGuard, document, status, stderr, tare, wait_until, workload};
use crate::trace::can_trace;

fn sched(args: &[&str]) -> Output {
    tare().arg("sched").args(args).output().unwrap()
}

/// A line of `perf sched timehist`: time, CPU, task, and microseconds of wait, delay and run.
#[derive(Debug, PartialEq)]
struct TimehistLine {
    time: String,
    cpu: String,
    task: String,
    us: [u64; 3],
}

fn lines(text: &[u8]) -> Vec<TimehistLine> {
    let text = String::from_utf8_lossy(text);
    let line = |line: &str| {
        let (place, rest) = line.trim().split_once("]  ")?;
        let (time, cpu) = place.split_once(" [")?;
        let words: Vec<_> = rest.split_whitespace().collect();
        let (task, times) = words.split_at_checked(words.len().checked_sub(3)?)?;
        let us = |text: &str| text.replace('.', "").parse::<u64>().ok();
        let us = [us(times[0])?, us(times[1])?, us(times[2])?];
        Some(TimehistLine { time: time.to_owned(), cpu: cpu.to_owned(), task: task.join(" "), us })
    };
    text.lines().filter_map(line).collect()
}

/// Records the scheduler's events of a workload with perf; if that fails, prints why the test is
/// skipped.
fn recorded(file: &str) -> bool {
    let work = "for i in 1 2 3 4 5; do sleep 0.01 & true; (while [ $((n += 1)) -lt 20000 ]; do :; done) & done; wait";
    let args = ["sched", "record", "-o", file, "--", "sh", "-c", work];
    let Ok(output) = Command::new("perf").args(args).output() else {
        println!("skipped: perf is not installed");
        return false;
    };
    let is_made = output.status.success();
    if !is_made {
        println!("skipped: perf sched record: {}", stderr(&output));
    }
    is_made
}

#[test]
fn prints_switches_as_perf_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let file = file.to_str().unwrap();
    if !recorded(file) {
        return;
    }
    let ours = sched(&["-i", file, "--timehist"]);
    assert_eq!(status(&ours), 0, "{ours:?}");
    let perf = Command::new("perf").args(["sched", "timehist", "-i", file]).output().unwrap();
    let ours = lines(&ours.stdout);
    let perf = lines(&perf.stdout);
    assert!(perf.len() > 50 && ours.len() == perf.len(), "{} {}", ours.len(), perf.len());
    let mut compared = 0;
    for (ours, perf) in ours.iter().zip(&perf) {
        assert_eq!((&ours.time, &ours.cpu), (&perf.time, &perf.cpu));
        let is_unknown = ours.us[2] == 0 && ours.us[0] == 0;
        if is_unknown || perf.task.contains("[-1") {
            continue; // a switch is missing, or perf has no number for the task
        }
        compared += 1;
        assert!(ours.us[0].abs_diff(perf.us[0]) <= 1, "{ours:?} {perf:?}");
        assert!(ours.us[2].abs_diff(perf.us[2]) <= 1, "{ours:?} {perf:?}");
        // perf before 6.13 has no delay for preempted tasks.
        let is_preempted = perf.us[1] == 0 && ours.us[1].abs_diff(perf.us[0]) <= 1;
        assert!(is_preempted || ours.us[1].abs_diff(perf.us[1]) <= 1, "{ours:?} {perf:?}");
    }
    assert!(compared * 10 > ours.len() * 7, "{compared} of {}", ours.len());
}

#[test]
fn sums_up_the_switches_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let file = file.to_str().unwrap();
    if !recorded(file) {
        return;
    }
    let sums = document(&sched(&["-i", file, "--json"]));
    assert_eq!(sums["version"], 1);
    let listed = sched(&["-i", file, "--timehist", "--json"]);
    let listed: Vec<Value> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(listed[0]["version"], 1);
    let tasks = sums["tasks"].as_array().unwrap();
    assert!(tasks.iter().any(|task| task["comm"] == "sleep"), "{sums}");
    for task in tasks {
        let of_task = || listed[1..].iter().filter(|line| line["tid"] == task["tid"]);
        let number = |value: &Value| value.as_u64().unwrap();
        assert_eq!(number(&task["switches"]), of_task().count() as u64, "{task}");
        let total: u64 = of_task().map(|line| number(&line["delay_ns"])).sum();
        assert_eq!(number(&task["wait"]["total_ns"]), total, "{task}");
        let wait = &task["wait"];
        let in_buckets: u64 =
            wait["histogram"].as_array().unwrap().iter().map(|bucket| number(&bucket[2])).sum();
        assert_eq!(in_buckets, number(&wait["count"]), "{task}");
        let quantile = |name: &str| wait[name].as_f64().unwrap();
        assert!(quantile("p50_ns") <= quantile("p99_ns"), "{task}");
        assert!(quantile("p99_ns") <= quantile("max_ns"), "{task}");
    }
    let chosen = document(&sched(&["-i", file, "--json", "-t", &tasks[0]["tid"].to_string()]));
    assert_eq!(chosen["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(chosen["tasks"][0]["wait"], tasks[0]["wait"]);
}

#[test]
fn chrome_traces_draw_each_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let file = file.to_str().unwrap();
    if !recorded(file) {
        return;
    }
    let drawn = document(&tare().args(["export", "-f", "chrome", "-i", file]).output().unwrap());
    let events = drawn["traceEvents"].as_array().unwrap();
    let of_cpus: Vec<_> = events.iter().filter(|event| event["pid"] == -1).collect();
    let count = |ph: &str| of_cpus.iter().filter(|event| event["ph"] == ph).count();
    assert!(count("B") > 20 && count("B") == count("E"), "{} {}", count("B"), count("E"));
    let is_title = |event: &Value| event["ph"] == "M" && event["args"]["name"] == "CPUs";
    assert!(of_cpus.iter().any(|event| is_title(event)), "{of_cpus:?}");
    let is_sleep =
        |event: &Value| event["name"].as_str().is_some_and(|name| name.starts_with("sleep["));
    assert!(of_cpus.iter().any(|event| is_sleep(event)), "{of_cpus:?}");
}

/// Returns the tasks with this name.
fn named<'a>(sums: &'a Value, comm: &str) -> Vec<&'a Value> {
    sums["tasks"].as_array().unwrap().iter().filter(|task| task["comm"] == comm).collect()
}

#[test]
fn follows_a_command_and_its_children_without_tare() {
    if !can_trace() {
        return;
    }
    let line = "sleep 0.02; sleep 0.02 & sleep 0.02; wait; exit 3";
    let output = sched(&["--json", "--", "sh", "-c", line]);
    assert_eq!(status(&output), 3, "{output:?}");
    let sums = document(&output);
    assert_eq!(named(&sums, "sleep").len(), 3, "{sums}");
    assert_eq!(named(&sums, "sh").len(), 1, "{sums}");
    assert!(named(&sums, "tare").is_empty(), "{sums}");
    for task in named(&sums, "sleep") {
        // It slept, so it was woken and waited for a CPU, if only briefly.
        assert!(task["switches"].as_u64() >= Some(2), "{task}");
        assert!(task["wait"]["count"].as_u64() >= Some(1), "{task}");
        assert!(task["run_ns"].as_u64() > Some(0), "{task}");
    }
    assert_eq!(sums["missing_records"], 0);
    let text = sched(&["--timehist", "-w", "--state", "-n", "--", "sleep", "0.02"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("awakened: sleep["), "{text}");
    assert!(text.lines().any(|line| line.contains(" S  next: ")), "{text}");
}

#[test]
fn traces_running_processes_and_the_whole_machine() {
    if !can_trace() {
        return;
    }
    let shell =
        ProcessGuard::spawn(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]));
    let pid = shell.id().to_string();
    wait_until("the shell runs", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sh\n")
    });
    let sums = document(&sched(&["--json", "-p", &pid, "--timeout", "1500"]));
    assert_eq!(named(&sums, "sh").len(), 1, "{sums}");
    assert!(!named(&sums, "sleep").is_empty(), "{sums}");
    let all = document(&sched(&["--json", "-a", "--timeout", "1500"]));
    assert!(named(&all, "sh").iter().any(|task| task["pid"] == shell.id()), "{all}");
    assert!(all["cpus"][0]["idle_ns"].is_u64(), "{all}");
}

#[test]
fn perf_events_count_the_switches_from_idle_threads() {
    if !can_step_back() {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let last = online.trim().rsplit([',', '-']).next().unwrap();
    let program = workload("blocked");
    let run = format!("exec taskset -c {last} {} sleep 2 40 >/dev/null", program.display());
    let output = without_btf(&format!("sched --json -- sh -c \"{run}\""));
    let sums = document(&output);
    let tasks = named(&sums, "blocked");
    let switches: u64 = tasks.iter().filter_map(|task| task["switches"].as_u64()).sum();
    assert!(switches >= 40, "after each of 40 sleeps: {sums}: {}", stderr(&output));
}

#[test]
fn refuses_invalid_input_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let file = file.to_str().unwrap();
    let made = tare().args(["record", "-q", "-e", "page-faults", "-o", file, "true"]).output();
    assert!(made.unwrap().status.success());
    for (args, wanted, says) in [
        (&["-i", file][..], 1, "sched:sched_switch"),
        (&["-i", "/no/such/file"], 1, "/no/such/file"),
        (&[], 2, "-i FILE"),
        (&["-p", "999999999", "--timeout", "10"], 2, "999999999"),
        (&["-w", "true"], 2, "--timehist"),
        (&["-t", "1", "--", "true"], 2, "-i FILE"),
        (&["--time", "1,2", "--", "true"], 2, "-i FILE"),
        (&["-i", file, "--time", "1,2 3,4"], 2, "--time"),
    ] {
        let output = sched(args);
        let said = stderr(&output);
        assert_eq!(status(&output), wanted, "{args:?}: {said}");
        assert!(said.starts_with("tare: ") && said.contains(says), "{args:?}: {said}");
    }
    assert_eq!(status(&sched(&["--", "sh", "-c", "exit 4"])) == 4, can_trace());
}

/// The command itself prints nothing, so stdout holds the table alone.
/// `tare sched` takes one range of times.
#[test]
fn help_offers_what_works() {
    let help = String::from_utf8(sched(&["--help"]).stdout).unwrap();
    assert!(help.contains("Only this range of time") && !help.contains("Several ranges"), "{help}");
    let report = tare().args(["report", "--help"]).output().unwrap();
    assert!(String::from_utf8(report.stdout).unwrap().contains("Several ranges"));
}

#[test]
fn live_tables_go_to_stdout() {
    if !can_trace() {
        return;
    }
    let none = std::process::Stdio::null;
    for (words, heading) in [
        (&["sched", "-a", "--timeout", "300"][..], "task "),
        (&["sched", "--", "sleep", "0.05"], "task "),
        (&["sched", "--timehist", "--", "sleep", "0.05"], "time "),
        (&["lock", "-a", "--timeout", "300"], "contended "),
        (&["lock", "--", "sleep", "0.05"], "contended "),
        (&["trace", "-s", "-a", "--timeout", "300"], "% time "),
        (&["trace", "-s", "-a", "--", "sleep", "0.05"], "% time "),
    ] {
        let output = tare().args(words).stdin(none()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.trim_start().starts_with(heading), "{words:?}: {text}{}", stderr(&output));
        assert!(!stderr(&output).contains(heading), "{words:?}: {}", stderr(&output));
    }
    // A reader that ends early causes no message and no failure.
    let line = "{ \"$TARE\" sched -a --timehist --timeout 500; echo \"status $?\" >&2; } | head -1";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", line]).env("TARE", env!("CARGO_BIN_EXE_tare")).output().unwrap();
    assert_eq!(stderr(&output), "status 0\n");
    assert!(String::from_utf8_lossy(&output.stdout).contains(" time "), "{output:?}");
}

#[test]
fn threads_of_one_name_share_a_line_unless_asked_for() {
    if !can_trace() {
        return;
    }
    let line = "sleep 0.02; sleep 0.02; sleep 0.02";
    let text = |options: &[&str]| {
        let output = sched(&[options, &["--", "sh", "-c", line]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let starts = |text: &str, name: &str| text.lines().filter(|row| row.starts_with(name)).count();
    let merged = text(&[]);
    assert_eq!((starts(&merged, "sleep:(3) "), starts(&merged, "sleep")), (1, 1), "{merged}");
    let threads = text(&["--per-thread"]);
    assert_eq!(starts(&threads, "sleep["), 3, "{threads}");
}
