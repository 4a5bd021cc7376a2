//! Programs that repeat themselves with the sampling period.

use std::process::{Command, Stdio};

use crate::recorded::RecordingFolder;
use crate::support::{ProcessGuard, is_root, stderr, tare, workload};

/// Runs a program alone on its CPU, so that the scheduler doesn't favour a half of it.
const ALONE: [&str; 6] = ["taskset", "-c", "0", "chrt", "-f", "1"];

/// Whether this test can run here.
fn can_run() -> bool {
    if !is_root() {
        return false;
    }
    let is_allowed = Command::new(ALONE[0]).args(&ALONE[1..]).arg("true").status();
    let is_allowed = is_allowed.is_ok_and(|status| status.success());
    if !is_allowed {
        println!("skipped: taskset or chrt can't run");
    }
    is_allowed
}

/// Returns the command line of a program that spends half of each 2 ms in either of two functions.
fn locked(seconds: &str) -> Vec<String> {
    let locked = workload("locked");
    let program = [locked.to_str().unwrap(), "2000000", seconds];
    ALONE.iter().chain(&program).map(|&word| word.to_owned()).collect()
}

fn report(place: &RecordingFolder) -> String {
    let mut report = tare();
    report.args(["report", "--stdio", "--no-children", "-g", "none", "-s", "sym", "-t", ";"]);
    let report = report.args(["--comm", "locked", "-i"]).arg(place.file()).output().unwrap();
    String::from_utf8_lossy(&report.stdout).into_owned()
}

/// Asserts that both functions have about half of the samples. A clock with a constant period
/// sees one of them in nine samples of ten.
fn assert_even(place: &RecordingFolder) {
    let text = report(place);
    let share = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.ends_with(name)).unwrap_or_default();
        line.split('%').next().unwrap().trim().parse().unwrap_or(0.0)
    };
    let first = share("first_half") / (share("first_half") + share("second_half"));
    assert!((0.3..0.7).contains(&first), "{first}:\n{text}");
}

/// Records the program with these options.
fn record(options: &[&str], seconds: &str) -> RecordingFolder {
    let place = RecordingFolder::new();
    let program = locked(seconds);
    let program = program.iter().map(String::as_str);
    let options = options.iter().copied().chain(["-e", "cpu-clock", "--"]);
    let recorded = place.run(&options.chain(program).collect::<Vec<_>>());
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    place
}

fn assert_running_process_is_even() {
    let program = locked("600");
    let mut command = Command::new(&program[0]);
    let running = ProcessGuard::spawn(command.args(&program[1..]).stdin(Stdio::null()));
    let pid = running.id().to_string();
    let place = RecordingFolder::new();
    let options = ["-p", &pid, "-c", "2000000", "-e", "cpu-clock", "--", "sleep", "2"];
    let recorded = place.run(&options);
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert_even(&place);
}

/// One test, because the programs need a CPU for themselves.
#[test]
fn programs_in_step_with_the_clock_are_sampled_evenly_and_the_report_names_them() {
    if !can_run() {
        return;
    }
    for options in [&["-C", "0", "-c", "2000000"][..], &["--follow=inherit", "-F", "500"]] {
        assert_even(&record(options, "2"));
    }
    assert_running_process_is_even();
    let of_cpu = record(&["-C", "0", "-F", "500"], "6");
    assert_even(&of_cpu);
    let text = report(&of_cpu);
    let line = text.lines().find(|line| line.contains("in step with the sampling period of 2.000"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("_half of locked") && line.contains("compare with -F 691"), "{line}");
}
