//! `-x` and `-j` beside the real `perf stat`: the same columns, keys and order, and the same counts
//! where they are certain.

use std::process::Command;

use serde_json::{Map, Value};

use crate::support::{is_root, sh, stat, stderr};

/// perf's output for the same arguments, or a skip.
fn perf(args: &[&str]) -> Option<Vec<String>> {
    let Ok(output) = Command::new("perf").env("LC_ALL", "C").arg("stat").args(args).output() else {
        println!("skipped: perf is not installed");
        return None;
    };
    Some(lines(&stderr(&output)))
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| {
            !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with("tare:")
        })
        .map(str::to_owned)
        .collect()
}

/// What stands in a column, without the digits of a measured number: `2.34` and `17.10` are alike,
/// `2.34` and `17` are not.
fn shape(column: &str) -> String {
    let trimmed = column.trim_start();
    let padded = if trimmed.len() < column.len() { "padded " } else { "" };
    let is_number = trimmed.trim_end_matches('%').parse::<f64>().is_ok();
    let decimals =
        trimmed.trim_end_matches('%').split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let percent = if trimmed.ends_with('%') { "%" } else { "" };
    match is_number {
        true => format!("{padded}number.{decimals}{percent}"),
        // A rate is in the unit that its size asks for.
        false => column.trim_start_matches(['K', 'M', 'G']).to_owned(),
    }
}

/// Options under which both tools are asked for their machine forms. Events are named, as tare
/// leaves out by default what is missing.
const CASES: [&[&str]; 12] = [
    &["-e", "task-clock,page-faults,context-switches", "true"],
    &["-e", "{task-clock,page-faults}", "true"],
    &["-e", "cpu-clock,minor-faults,cpu-migrations", "true"],
    &["-r3", "-e", "task-clock,page-faults", "true"],
    &["-a", "-e", "task-clock,page-faults", "sleep", "0.05"],
    &["-a", "-A", "-e", "task-clock,page-faults", "sleep", "0.05"],
    &["-C0", "-e", "page-faults", "sleep", "0.05"],
    &["-a", "--per-core", "-e", "task-clock,page-faults", "sleep", "0.05"],
    &["-a", "--per-socket", "-e", "page-faults", "sleep", "0.05"],
    &["-a", "--per-die", "-e", "page-faults", "sleep", "0.05"],
    &["-a", "--per-node", "-e", "page-faults", "sleep", "0.05"],
    &["-a", "-I", "40", "--interval-count", "2", "-e", "task-clock,page-faults", "sleep", "1"],
];

#[test]
fn csv_columns_are_perfs() {
    if !is_root() {
        return;
    }
    for case in CASES {
        let Some(theirs) = perf(&[&["-x,"], case].concat()) else { return };
        let ours = lines(&stderr(&stat(&[&["-x,"], case].concat())));
        let columns = |lines: &[String]| {
            lines
                .iter()
                .map(|line| line.split(',').map(shape).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(columns(&ours), columns(&theirs), "{case:?}\n{ours:#?}\n{theirs:#?}");
    }
}

#[test]
fn json_keys_are_perfs_in_its_order() {
    if !is_root() {
        return;
    }
    for case in CASES {
        let Some(theirs) = perf(&[&["-j"], case].concat()) else { return };
        let ours = lines(&stderr(&stat(&[&["-j"], case].concat())));
        let read = |lines: &[String]| {
            lines
                .iter()
                .map(|line| {
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
                })
                .collect::<Vec<Map<String, Value>>>()
        };
        let (ours, theirs) = (read(&ours), read(&theirs));
        assert_eq!(ours.len(), theirs.len(), "{case:?}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(
                our.keys().collect::<Vec<_>>(),
                their.keys().collect::<Vec<_>>(),
                "{case:?}"
            );
            for (key, value) in our {
                let same_type =
                    std::mem::discriminant(value) == std::mem::discriminant(&their[key]);
                assert!(same_type, "{case:?} {key}: {value} beside {}", their[key]);
                if ["event", "unit", "cpu", "core", "socket", "die", "node"].contains(&key.as_str())
                {
                    assert_eq!(value, &their[key], "{case:?} {key}");
                }
            }
        }
    }
}

#[test]
fn certain_counts_are_the_same() {
    if !is_root() {
        return;
    }
    if let Err(error) = std::fs::read("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id") {
        println!("skipped: tracepoints: {error}");
        return;
    }
    let case = [
        "-x,",
        "-e",
        "raw_syscalls:sys_enter,raw_syscalls:sys_exit,syscalls:sys_enter_openat",
        "true",
    ];
    let Some(theirs) = perf(&case) else { return };
    let counts = |lines: &[String]| {
        lines
            .iter()
            .map(|line| line.split(',').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&lines(&stderr(&stat(&case)))), counts(&theirs));
}

#[test]
fn what_is_missing_looks_as_in_perf() {
    // Only where this machine has no cycles.
    for case in [
        &["-x,", "-e", "cycles,page-faults", "true"][..],
        &["-x,", "-r2", "-e", "cycles,page-faults", "true"],
    ] {
        let ours = lines(&stderr(&stat(case)));
        if !ours[0].starts_with("<not supported>") {
            println!("skipped: this machine has cycles");
            return;
        }
        let Some(theirs) = perf(case) else { return };
        assert_eq!(ours[0], theirs[0]);
    }
}

#[test]
fn a_separator_of_the_users_choice() {
    for separator in [";", "\\t", "||"] {
        let output = stat(&["-x", separator, "-e", "page-faults:u", "true"]);
        let wanted = if separator == "\\t" { "\t" } else { separator };
        assert_eq!(stderr(&output).trim_end_matches('\n').split(wanted).count(), 7, "{output:?}");
    }
    assert!(sh("true").status.success());
}
