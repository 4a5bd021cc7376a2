//! What users read when something fails: plain words, without the numbers, ranges and repetitions of
//! the libraries below.

use std::process::{Command, Output, Stdio};

use crate::support::{is_root, status, stderr, tare};

/// Command lines that fail, each with the words that its message has. `REC` is a recording, and
/// `/no` and `/no/x` don't exist.
const FAILURES: [(&str, &str); 65] = [
    ("report -i /no", "there is no /no"),
    ("report -i /", "is a folder"),
    ("report -i /etc/passwd", "not a perf.data file"),
    ("report -i REC --vmlinux /no", "/no"),
    ("report -i REC --max-stack x", "that is not a whole number"),
    ("report -i REC --percent-limit x", "that is not a number"),
    ("script -i /no", "there is no /no"),
    ("script -i /etc", "is a folder"),
    ("evlist -i /etc/passwd", "not a perf.data file"),
    ("buildid-list -i /no", "there is no /no"),
    ("annotate -i /no main", "there is no /no"),
    ("diff /no /no", "there is no /no"),
    ("flame -i REC -o /no/x.html", "-o /no/x.html: No such file or directory"),
    ("export -i REC -f pprof -o /no/x", "-o /no/x: No such file or directory"),
    ("export -i REC -f folded -o /", "-o /: Is a directory"),
    ("archive -o /no/x REC", "/no/x: No such file or directory"),
    ("inject -i /no -o x", "/no: No such file or directory"),
    ("inject -i REC -o /no/x", "/no/x: No such file or directory"),
    ("kallsyms --kallsyms /no x", "/no: No such file or directory"),
    ("sched -i /no", "there is no /no"),
    ("lock -i /no", "there is no /no"),
    ("record -o /no/x true", "-o /no/x: No such file or directory"),
    ("record -o / true", "Is a directory"),
    ("record -o x -p 999999999", "there is no process 999999999"),
    ("record -o x -t x", "x"),
    ("record -o x -u no-such-user", "no user 'no-such-user'"),
    ("record -o x -c 0 true", "give at least 1"),
    ("record -o x -c -1 true", "there is no option '-1'"),
    ("record -o x -c 99999999999999999999 true", "that number is too large"),
    ("record -o x -m 0 true", "-m 0"),
    ("record -o x -F x true", "-F x"),
    ("record -o x -r 100 true", "give a number from 1 to 99"),
    ("record -o x --compression-level=99 true", "give a number from 1 to 22"),
    ("record -o x --min-rate 0 --max-overhead 1 true", "give at least 1"),
    ("record -o x --flush-interval 0 true", "give a number from 1 to 3600000"),
    ("record -o x --readers 65 true", "give a number from 1 to 64"),
    ("record -o x --control fifo:/no/x true", "/no/x: No such file or directory"),
    ("record -o x --control fd:9999 true", "Bad file descriptor"),
    ("record -o x --keep-binaries=/proc/x true", "/proc/x: No such file or directory"),
    ("record -o x --timeout 0", "give at least 1"),
    ("record -o x --flame /no/x.html true", "/no/x.html: No such file or directory"),
    ("record -o x /etc/passwd", "'/etc/passwd': Permission denied"),
    ("record -o x /no", "'/no': command not found"),
    ("stat /etc/passwd", "'/etc/passwd': Permission denied"),
    ("stat /no", "'/no': command not found"),
    ("stat -o /no/x true", "-o /no/x: No such file or directory"),
    ("stat --log-fd 9999 true", "9999"),
    ("stat -r x true", "that is not a whole number"),
    ("stat -I 0 true", "give at least 1"),
    ("stat -I 10 --interval-count 0 true", "give at least 1"),
    ("stat -p 999999999", "999999999"),
    ("stat -e uprobe:/no:x true", "/no"),
    ("stat --vs /no true", "'/no'"),
    ("stat --input /no -r 2 true", "--input"),
    ("trace -o /no/x true", "-o /no/x: No such file or directory"),
    ("trace /etc/passwd", "'/etc/passwd': Permission denied"),
    ("trace -p 999999999", "999999999"),
    ("trace --probe /no:x true", "/no: no such file"),
    ("trace --probe /etc/passwd:x true", "not an ELF file"),
    ("trace --slowest 99 --probe sh:main sh", "give a number from 0 to 32"),
    ("trace --data /no/x true", "/no/x: No such file or directory"),
    ("sched -o /no/x true", "-o /no/x: No such file or directory"),
    ("lock -o /no/x true", "-o /no/x: No such file or directory"),
    ("top -p 999999999 --stdio", "there is no process 999999999"),
    ("top -d 0 --stdio", "-d 0"),
];

/// Texts of errors that must not stand twice in a message.
const ONCE: [&str; 7] = [
    "No such file or directory",
    "Permission denied",
    "Is a directory",
    "Bad file descriptor",
    "Operation not permitted",
    "No such process",
    "Invalid argument",
];

/// Panics if a message has an error number, a range or a type's bound in Rust's notation, or says a
/// thing twice.
fn check_words(line: &str, said: &str) {
    for text in ["(os error", "18446744073709551615", "4294967295", "..=", "1..", "Some(", "Err("] {
        assert!(!said.contains(text), "{line}: {said}");
    }
    for message in said.lines() {
        for text in ONCE {
            assert!(message.matches(text).count() < 2, "{line}: {message}");
        }
        let parts: Vec<&str> = message.split(": ").collect();
        assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "{line}: {message}");
    }
    // Tests of other rights run as root, too.
    if rustix::process::geteuid().is_root() {
        for text in ["run tare as root", "run as root", "needs root", "only root"] {
            assert!(!said.contains(text), "{line}: {said}");
        }
    }
}

fn run(command: &mut Command, folder: &std::path::Path) -> Output {
    command.current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn messages_of_failures_are_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let recording = recording.to_str().unwrap();
    let mut record = tare();
    record.args(["record", "-q", "-e", "page-faults:u", "-c", "1", "-o", recording, "true"]);
    assert_eq!(status(&run(&mut record, folder.path())), 0);
    for (line, wanted) in FAILURES {
        let line = line.replace("REC", recording);
        let output = run(tare().args(line.split(' ')), folder.path());
        let said = stderr(&output);
        check_words(&line, &said);
        assert_ne!(status(&output), 0, "{line}: {said}");
        assert!(said.contains(wanted), "{line}: {said}");
    }
}

/// Root in a container lacks capabilities, and isn't told to be root.
#[test]
fn root_without_capabilities_is_not_told_to_be_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        "trace true",
        "trace -a -s true",
        "trace --kprobe vfs_read true",
        "trace --probe sh:main sh -c :",
        "sched true",
        "lock true",
        "record -o x --off-cpu true",
        "record -o x -a true",
        "record -o x -e sched:sched_switch true",
        "stat -a true",
        "stat -e sched:sched_switch true",
        "list",
        "kallsyms schedule",
        "overhead --timeout 1 true",
    ];
    for line in lines {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_tare")]);
        let Ok(output) = command.args(line.split(' ')).current_dir(folder.path()).output() else {
            return println!("skipped: setpriv is not installed");
        };
        check_words(line, &stderr(&output));
        check_words(line, &String::from_utf8_lossy(&output.stdout));
    }
}
