//! The grammar of `-e`.

use std::process::{Command, Output};

fn stat(event: &str, command: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["stat", "-x,", "-e", event, "--"])
        .args(command)
        .output()
        .expect("tare runs")
}

/// The third column of each line of results.
fn names(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines()
        .filter(|line| !line.starts_with("tare:"))
        .filter_map(|line| line.split(',').nth(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn results_carry_the_names_that_perf_gives_them() {
    let events = [
        "cs,faults:u,cpu-clock:ku",
        "{cs,faults}:u",
        "{cs:u,faults}:k",
        "cpu-clock/name=hi/u",
        "1:2:u",
        "cycles:u",
        "r1a8",
        "L1-dcache-loads-misses",
        "msr/tsc/",
        "msr/tsc,name=foo/",
        "sched:sched_switch:u",
        "raw_syscalls:sys_enter,raw_syscalls:sys_exit",
    ];
    for event in events {
        let Ok(perf) = Command::new("perf").args(["stat", "-x,", "-e", event, "true"]).output()
        else {
            println!("skipped: no perf here");
            return;
        };
        if !perf.status.success() {
            println!("{event} skipped: perf refuses it here");
            continue;
        }
        assert_eq!(names(&stat(event, &["true"])), names(&perf), "{event}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_position_and_the_command_does_not_run() {
    for (event, expected) in [
        (
            "cs,page-fualts:u",
            "tare: event at character 4: unknown event 'page-fualts' (`tare list` shows the events of this machine); nearest: page-faults",
        ),
        (
            "cs:uu",
            "tare: event at character 5: unknown or repeated modifier 'u': use u k h G H p P S D I W e, each once (p up to three times)",
        ),
        (
            "cs/call-graph=fp/",
            "tare: cs/call-graph=fp/: call-graph is for sampling, and tare stat counts: leave it out",
        ),
        (
            "cs/percore/",
            "tare: cs/percore/: percore is not supported, --per-core sums over the threads of each core",
        ),
    ] {
        let output = stat(event, &["echo", "ran"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let seen = (output.status.code(), said.trim_end_matches('\n'), output.stdout.as_slice());
        assert_eq!(
            seen,
            (Some(2), expected, b"".as_slice()),
            "one line where stderr is no terminal"
        );
    }
    // script(1) of util-linux provides a terminal, on which the message marks the position.
    let line = format!("{} stat -e cs,nonsense true", env!("CARGO_BIN_EXE_tare"));
    let marked = Command::new("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
    let marked = String::from_utf8_lossy(&marked.stdout).replace('\r', "");
    assert!(marked.ends_with("  cs,nonsense\n     ^\n"), "{marked}");
}

#[test]
fn an_event_can_leave_out_children_alone() {
    let output = stat(
        "faults,faults/no-inherit,name=own/",
        &["sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done"],
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts: Vec<f64> =
        text.lines().filter_map(|line| line.split(',').next()?.parse().ok()).collect();
    assert_eq!(counts.len(), 2, "{text}");
    assert!(counts[0] > 2.0 * counts[1], "five children fault more than the shell alone: {text}");
}
