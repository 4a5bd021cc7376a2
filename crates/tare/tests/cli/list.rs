//! `tare list`, through the binary.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const TARE: &str = env!("CARGO_BIN_EXE_tare");

fn list(args: &[&str]) -> Output {
    Command::new(TARE).arg("list").args(args).output().expect("tare runs")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a JSON document")
}

fn section<'a>(document: &'a Value, kind: &str) -> &'a Value {
    document["sections"]
        .as_array()
        .and_then(|all| all.iter().find(|section| section["kind"] == kind))
        .expect("a section of this kind")
}

/// Unavailable events have a reason, and `tare stat` counts each available software event.
#[test]
fn what_is_listed_as_available_can_be_counted() {
    let document = json(&list(&["--json"]));
    assert_eq!(document["version"], 1);
    let kinds: Vec<_> = document["sections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|section| section["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["hardware", "software", "cache", "pmu", "raw", "tracepoint", "breakpoint"]);
    for kind in ["hardware", "software", "cache", "pmu"] {
        for event in section(&document, kind)["events"].as_array().unwrap() {
            assert_eq!(event["available"] == true, event["lacks"].is_null(), "{event}");
        }
    }
    let software: Vec<_> = section(&document, "software")["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["available"] == true)
        .collect();
    assert!(!software.is_empty(), "no software event at all");
    let names =
        software.iter().map(|event| event["name"].as_str().unwrap()).collect::<Vec<_>>().join(",");
    let counted = Command::new(TARE).args(["stat", "-x,", "-e", &names, "true"]).output().unwrap();
    let text = String::from_utf8_lossy(&counted.stderr);
    assert!(counted.status.success() && !text.contains("<not"), "{text}");
    assert_eq!(text.lines().count(), software.len(), "{text}");
}

#[test]
fn a_machine_without_a_pmu_says_so() {
    let document = json(&list(&["--json", "hw"]));
    let hardware = section(&document, "hardware");
    let available =
        hardware["events"].as_array().unwrap().iter().any(|event| event["available"] == true);
    assert_ne!(available, hardware["lacks"].is_string(), "{hardware}");
}

#[test]
fn names_select_by_kind_pattern_and_part() {
    let text = |args: &[&str]| String::from_utf8(list(args).stdout).unwrap();
    let software = text(&["sw"]);
    assert!(
        software.contains("context-switches or cs") && !software.contains("Hardware"),
        "{software}"
    );
    let part = text(&["major-f"]);
    assert!(part.contains("major-faults") && !part.contains("minor-faults"), "{part}");
    assert!(text(&["TASK-*"]).contains("task-clock"));
    let unknown = list(&["no-such-event"]);
    let line = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!((unknown.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.starts_with("tare: this machine has no event called no-such-event"), "{line}");
}

#[test]
fn tracepoints_are_numbers_until_asked_for() {
    let document = json(&list(&["--json"]));
    let tracepoints = section(&document, "tracepoint");
    if let Some(reason) = tracepoints["lacks"].as_str() {
        println!("skipped: {reason}");
        return;
    }
    let sched = tracepoints["systems"]
        .as_array()
        .unwrap()
        .iter()
        .find(|system| system["name"] == "sched")
        .unwrap();
    let listed = json(&list(&["--json", "sched:*"]));
    let names = section(&listed, "tracepoint")["events"].as_array().unwrap();
    assert_eq!(u64::try_from(names.len()).unwrap(), sched["events"].as_u64().unwrap());
    assert!(names.iter().any(|event| event["name"] == "sched:sched_switch"));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(TARE)
        .args(["list", "sw"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(0), "")
    );
}

/// For an ordinary user, `task-clock` is available, and tracepoints are listed or said to be
/// unreadable.
#[test]
fn it_works_without_privileges() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.path().join("tare");
    std::fs::copy(TARE, &binary).unwrap();
    let output =
        Command::new(&binary).args(["list", "--json"]).uid(65534).gid(65534).output().unwrap();
    let document = json(&output);
    let task_clock = &section(&document, "software")["events"][0];
    assert_eq!(
        (task_clock["name"].as_str(), task_clock["available"].as_bool()),
        (Some("task-clock"), Some(true))
    );
    let all = String::from_utf8(output.stdout).unwrap();
    assert!(all.contains("not readable for this user") || all.contains("\"systems\""), "{all}");
}
