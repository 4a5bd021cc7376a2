//! When `tare stat` counts and ends: signals, intervals, timeouts, delays, `--control`.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{
    csv_values, document, sh, signal, spawn_stat, stat, status, stderr, wait_until,
};

#[test]
fn the_command_lives_on_if_tare_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let done = folder.path().join("done");
    let script = format!("touch {}; sleep 0.3; touch {}", started.display(), done.display());
    let mut child = spawn_stat(&["-e", "page-faults", "sh", "-c", &script]);
    wait_until("the command starts", || started.exists());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(!done.exists());
    wait_until("the command ends", || done.exists());
}

#[test]
fn an_interrupt_ends_the_command_and_partial_counts_are_shown() {
    for (name, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let child = spawn_stat(&[
            "-x,",
            "-e",
            "page-faults",
            "sh",
            "-c",
            &format!("touch {}; exec sleep 60", started.display()),
        ]);
        wait_until("the command starts", || started.exists());
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), expected, "{output:?}");
        assert!(csv_values(&output)[0].parse::<u32>().unwrap() > 10, "{output:?}");
    }
}

#[test]
fn a_second_interrupt_no_longer_waits_for_a_command_that_ignores_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!(
        "trap '' INT; trap 'exit 5' TERM; touch {}; while :; do sleep 0.01; done",
        started.display()
    );
    let mut child = spawn_stat(&["-x,", "-e", "page-faults", "sh", "-c", &script]);
    wait_until("the command starts", || started.exists());
    signal(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "the command had its say");
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), csv_values(&output).len()), (5, 1), "{output:?}");
}

#[test]
fn without_a_command_an_interrupt_shows_the_counts_and_is_130() {
    if !crate::support::is_root() {
        return;
    }
    let child = spawn_stat(&["-a", "-x,", "-e", "context-switches", "-I", "10"]);
    // Time for some intervals.
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 130, "{output:?}");
    assert!(csv_values(&output).len() > 1, "{output:?}");
}

#[test]
fn intervals_add_up_to_the_totals() {
    let output = stat(&[
        "--json",
        "-o",
        "-",
        "-I",
        "20",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6; do ls / >/dev/null; sleep 0.01; done >&2",
    ]);
    let document = document(&output);
    let intervals = document["intervals"].as_array().unwrap();
    assert!(intervals.len() > 2, "{document}");
    let sum: f64 =
        intervals.iter().map(|interval| interval["events"][0]["value"].as_f64().unwrap()).sum();
    assert_eq!(Some(sum), document["events"][0]["value"].as_f64());
    let counted =
        stat(&["-I", "10", "--interval-count", "3", "-x,", "-e", "page-faults:u", "sleep", "60"]);
    assert_eq!((csv_values(&counted).len(), status(&counted)), (3, 0), "{counted:?}");
}

#[test]
fn a_timeout_and_a_delay() {
    let output = stat(&["--timeout", "100", "-x,", "-e", "page-faults:u", "sleep", "60"]);
    assert_eq!((status(&output), csv_values(&output).len()), (0, 1), "{output:?}");
    // Nearly all of the command's faults occur before the delay ends.
    let delayed = stat(&[
        "-D",
        "300",
        "-x,",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        "ls / >/dev/null; sleep 0.6",
    ]);
    assert!(csv_values(&delayed)[0].parse::<u32>().unwrap() < 10, "{delayed:?}");
}

#[test]
fn orders_come_over_descriptors_and_fifos() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let ack = folder.path().join("ack");
    sh(&format!("mkfifo {} {}", control.display(), ack.display()));
    // tare counts only between the program's `enable` and `disable`.
    let script = format!(
        "read_ack() {{ read line <&4; [ \"$line\" = ack ]; }}; exec 3>{0} 4<>{1}; ls / >/dev/null; echo enable >&3; read_ack; ls / >/dev/null; echo disable >&3; read_ack; ls / >/dev/null; echo nonsense >&3; echo ping >&3; read_ack",
        control.display(),
        ack.display()
    );
    let fifo = format!("fifo:{},{}", control.display(), ack.display());
    let whole = csv_values(&stat(&[
        "-x,",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        "ls / >/dev/null; ls / >/dev/null; ls / >/dev/null",
    ]))[0]
        .parse::<f64>()
        .unwrap();
    let output =
        stat(&["-D", "-1", "--control", &fifo, "-x,", "-e", "page-faults:u", "sh", "-c", &script]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(
        stderr(&output).contains("'nonsense' is not an order: write enable, disable, ping or stop"),
        "{output:?}"
    );
    let between = csv_values(&output)[0].parse::<f64>().unwrap();
    assert!(between > 20.0 && between < whole * 0.6, "{between} of {whole}");
    let stopped = sh(&format!(
        "(echo stop; sleep 5) | {} stat --control fd:0 -x, -e page-faults:u sleep 60",
        env!("CARGO_BIN_EXE_tare")
    ));
    assert_eq!(status(&stopped), 0, "{stopped:?}");
}

#[test]
fn before_and_after_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let echo = |word: &str| format!("echo {word} >> {}", log.display());
    let output = stat(&[
        "-r2",
        "--pre",
        &echo("pre"),
        "--post",
        &echo("post"),
        "-e",
        "page-faults",
        "sh",
        "-c",
        &echo("run"),
    ]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(
        fs::read_to_string(&log).unwrap().split_whitespace().collect::<Vec<_>>(),
        ["pre", "run", "post", "pre", "run", "post"]
    );
}

/// A stopped process takes SIGTERM only when it continues.
#[test]
fn a_stopped_command_ends_with_the_time_too() {
    let began = std::time::Instant::now();
    let script = "exec >/dev/null 2>&1; kill -STOP $$; exec sleep 60";
    let output = stat(&["--timeout", "200", "-x,", "-e", "page-faults:u", "sh", "-c", script]);
    assert_eq!((status(&output), csv_values(&output).len()), (0, 1), "{output:?}");
    assert!(!stderr(&output).contains("tare:"), "{output:?}");
    // tare waits this long for a command that doesn't exit.
    assert!(began.elapsed() < Duration::from_secs(5), "{output:?}");
}

#[test]
fn a_command_that_ignores_sigterm_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pid = crate::support::PidFileGuard(folder.path().join("pid"));
    let script = format!(
        "exec >/dev/null 2>&1; trap '' TERM; echo $$ > {}; while :; do sleep 0.1; done",
        pid.0.display()
    );
    let output = stat(&["--timeout", "300", "-x,", "-e", "page-faults:u", "sh", "-c", &script]);
    assert_eq!(status(&output), 0, "{output:?}");
    let expected =
        format!("tare: process {}, the command, still runs 5 s after SIGTERM", pid.pid().unwrap());
    assert!(stderr(&output).contains(&expected), "{output:?}");
    assert!(pid.is_alive());
}
