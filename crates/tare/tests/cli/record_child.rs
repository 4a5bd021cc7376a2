//! `tare record` of whole CPUs with a command: the recording excludes what the command's process
//! did before its execve, as tare's waiting child.

use crate::recorded::{RecordingFolder, perf_script, read, samples_of};
use crate::support::{is_root, sh, stderr, tare};

/// Options that record system calls on whole CPUs in several ways.
const WAYS: [&[&str]; 5] = [
    &["-a"],
    &["-a", "--readers", "2"],
    &["-a", "--overwrite"],
    &["-a", "--keep-last", "9"],
    &["--follow=system"],
];

#[test]
fn what_the_waiting_child_does_is_in_no_file() {
    if !is_root() {
        return;
    }
    for way in WAYS {
        let place = RecordingFolder::new();
        let events = ["--no-call-graph", "-e", "raw_syscalls:*", "-m", "4M"];
        let command = ["--", "sh", "-c", "/bin/true; echo $$"];
        let output = place.run(&[way, &events, &command].concat());
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));
        let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let found = read(&place.file());
        assert_eq!(samples_of(found.ledger.as_ref().unwrap()), found.samples, "{way:?}");
        let own = |line: &&String| line.split_whitespace().nth(1) == Some(&root);
        if let Some(lines) = perf_script(&["-F", "comm,tid,trace"], &place.file()) {
            let names: Vec<&String> = lines.iter().filter(own).collect();
            assert!(names.len() > 20, "{way:?}: {names:?}");
            assert!(
                names.iter().all(|line| line.trim_start().starts_with("sh ")),
                "{way:?}: {names:?}"
            );
            // The new program's first event is the return of its execve.
            assert!(
                names[0].contains("NR 59 = 0") || cfg!(not(target_arch = "x86_64")),
                "{names:?}"
            );
        }
        let script = tare().args(["script", "-F", "comm,tid", "-i"]).arg(place.file()).output();
        let text = String::from_utf8_lossy(&script.unwrap().stdout).into_owned();
        let rows: Vec<_> = text.lines().filter(|line| line.trim_end().ends_with(&root)).collect();
        assert!(
            rows.len() > 20 && rows.iter().all(|row| row.trim_start().starts_with("sh ")),
            "{way:?}: {rows:?}"
        );
    }
}

#[test]
fn a_child_that_executes_nothing_has_no_samples() {
    if !is_root() {
        return;
    }
    let place = RecordingFolder::new();
    let program = place.folder.path().join("no-program");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    sh(&format!("chmod 755 {}", program.display()));
    let output = place.run(&["-a", "-e", "raw_syscalls:*", "--", program.to_str().unwrap()]);
    assert!(!output.status.success(), "{}", stderr(&output));
    if let Some(lines) = perf_script(&["-F", "comm,tid"], &place.file()) {
        assert!(!lines.iter().any(|line| line.trim_start().starts_with("tare ")), "{lines:?}");
    }
}
