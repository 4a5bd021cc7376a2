//! strace's options in `tare trace`.

use std::process::Command;

use regex_lite::Regex;

use crate::support::{document, sh, status, stderr, tare};
use crate::symbols::compile;
use crate::trace::can_trace;

/// Returns the trace of a command; its own output isn't mixed in.
fn trace(words: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = tare();
    command.args(["trace", "-o"]).arg(file.path());
    let output = command.args(words.split(' ')).output().unwrap();
    assert_eq!(status(&output), 0, "{words}: {output:?}");
    std::fs::read_to_string(file.path()).unwrap()
}

fn fits(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).unwrap().is_match(text)
}

#[test]
fn lines_begin_with_times_and_numbers() {
    if !can_trace() {
        return;
    }
    for (option, pattern) in [
        ("-t", r"(?m)^\d\d:\d\d:\d\d openat\("),
        ("-tt", r"(?m)^\d\d:\d\d:\d\d\.\d{6} openat\("),
        ("-ttt", r"(?m)^\d{10,}\.\d{6} openat\("),
        ("-r", r"^ {5}0\.000000 openat\((?s:.*)\n {5}\d\.\d{6} "),
        ("-tt -r", r"(?m)^\d\d:\d\d:\d\d\.\d{6} \(\+ {5}\d\.\d{6}\) openat\("),
        ("-n", r"(?m)^\[ *\d+\] openat\("),
    ] {
        let text = trace(&format!("{option} -e openat true"));
        assert!(fits(pattern, &text), "{option}: {text}");
    }
    let text = trace("-ttt -e openat true");
    let seconds: f64 = text.split('.').next().unwrap().parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((now.as_secs_f64() - seconds).abs() < 600.0, "{text}");
}

#[test]
fn strings_and_environments_are_printed_as_asked() {
    if !can_trace() {
        return;
    }
    let text = trace("-x -e write,execve printf \\001\\377a");
    assert!(text.contains(r#"write(1, "\x01\xff\x61", 3)"#), "{text}");
    assert!(text.contains(r#"["printf", "#), "text stays text: {text}");
    let text = trace("-xx -s 3 -e write echo abcdef");
    assert!(text.contains(r#"write(1, "\x61\x62\x63"..., 7)"#), "{text}");
    let text = trace("-s 3 -e write echo abcdef");
    assert!(text.contains(r#"write(1, "abc"..., 7)"#), "{text}");
    let text = trace("-v -e execve env -i LEFT=1 /bin/true");
    assert!(text.contains(r#", ["LEFT=1"]) "#), "{text}");
}

#[test]
fn selects_paths_signals_and_unmarked_classes() {
    if !can_trace() {
        return;
    }
    let text = trace("-P /etc/passwd cat /etc/passwd /etc/group");
    let opened = r#"openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3"#;
    assert!(text.starts_with(opened) && text.contains("\nclose(3)"), "{text}");
    assert!(!text.contains("/etc/group") && text.matches("openat(").count() == 1, "{text}");
    let text = trace("-e trace=file -e signal=none sh -c /bin/true;:");
    assert!(text.contains("openat(") && !text.contains("read("), "{text}");
    assert!(!text.contains("SIGCHLD"), "{text}");
    let text = trace("-e none -e signal=chld sh -c /bin/true;:");
    assert!(text.contains("--- SIGCHLD"), "{text}");
    let wrong = tare().args(["trace", "-e", "signal=SIGNOPE", "true"]).output().unwrap();
    assert_eq!((status(&wrong), stderr(&wrong).lines().count()), (2, 1), "{wrong:?}");
}

#[test]
fn sums_stand_alone_or_below_the_lines() {
    if !can_trace() {
        return;
    }
    let sums = trace("-c -e openat cat /dev/null");
    assert!(sums.starts_with("% time") && !sums.contains("openat("), "{sums}");
    let both = trace("-C -e openat cat /dev/null");
    let lines = both.matches("openat(").count();
    let row = both.lines().find(|line| line.contains("  openat")).unwrap();
    let calls: usize = row.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert_eq!(lines, calls, "{both}");
}

/// The verifier once took half a second for the programs of `tare trace`, ten times as long as for
/// those of `-s`.
#[test]
fn loading_the_programs_costs_little() {
    if !can_trace() || !sh("command -v bash").status.success() {
        return;
    }
    let seconds = |options: &str| {
        let line = format!(
            "for i in 1 2 3; do $TARE trace {options} -o /dev/null true; done; times | tail -1"
        );
        let mut command = Command::new("bash");
        command.args(["-c", &line]).env("TARE", env!("CARGO_BIN_EXE_tare"));
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let system = text.split_whitespace().nth(1).unwrap().trim_end_matches('s');
        let (minutes, seconds) = system.split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    let lines = seconds("");
    let sums = seconds("-s");
    assert!(lines < 4.0 * sums + 0.03, "{lines} s against {sums} s");
}

/// Numbers that the kernel's table lacks, also beyond the slots that tare's sums have for it.
#[test]
fn calls_without_a_name_keep_their_numbers_in_lines_and_sums() {
    if !can_trace() {
        return;
    }
    let source = "#define _GNU_SOURCE\n#include <unistd.h>
         int main(void) {
             for (int i = 0; i < 3; i++) { syscall(9999); syscall(-5); }
             syscall(500); syscall(511); syscall(512);
             return 0;
         }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "numbers", &[]) else { return };
    let program = program.to_str().unwrap();
    let wanted = [("9999", 3), ("4294967291", 3), ("500", 1), ("511", 1), ("512", 1)];
    let output = tare().args(["trace", "-s", "--json", "--", program]).output().unwrap();
    let sums = document(&output);
    for (number, calls) in wanted {
        let number: u64 = number.parse().unwrap();
        let rows = sums["calls"].as_array().unwrap();
        let row = rows.iter().find(|row| row["number"] == number);
        let row = row.unwrap_or_else(|| panic!("{number}: {sums}"));
        let name = format!("syscall_{number:#x}");
        assert!(row["call"] == name && row["calls"] == calls, "{row}");
        assert_eq!(row["errors"]["ENOSYS"], calls, "{row}");
        let lines = stderr(&tare().args(["trace", "--", program]).output().unwrap());
        assert_eq!(lines.matches(&format!("{name}(")).count(), calls, "{lines}");
    }
}
