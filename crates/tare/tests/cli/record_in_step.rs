//! Programs that repeat themselves with the sampling period.

use std::process::Command;

use crate::recorded::RecordingFolder;
use crate::support::{is_root, stderr, tare, workload};

/// The program spends half of its time in each of two functions. A clock with a constant period
/// sees one of them in nine samples of ten.
#[test]
fn a_program_in_step_with_the_clock_is_sampled_evenly() {
    if !is_root() {
        return;
    }
    // Alone on its CPU, so that the scheduler doesn't favour a half.
    let ahead = ["taskset", "-c", "0", "chrt", "-f", "1"];
    let is_allowed = Command::new(ahead[0]).args(&ahead[1..]).arg("true").status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        return println!("skipped: taskset or chrt can't run");
    }
    let locked = workload("locked");
    let place = RecordingFolder::new();
    let options = ["-C", "0", "-e", "cpu-clock", "-F", "500", "--"];
    let program = [locked.to_str().unwrap(), "2000000", "2"];
    let recorded = place.run(&[&options[..], &ahead, &program].concat());
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let mut report = tare();
    report.args(["report", "--stdio", "--no-children", "-g", "none", "-s", "sym", "-t", ";", "-q"]);
    let report = report.args(["--comm", "locked", "-i"]).arg(place.file()).output().unwrap();
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    let share = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.ends_with(name)).unwrap_or_default();
        line.split('%').next().unwrap().trim().parse().unwrap_or(0.0)
    };
    let first = share("first_half") / (share("first_half") + share("second_half"));
    assert!((0.3..0.7).contains(&first), "{first}:\n{text}");
}
