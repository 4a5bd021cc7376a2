//! `tare stat` of runs that fail, are interrupted, or are killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{document, signal, spawn_stat, stat, status, stderr, tare, wait_until};

/// Writes a script whose nth run executes the nth of `lines`, or nothing.
fn script(folder: &Path, lines: &[&str]) -> PathBuf {
    let count = folder.join("count");
    let cases: String =
        (1..).zip(lines).map(|(number, line)| format!("{number}) {line} ;;\n")).collect();
    let script = folder.join("script");
    let text = format!(
        "#!/bin/sh\necho x >> {count}\ncase $(wc -l < {count}) in\n{cases}esac\n",
        count = count.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[test]
fn failed_runs_are_named_in_every_form() {
    let lines = [":", "exit 9", "kill -SEGV $$"];
    let run = |options: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let script = script(folder.path(), &lines);
        stat(&[&["-r3", "-e", "task-clock"], options, &["--", script.to_str().unwrap()]].concat())
    };
    let note = "2 of 3 runs failed and are in the means: run 2 exited with status 9, run 3 was killed by signal 11 (SIGSEGV)";
    let text = run(&[]);
    assert_eq!(status(&text), 9);
    assert!(stderr(&text).contains(&format!("\n ({note})\n")), "{text:?}");
    let json = document(&run(&["--json", "-o", "-"]));
    assert_eq!(
        json["exits"],
        json!([
            { "status": 0, "signal": null, "ended_by_tare": false },
            { "status": 9, "signal": null, "ended_by_tare": false },
            { "status": 139, "signal": 11, "ended_by_tare": false },
        ])
    );
    // perf's forms have no place for it.
    let csv = run(&["-x,", "-o", "/dev/null"]);
    assert_eq!(stderr(&csv), format!("tare: {note}\n"));
}

#[test]
fn a_single_command_that_is_killed_or_fails_is_described() {
    let killed = stat(&["-e", "task-clock", "sh", "-c", "kill -ABRT $$"]);
    assert!(
        stderr(&killed).contains("\n (the command was killed by signal 6 (SIGABRT))\n"),
        "{killed:?}"
    );
    let failed = stat(&["-e", "task-clock", "sh", "-c", "exit 3"]);
    assert!(stderr(&failed).contains("\n (the command exited with status 3)\n"), "{failed:?}");
    let ended = stat(&["-e", "task-clock", "--timeout", "100", "sleep", "60"]);
    assert!(!stderr(&ended).contains("killed"), "tare ended it: {ended:?}");
}

#[test]
fn an_interrupted_run_is_not_in_the_means() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let third = format!("touch {}; exec sleep 60", begun.display());
    let script = script(folder.path(), &[":", ":", &third]);
    let child = spawn_stat(&[
        "-r9",
        "-e",
        "task-clock",
        "--json",
        "-o",
        "-",
        "--",
        script.to_str().unwrap(),
    ]);
    wait_until("the third run", || begun.exists());
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    let document = document(&output);
    assert_eq!(document["runs"], 2, "{document}");
    assert_eq!(document["interrupted"], json!({ "run": 3, "counted": false }));
    assert_eq!(document["times"]["elapsed_seconds"].as_array().unwrap().len(), 2);
    assert_eq!(document["events"][0]["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_comparison_counts_the_failed_runs_that_it_ignores() {
    let compare = |form: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let script = script(folder.path(), &[":", "exit 9"]);
        let options = ["--ignore-failure", "--warmup", "0", "--min-runs", "3", "--max-runs", "3"];
        let versus = ["-o", "-", "--vs", script.to_str().unwrap(), "--", "true"];
        stat(&[&options[..], form, &versus[..]].concat())
    };
    let table = compare(&[]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        text.contains(
            "\n 1 of 3 runs of B failed and are compared too: the one of pair 2 exited with status 9.\n"
        ),
        "{text}"
    );
    assert_eq!(
        document(&compare(&["--json"]))["failed_runs"],
        json!([{ "pair": 2, "side": "B", "status": 9, "signal": null }])
    );
}

#[test]
fn derived_figures_of_one_cpu_are_on_one_line() {
    if !crate::support::is_root() {
        return;
    }
    let output =
        stat(&["-a", "-A", "-C0", "--metric-only", "-e", "cpu-clock,page-faults", "--", "true"]);
    let text = stderr(&output);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("CPU0")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("cpu-clock") && lines[0].contains("page-faults"), "{text}");
}

/// The kernel keeps the peak of the forked tare over execve.
#[test]
fn peak_memory_is_the_commands_own() {
    let measured = |words: &[&str]| {
        let options = ["--json", "-o", "-", "-e", "task-clock", "--"];
        let document = document(&stat(&[&options, words].concat()));
        document["times"]["peak_memory_bytes"][0].as_u64()
    };
    let three = crate::support::workload("three");
    let Some(bytes) = measured(&[three.to_str().unwrap()]) else {
        return println!("skipped: the kernel doesn't reset the peak");
    };
    assert!(bytes < 700_000, "three instructions took {bytes} bytes");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("peak");
    let words = ["sh", "-c", "x=$(seq 100000); :"];
    let peak = std::process::Command::new(crate::support::workload("peak"))
        .arg(&file)
        .args(words)
        .status();
    assert!(peak.unwrap().success());
    let expected = 1024 * fs::read_to_string(&file).unwrap().trim().parse::<u64>().unwrap();
    let bytes = measured(&words).unwrap();
    // The kernel's figures are off by some pages for each CPU.
    assert!(bytes.abs_diff(expected) < 1 << 20, "{bytes}, {expected}");
}

#[test]
fn each_run_reads_the_same_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    fs::write(&input, "first\nsecond\nthird\n").unwrap();
    let mut file = fs::File::open(&input).unwrap();
    // The runs begin where standard input is, not at the beginning of the file.
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(6)).unwrap();
    let output =
        tare().args(["stat", "-r3", "-e", "task-clock", "wc", "-l"]).stdin(file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n2\n2\n", "{}", stderr(&output));
}
