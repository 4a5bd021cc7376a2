//! Error messages name the cause and, for a misspelled option or command, the nearest name.

use crate::support::{ProcessGuard, Unprivileged, sh, status, stderr, tare};

fn refused(args: &[&str]) -> String {
    let output = tare().args(args).output().expect("tare was built");
    assert_eq!(status(&output), 2, "{output:?}");
    stderr(&output)
}

/// The kernel's rule is that of ptrace(2) (`perf_check_permission`, `kernel/events/core.c`): no
/// level of `perf_event_paranoid` opens another user's process.
#[test]
fn attaching_to_another_users_process_takes_ptrace_access() {
    let Some(user) = Unprivileged::new() else { return };
    let busy = ProcessGuard::busy();
    let id = busy.id().to_string();
    let cases: [&[&str]; 4] = [
        &["stat", "-p", &id, "--timeout", "50", "-e", "task-clock:u"],
        &["stat", "-t", &id, "--timeout", "50", "-e", "task-clock:u"],
        &["stat", "-p", &id, "--timeout", "50"],
        &["record", "-o", "/dev/null", "-p", &id, "-e", "task-clock:u", "sleep", "0.05"],
    ];
    for case in cases {
        let command = case[0];
        let options = &case[1..];
        let output = user.tare(command, options);
        let text = stderr(&output);
        assert!(![0, 2].contains(&status(&output)), "{options:?}: {output:?}");
        assert!(
            text.contains("another user") && text.contains("CAP_PERFMON"),
            "{options:?}: {text}"
        );
        assert!(!text.contains("perf_event_paranoid"), "{options:?}: {text}");
    }
}

#[test]
fn a_limit_of_the_address_space_is_called_by_its_name() {
    let line =
        format!("ulimit -v 400000; {} record -m 1G -o /dev/null true", env!("CARGO_BIN_EXE_tare"));
    let output = sh(&line);
    let text = stderr(&output);
    assert!(text.contains("ulimit -v"), "{text}");
    assert!(!text.contains("ulimit -l") && !text.contains("perf_event_mlock_kb"), "{text}");
}

#[test]
fn a_tip_is_near_and_runs_nothing() {
    for args in [
        &["record", "--aux-sample", "true"][..],
        &["stat", "--topdown", "true"],
        &["report", "--gtk"],
        &["script", "--xed"],
        &["stat", "-W", "true"],
    ] {
        let text = refused(args);
        assert!(text.starts_with("tare: ") && text.contains(args[1]), "{text}");
        assert!(!text.contains("similar") && !text.contains("-- -"), "{args:?}: {text}");
        // An option that perf has and tare lacks gets an answer with the reason.
        let all = format!("tare {} --help", args[0]);
        assert!(text.contains(&all) || text.contains(" is not supported"), "{args:?}: {text}");
    }
    for (args, near) in [
        (&["stat", "--interval-prnt", "100", "true"][..], "--interval-print"),
        (&["stat", "--no-inehrit", "true"], "--no-inherit"),
        (&["record", "--max-overhed", "1%", "true"], "--max-overhead"),
        (&["recrod", "true"], "record"),
    ] {
        let text = refused(args);
        assert!(text.contains(&format!("'{near}'")), "{args:?}: {text}");
    }
    assert!(!refused(&["recycle"]).contains("similar"));
}
