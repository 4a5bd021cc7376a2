//! Filters of `tare report` compared with those of `perf report`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{stderr, tare};

/// A recording of two shells that run loops. Its file is removed on drop.
struct FilteredRecording(PathBuf);

impl Drop for FilteredRecording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn recording(name: &str) -> FilteredRecording {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = FilteredRecording(folder.join(format!("{name}.{}.data", std::process::id())));
    let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let line = format!("sh -c '{count}; :' & sh -c '{count}; ls / >/dev/null'; wait");
    let output = tare()
        .args(["record", "-e", "cpu-clock", "-F", "2000", "--sample-cpu", "-g", "-o"])
        .arg(&file.0)
        .args(["--", "sh", "-c", &line])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    file
}

/// The sorted lines that a program prints of a recording, split into words.
fn lines(program: &mut Command, file: &Path, args: &[&str]) -> Option<Vec<Vec<String>>> {
    let output = program.args(args).arg("-i").arg(file).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines: Vec<_> = text.lines().map(words).filter(|line| !line.is_empty()).collect();
    lines.sort();
    Some(lines)
}

#[test]
fn rows_and_shares_are_perfs() {
    let file = recording("filters");
    let ids = lines(tare().args(["script", "-G"]), &file.0, &["-F", "pid,cpu"]).unwrap();
    let first = &ids[0][0];
    let last = &ids[ids.len() - 1][0];
    let cpu: u32 = ids[0][1].trim_matches(['[', ']']).parse().unwrap();
    let cpu = &cpu.to_string();
    assert_ne!(first, last);
    let usual = ["report", "--stdio", "--no-children", "-g", "none", "-q"];
    for case in [
        &["-s", "pid", "--pid", first][..],
        // Sort by process; otherwise perf filters by a row's first sample.
        &["-s", "pid,dso", "--pid", last],
        &["-s", "pid", "--tid", first],
        &["-s", "cpu", "-C", cpu],
        &["-s", "comm", "-C", "0,1"],
        // Sort by function for the same reason.
        &["-s", "comm,dso,sym", "--symbol-filter", "strcmp"],
        &["-s", "comm,dso", "-F", "+sample"],
    ] {
        let args = [&usual[..], case].concat();
        let Some(theirs) = lines(&mut Command::new("perf"), &file.0, &args) else {
            println!("skipped: perf is not installed");
            return;
        };
        let ours = lines(&mut tare(), &file.0, &args).unwrap();
        assert!(!theirs.is_empty(), "{case:?}");
        assert_eq!(ours, theirs, "{case:?}");
    }
}

#[test]
fn what_has_no_symbol_is_left_out_of_rows_and_shares() {
    let file = recording("unresolved");
    let usual = ["report", "--stdio", "--no-children", "-g", "none", "-q", "-s", "sym", "-U"];
    let rows = lines(&mut tare(), &file.0, &usual).unwrap();
    let share = |row: &Vec<String>| row[0].trim_end_matches('%').parse::<f64>().unwrap();
    let sum: f64 = rows.iter().map(share).sum();
    assert!((99.0..101.0).contains(&sum), "{sum}: {rows:?}");
    assert!(rows.iter().all(|row| !row[2].starts_with("0x")), "{rows:?}");
}

#[test]
fn keys_with_a_plus_are_added_to_the_usual_ones() {
    let file = recording("plus");
    let all = ["report", "--stdio", "--no-children", "-g", "none"];
    let rows = |more: &[&str]| lines(&mut tare(), &file.0, &[&all[..], more].concat()).unwrap();
    assert_eq!(rows(&["-s", "+cpu"]), rows(&["-s", "comm,dso,sym,cpu"]));
    assert_eq!(rows(&["-F", "+sample,period"]), rows(&["-n", "--show-total-period"]));
}
