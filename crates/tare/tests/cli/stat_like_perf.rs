//! `-x` and `-j` compared with `perf stat`: the same columns, keys and order, and the same
//! deterministic counts.

use std::process::{Command, Output};

use serde_json::{Map, Value};

use crate::support::{ProcessGuard, is_root, sh, stat, status, stderr};

/// perf's lines for the same arguments; without perf, prints that the test is skipped.
fn perf(args: &[&str]) -> Option<Vec<String>> {
    run_perf(args).map(|output| lines(&stderr(&output)))
}

fn run_perf(args: &[&str]) -> Option<Output> {
    let output = Command::new("perf").env("LC_ALL", "C").arg("stat").args(args).output();
    if output.is_err() {
        println!("skipped: perf is not installed");
    }
    output.ok()
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| {
            !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with("tare:")
        })
        .map(str::to_owned)
        .collect()
}

/// The shape of a column, which hides a number's digits: `2.34` and `17.10` are alike, `2.34` and
/// `17` aren't.
fn shape(column: &str) -> String {
    let trimmed = column.trim_start();
    let padded = if trimmed.len() < column.len() { "padded " } else { "" };
    let is_number = trimmed.trim_end_matches('%').parse::<f64>().is_ok();
    let decimals =
        trimmed.trim_end_matches('%').split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let percent = if trimmed.ends_with('%') { "%" } else { "" };
    match is_number {
        true => format!("{padded}number.{decimals}{percent}"),
        // The unit of a rate depends on its size.
        false => column.trim_start_matches(['K', 'M', 'G']).to_owned(),
    }
}

/// Options to compare, with named events: tare's defaults leave out missing ones.
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
        let ours = read(&ours);
        let theirs = read(&theirs);
        assert_eq!(ours.len(), theirs.len(), "{case:?}");
        for (our, their) in ours.iter().zip(&theirs) {
            // perf 7 has another name for it.
            let new = |key: &String| {
                if key == "aggregate-number" { "counters".to_owned() } else { key.clone() }
            };
            let their: Map<String, Value> =
                their.iter().map(|(key, value)| (new(key), value.clone())).collect();
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
    // Only on a machine without cycles.
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

/// After the timeout perf sends SIGTERM. A command that dies of it is no failure; a command that
/// exits with its own status is.
#[test]
fn the_end_that_was_asked_for_has_perfs_status() {
    let cases: [&[&str]; 4] = [
        &["--timeout", "100", "-e", "page-faults:u", "sleep", "60"],
        &["--timeout", "200", "sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.01; done"],
        &["-I", "20", "--interval-count", "2", "-e", "page-faults:u", "sleep", "0.2"],
        &["-r2", "--timeout", "100", "-e", "page-faults:u", "sleep", "60"],
    ];
    for case in cases {
        let Some(theirs) = run_perf(case) else { return };
        let ours = stat(case);
        assert_eq!(status(&ours), status(&theirs), "{case:?}\n{ours:?}\n{theirs:?}");
    }
}

#[test]
fn the_summary_column_is_perfs() {
    if !is_root() {
        return;
    }
    let cases: [&[&str]; 6] = [
        &["--summary", "-e", "page-faults", "true"],
        &["-I", "40", "--summary", "-e", "page-faults,task-clock", "sleep", "0.06"],
        &["-I", "40", "--summary", "--no-csv-summary", "-e", "page-faults", "sleep", "0.06"],
        &["-a", "-A", "-I", "40", "--summary", "-e", "page-faults", "sleep", "0.06"],
        &["-a", "--per-socket", "-I", "40", "--summary", "-e", "cs", "sleep", "0.06"],
        &["-r2", "--summary", "-e", "page-faults", "true"],
    ];
    for case in cases {
        let Some(theirs) = perf(&[&["-x,"], case].concat()) else { return };
        let ours = lines(&stderr(&stat(&[&["-x,"], case].concat())));
        // The last interval may coincide with the command's end.
        let totals = |lines: &[String]| {
            let is_interval = |line: &String| {
                let first = line.split(',').next().unwrap_or_default();
                first.starts_with(' ') && first.trim().parse::<f64>().is_ok()
            };
            let totals = lines.iter().filter(|line| !is_interval(line));
            totals.map(|line| line.split(',').map(shape).collect()).collect::<Vec<Vec<_>>>()
        };
        assert_eq!(totals(&ours), totals(&theirs), "{case:?}\n{ours:#?}\n{theirs:#?}");
    }
}

/// Rows, order and units are perf's, with `<not supported>` for events that the machine lacks.
#[test]
fn the_default_events_have_perfs_rows() {
    if !is_root() {
        return;
    }
    let cases: [&[&str]; 4] =
        [&["true"], &["-d", "true"], &["-a", "sleep", "0.05"], &["-C0", "sleep", "0.05"]];
    for case in cases {
        let Some(theirs) = perf(&[&["-x,"], case].concat()) else { return };
        let ours = stderr(&stat(&[&["-x,"], case].concat()));
        let rows = |lines: &[String]| {
            let row = |line: &String| {
                let columns: Vec<&str> = line.split(',').collect();
                let missing = if columns[0].starts_with('<') { columns[0] } else { "counted" };
                [missing, columns[1], columns[2]].map(str::to_owned)
            };
            lines.iter().map(row).collect::<Vec<_>>()
        };
        assert!(!ours.contains("tare:"), "{ours}");
        assert_eq!(rows(&lines(&ours)), rows(&theirs), "{case:?}\n{ours}\n{theirs:#?}");
        let text = |lines: &[String]| {
            let missing = lines.iter().filter(|line| line.contains("<not supported>"));
            missing
                .map(|line| line.split_whitespace().nth(2).map(str::to_owned))
                .collect::<Vec<_>>()
        };
        let Some(theirs) = perf(case) else { return };
        assert_eq!(text(&lines(&stderr(&stat(case)))), text(&theirs), "{case:?}");
    }
}

#[test]
fn the_title_is_perfs() {
    if !is_root() {
        return;
    }
    let busy = ProcessGuard::busy();
    let id = busy.id().to_string();
    let cases: [&[&str]; 7] = [
        &["sh", "-c", "exit 0"],
        &["-r2", "true"],
        &["-a", "sleep", "0.05"],
        &["-C0", "sleep", "0.05"],
        &["-p", &id, "--timeout", "100"],
        &["-t", &id, "--timeout", "100"],
        &["-I", "30", "--summary", "sleep", "0.05"],
    ];
    for case in cases {
        let Some(theirs) = run_perf(&[&["-e", "page-faults"], case].concat()) else { return };
        let ours = stat(&[&["-e", "page-faults"], case].concat());
        let title = |output: &Output| {
            let text = stderr(output);
            text.lines().find(|line| line.contains(" stats for ")).map(str::to_owned)
        };
        assert!(title(&theirs).is_some(), "{theirs:?}");
        assert_eq!(title(&ours), title(&theirs), "{case:?}");
    }
}

/// The last of a repeated option counts, unless perf accumulates it.
#[test]
fn repeated_options_mean_what_they_mean_to_perf() {
    if !is_root() {
        return;
    }
    let busy = ProcessGuard::busy();
    let id = busy.id().to_string();
    let none = std::process::id().to_string();
    let cases: [&[&str]; 7] = [
        &["-e", "page-faults", "-e", "dummy", "-x;", "-x,", "true"],
        &["-x,", "-e", "page-faults", "-r3", "-r1", "true"],
        &[
            "-x,",
            "-e",
            "task-clock",
            "-C0",
            "-C0-1",
            "-C0",
            "-A",
            "-A",
            "-a",
            "-a",
            "sleep",
            "0.05",
        ],
        &[
            "-x,",
            "-e",
            "task-clock",
            "-p",
            &none,
            "-p",
            &id,
            "--timeout",
            "9999",
            "--timeout",
            "100",
        ],
        &["-x,", "-e", "task-clock", "-t", &none, "-t", &id, "--timeout", "100"],
        &["-x,", "-e", "page-faults", "-D", "10", "-D", "0", "-i", "-i", "sleep", "0.05"],
        &["-x,", "-e", "page-faults", "-o", "/no/such/folder/x", "-o", "/dev/stderr", "true"],
    ];
    for case in cases {
        let Some(theirs) = run_perf(case) else { return };
        let ours = stat(case);
        assert_eq!(status(&ours), status(&theirs), "{case:?}\n{ours:?}\n{theirs:?}");
        let columns = |output: &Output| {
            let text = stderr(output);
            let lines = lines(&text).into_iter().filter(|line| !line.contains("caution"));
            lines.map(|line| line.split(',').map(shape).collect()).collect::<Vec<Vec<_>>>()
        };
        assert_eq!(columns(&ours), columns(&theirs), "{case:?}\n{ours:?}\n{theirs:?}");
    }
}
