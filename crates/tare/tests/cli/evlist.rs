//! `tare evlist`, `buildid-list` and `kallsyms` compared with perf's commands; `tare version`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{is_root, status, stderr, tare};

fn text(program: &mut Command, args: &[&str], file: Option<&Path>) -> Option<String> {
    let program = program.args(args).stdin(Stdio::null());
    let program = match file {
        Some(file) => program.arg("-i").arg(file),
        None => program,
    };
    Some(String::from_utf8_lossy(&program.output().ok()?.stdout).into_owned())
}

/// Asserts that tare and perf print the same lines in any order. `line` normalizes a line; empty
/// ones are left out.
fn compare(args: &[&str], file: Option<&Path>, line: impl Fn(&str) -> String) {
    let lines = |text: String| {
        let mut lines: Vec<_> = text.lines().map(&line).filter(|line| !line.is_empty()).collect();
        lines.sort();
        lines
    };
    let ours = lines(text(&mut tare(), args, file).unwrap());
    assert!(!ours.is_empty(), "{args:?}");
    match text(&mut Command::new("perf"), args, file) {
        Some(theirs) => assert_eq!(ours, lines(theirs), "{args:?}"),
        None => println!("skipped: perf is not installed"),
    }
}

fn recorded(events: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut tare = tare();
    tare.args(["record", "-F", "4000", "-o"]).arg(&file).args(events);
    let line = "expr 1 + 1; ls / >/dev/null";
    let output = tare.args(["--", "sh", "-c", line]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    (folder, file)
}

#[test]
fn events_are_listed_as_perf_lists_them() {
    let (_folder, file) = recorded(&["-e", "{cpu-clock,page-faults}", "-e", "context-switches"]);
    let whole = |line: &str| line.trim().to_owned();
    compare(&["evlist"], Some(&file), whole);
    compare(&["evlist", "-F"], Some(&file), whole);
    compare(&["evlist", "-g"], Some(&file), whole);
    // The tools print different sizes of the structure. perf 6.1 leaves a config of 0 out.
    let known = |line: &str| {
        let shown = |word: &&str| !word.starts_with("size: ") && *word != "config: 0x0";
        line.trim().split(", ").filter(shown).collect::<Vec<_>>().join(", ")
    };
    compare(&["evlist", "-v"], Some(&file), known);
    let json = text(&mut tare(), &["evlist", "--json"], Some(&file)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0], serde_json::json!([0, 1]));
    assert_eq!(json["events"][0]["sample_freq"], 4000);
}

#[test]
fn build_ids_are_listed_as_perf_lists_them() {
    if !is_root() {
        return;
    }
    let (_folder, file) = recorded(&["-e", "cpu-clock"]);
    let whole = |line: &str| line.trim().to_owned();
    compare(&["buildid-list"], Some(&file), whole);
    compare(&["buildid-list", "-H"], Some(&file), whole);
    compare(&["buildid-list", "-k"], None, whole);
    compare(&["buildid-list"], Some(Path::new("/bin/sh")), whole);
    let json = text(&mut tare(), &["buildid-list", "--json"], Some(&file)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 1);
    assert!(json["files"].as_array().is_some_and(|files| files.len() > 2), "{json}");
}

/// In a stream of perf, the first record after the description of the events is the kernel's
/// mapping.
#[test]
fn a_stream_lists_the_build_ids_of_all_its_records() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shell = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).current_dir(&folder).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let record = "perf record -q --buildid-mmap -e cpu-clock -o - -- sh -c ':' > stream.data";
    if !shell(record).0 {
        return println!("skipped: no perf that can record");
    }
    let listed = |how: &str| shell(&format!("{} buildid-list {how}", env!("CARGO_BIN_EXE_tare"))).1;
    let streamed = listed("-i - < stream.data");
    assert!(streamed.contains("[kernel.kallsyms]"), "{streamed}");
    assert_eq!(streamed, listed("-i stream.data"));
}

#[test]
fn symbols_of_the_kernel_are_found_as_perf_finds_them() {
    if !is_root() {
        return;
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    compare(&["kallsyms", "schedule", "no_such_symbol_at_all"], None, words);
    let json = text(&mut tare(), &["kallsyms", "--json", "schedule"], None).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["symbols"][0]["name"], "schedule");
}

#[test]
fn a_version_is_said_in_perfs_form() {
    let said = text(&mut tare(), &["version"], None).unwrap();
    assert_eq!(said, format!("tare version {}\n", env!("CARGO_PKG_VERSION")));
    let said = text(&mut tare(), &["version", "--build-options"], None).unwrap();
    assert!(said.contains("parquet: [ on  ]  # "), "{said}");
    let output = tare().args(["evlist", "-i", "/nonexistent"]).output().unwrap();
    assert_eq!(status(&output), 1, "{}", stderr(&output));
}
