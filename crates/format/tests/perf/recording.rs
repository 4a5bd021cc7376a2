//! Recordings made by `perf`, in temporary folders.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Some user time, some system calls, some short-lived processes.
pub(crate) const WORKLOAD: &str =
    "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; for k in 1 2 3; do /bin/true; done";

pub(crate) struct PerfRecording {
    pub(crate) path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Whether a program is missing. Prints a line if so.
pub(crate) fn is_missing(program: &str) -> bool {
    let is_missing = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err();
    if is_missing {
        println!("skipped: {program} is not installed");
    }
    is_missing
}

/// Makes a recording as a file; `None` if `perf` is missing or can't make it here.
pub(crate) fn record(options: &[&str]) -> Option<PerfRecording> {
    run(options, |path| (path.display().to_string(), Stdio::null()))
}

/// Makes a recording as a stream, saved in a file; `None` as for [`record`].
pub(crate) fn record_to_pipe(options: &[&str]) -> Option<PerfRecording> {
    run(options, |path| ("-".to_owned(), File::create(path).unwrap().into()))
}

fn run(
    options: &[&str],
    output: impl FnOnce(&PathBuf) -> (String, Stdio),
) -> Option<PerfRecording> {
    if is_missing("perf") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let (name, stdout) = output(&path);
    let mut perf = Command::new("perf");
    perf.args(["record", "--no-bpf-event", "-o", &name])
        .args(options)
        .args(["--", "sh", "-c", WORKLOAD]);
    let done = perf
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    if !done.status.success() {
        println!("skipped: perf record {options:?}: {}", String::from_utf8_lossy(&done.stderr));
        return None;
    }
    Some(PerfRecording { path, _folder: folder })
}
