//! Recordings that earlier versions wrote are readable, with their ledgers. Each release adds the
//! file `crates/tare/tests/recordings/VERSION.data`, by the command in `write_the_recording`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::support::{document, status, stderr, tare};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// The recordings with their versions.
fn recordings() -> Vec<(String, PathBuf)> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|end| end == "data"));
    files.map(|file| (file.file_stem().unwrap().to_string_lossy().into_owned(), file)).collect()
}

fn printed(command: &str, file: &Path, args: &[&str]) -> String {
    let output = tare().args([command, "-i"]).arg(file).args(args).output().unwrap();
    assert_eq!(status(&output), 0, "{command} {file:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn recordings_of_every_version_have_their_samples_and_ledger() {
    let recordings = recordings();
    assert!(!recordings.is_empty());
    for (version, file) in recordings {
        assert!(file.metadata().unwrap().len() < 64 << 10, "{version}: keep a small recording");
        let report = printed("report", &file, &["--stdio", "--no-children", "-g", "none"]);
        let has_command = |line: &str| line.contains("% ") && line.contains("dd");
        assert!(report.lines().any(has_command), "{version}:\n{report}");
        // The ledger's lines, as the version's own recorder wrote them into the file.
        for part in [" samples in ", "none lost", "# coverage:", "# the recorder:"] {
            assert!(report.contains(part), "{version}: no {part:?} in\n{report}");
        }
        let lines = printed("script", &file, &["-F", "comm,event,ip"]).lines().count();
        assert!(lines > 10, "{version}: {lines} lines");
        assert!(printed("evlist", &file, &[]).contains("cpu-clock"), "{version}");
    }
}

#[test]
fn this_version_has_a_recording() {
    let output = tare().args(["version", "--json"]).output().unwrap();
    let document = document(&output);
    assert_eq!(document["version"], 1);
    assert_eq!(document["options"]["optimized"], !cfg!(debug_assertions));
    let own = document["tare"].as_str().unwrap();
    assert_eq!(own, env!("CARGO_PKG_VERSION"));
    let kept = recordings().iter().any(|(version, _)| version == own);
    assert!(kept, "cargo nextest run -p tare-perf --run-ignored only write_the_recording");
}

/// Writes the recording of this version. It holds no path of the machine: the command line is
/// relative.
#[test]
#[ignore = "once per version, by hand"]
fn write_the_recording() {
    let mut record = tare();
    record.arg0("tare").env("XDG_STATE_HOME", std::env::temp_dir()).current_dir(folder());
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o"]);
    record.arg(concat!(env!("CARGO_PKG_VERSION"), ".data"));
    record.args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000"]);
    assert!(record.status().unwrap().success());
}
