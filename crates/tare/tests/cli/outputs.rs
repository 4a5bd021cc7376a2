//! Files that tare writes: their owner, earlier files, full disks, FIFOs and limits of size.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{is_root, status, stderr, tare, workload};

/// Makes a recording in the folder.
fn recording(folder: &Path) -> PathBuf {
    let file = folder.join("made.data");
    let mut record = tare();
    record.args(["record", "-q", "-g", "-e", "cpu-clock", "-o"]).arg(&file).arg(workload("spin"));
    let output = record.arg("50000000").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    file
}

/// Commands that write a file, each with the option that names the file last.
fn writers(recording: &str) -> Vec<Vec<&str>> {
    let mut writers = vec![
        vec!["stat", "-e", "page-faults:u", "true", "-o"],
        vec!["stat", "--json", "-e", "page-faults:u", "true", "-o"],
        vec!["flame", recording, "-o"],
        vec!["export", "-f", "folded", recording, "-o"],
        vec!["export", "-f", "pprof", recording, "-o"],
        vec!["archive", recording, "-o"],
        vec!["diff", "--stdio", recording, recording, "--flame"],
    ];
    if is_root() {
        writers.extend([
            vec!["trace", "true", "-o"],
            vec!["sched", "true", "-o"],
            vec!["lock", "true", "-o"],
            vec!["trace", "true", "--data"],
        ]);
    }
    writers
}

/// Runs a writer. Its option comes before the command that it runs.
fn write(words: &[&str], to: &Path) -> Output {
    let (option, words) = words.split_last().unwrap();
    let mut command = tare();
    command.arg(words[0]).arg(option).arg(to).args(&words[1..]).output().unwrap()
}

/// In a folder that others can write to, another user may have made the file: it would be theirs to
/// read.
#[test]
fn a_file_that_another_user_prepared_gets_nothing() {
    if !is_root() {
        println!("skipped: gives files to another user, which takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = recording(folder.path());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let file = folder.path().join("prepared");
    for words in writers(made.to_str().unwrap()) {
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        chown(&file, Some(12345), Some(12345)).unwrap();
        let prepared = fs::File::open(&file).unwrap();
        let output = write(&words, &file);
        assert_eq!(prepared.metadata().unwrap().len(), 0, "{words:?}: {output:?}");
        if status(&output) != 0 {
            println!("skipped: {words:?}: {}", stderr(&output));
            continue;
        }
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{words:?}");
        assert!(found.len() > 0, "{words:?}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_failed_run_leaves_the_earlier_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("earlier");
    let page = folder.path().join("page.html");
    let empty = folder.path().join("empty.data");
    let mut record = tare();
    record.args(["record", "-q", "-e", "alignment-faults", "-o"]).arg(&empty).arg("true");
    assert_eq!(status(&record.output().unwrap()), 0);
    let empty = empty.to_str().unwrap();
    let missing = "/none/such.data";
    let file_name = file.to_str().unwrap();
    let failing: Vec<Vec<&str>> = vec![
        vec!["record", "-o", file_name, "-p", "999999999"],
        vec!["record", "-o", file_name, "-a", "-G", "no/such/cgroup"],
        vec!["record", "-o", file_name, "/none/such/program"],
        vec!["record", "-o", file_name, "--flame", page.to_str().unwrap(), "/none/such/program"],
        vec!["stat", "-o", file_name, "-p", "999999999"],
        vec!["stat", "-o", file_name, "/none/such/program"],
        vec!["trace", "-o", file_name, "-p", "999999999"],
        vec!["sched", "-o", file_name, "-p", "999999999"],
        vec!["lock", "-o", file_name, "-p", "999999999"],
        vec!["flame", "-o", file_name, missing],
        vec!["flame", "-o", file_name, empty],
        vec!["export", "-f", "pprof", "-o", file_name, missing],
        vec!["archive", "-o", file_name, missing],
        vec!["diff", "--stdio", "--flame", file_name, missing, missing],
    ];
    for words in failing {
        fs::write(&file, "precious").unwrap();
        let before = names(folder.path());
        let output = tare().args(&words).output().unwrap();
        assert_ne!(status(&output), 0, "{words:?}: {output:?}");
        assert_eq!(fs::read(&file).unwrap(), b"precious", "{words:?}: {}", stderr(&output));
        assert_eq!(names(folder.path()), before, "{words:?}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A full disk ends the run with a message, and the earlier file stays.
#[test]
fn a_full_disk_leaves_the_earlier_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = recording(folder.path());
    let mount = folder.path().join("small");
    fs::create_dir(&mount).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=24k none {0} && cd {0} && echo precious > page.html && \
         ! {1} flame -o page.html {2} && cat page.html && ls -A",
        mount.display(),
        env!("CARGO_BIN_EXE_tare"),
        made.display()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    if !is_root() {
        println!("skipped: mounts a small disk, which takes root");
        return;
    }
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "precious\npage.html\n");
    assert!(stderr(&output).contains("No space left"), "{output:?}");
}

/// Opening a FIFO waits for its reader, and a signal could not interrupt that.
#[test]
fn a_fifo_without_a_reader_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let output = write(&["stat", "-e", "page-faults:u", "true", "-o"], &fifo);
    assert_eq!(status(&output), 125, "{output:?}");
    assert!(stderr(&output).contains("reader"), "{output:?}");
}

/// Beyond a file size limit the kernel would kill tare by SIGXFSZ, without a word.
#[test]
fn a_file_size_limit_ends_a_command_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let made = recording(folder.path());
    let made = made.to_str().unwrap();
    for words in ["flame -o page.html", "export -f pprof -o made.pprof", "archive -o made.archive"]
    {
        let line = format!("ulimit -f 0; exec {} {words} {made}", env!("CARGO_BIN_EXE_tare"));
        let output = Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output();
        let output = output.unwrap();
        assert_eq!(status(&output), 1, "{words}: {output:?}");
        assert!(stderr(&output).contains("File too large"), "{words}: {output:?}");
    }
    assert_eq!(names(folder.path()), ["made.data"]);
    // A cache that can't be written is no reason to fail.
    let mut report = Command::new("sh");
    report.args([
        "-c",
        &format!("ulimit -f 0; exec {} report --stdio -i {made}", env!("CARGO_BIN_EXE_tare")),
    ]);
    let output = report.env("XDG_CACHE_HOME", folder.path()).output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
}
