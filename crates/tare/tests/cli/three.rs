//! Counts of the smallest program contain nothing of tare. vm/checks.sh tests the same with
//! hardware counters.

use std::process::Command;

/// The counts of these events, in one run of `three`.
fn count(events: &str) -> Result<Vec<String>, String> {
    let three = crate::support::workload("three");
    let run = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["stat", "-x,", "-o", "/dev/stdout", "-e", events, "--"])
        .arg(three)
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&run.stdout);
    if !run.status.success() || text.contains("<not") {
        return Err(format!("{text}{}", String::from_utf8_lossy(&run.stderr)));
    }
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(|line| line.split(',').next().unwrap_or_default().to_owned()).collect())
}

#[test]
fn it_faults_in_one_page_itself() {
    for run in 0..20 {
        assert_eq!(count("page-faults:u").unwrap(), ["1"], "run {run}");
    }
}

#[test]
fn it_makes_one_system_call_and_returns_from_execve_alone() {
    // Usually only root can read tracefs.
    if let Err(error) = std::fs::read("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id") {
        println!("skipped: tracepoints: {error}");
        return;
    }
    for run in 0..20 {
        assert_eq!(
            count("raw_syscalls:sys_enter,raw_syscalls:sys_exit").unwrap(),
            ["1", "1"],
            "run {run}"
        );
    }
}
