//! Recordings that earlier versions wrote are readable, with their ledgers, and so are their caches
//! of symbols. Each release adds files to `crates/tare/tests/recordings`, by `write_the_files`:
//!
//! ```text
//! VERSION.data            a recording
//! VERSION.ledger.json     its ledger, as that version's `tare report --json` prints it
//! VERSION.cache/          another recording, and the cached symbols of its program
//! ```

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cache::program;
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

/// Whether `now` has everything that `then` has, with the same values.
fn has_all_of(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            then.iter().all(|(name, then)| now.get(name).is_some_and(|now| has_all_of(now, then)))
        }
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len() && now.iter().zip(then).all(|(now, then)| has_all_of(now, then))
        }
        _ => now == then,
    }
}

fn ledger(file: &Path) -> Value {
    let document: Value = serde_json::from_str(&printed("report", file, &["--json"])).unwrap();
    document["ledger"].clone()
}

#[test]
fn ledgers_of_every_version_have_their_figures() {
    for (version, file) in recordings() {
        let kept = std::fs::read(folder().join(format!("{version}.ledger.json"))).unwrap();
        let kept: Value = serde_json::from_slice(&kept).unwrap();
        assert_eq!(kept["finished"], true, "{version}");
        let now = ledger(&file);
        assert!(has_all_of(&now, &kept), "{version}: {now:#}");
    }
}

/// Puts the cached symbols of a version into a cache folder of this user.
fn take_cache(kept: &Path, cache: &Path) {
    let symbols = cache.join("tare/symbols");
    std::fs::create_dir_all(&symbols).unwrap();
    std::fs::set_permissions(&symbols, PermissionsExt::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(kept).unwrap() {
        let from = entry.unwrap().path();
        if from.extension().is_some_and(|end| end != "data") {
            let to = symbols.join(from.file_name().unwrap());
            std::fs::copy(&from, &to).unwrap();
            std::fs::set_permissions(&to, PermissionsExt::from_mode(0o600)).unwrap();
        }
    }
}

/// The program itself is gone.
#[test]
fn caches_of_every_version_name_functions() {
    for (version, _) in recordings() {
        let kept = folder().join(format!("{version}.cache"));
        let cache = tempfile::tempdir().unwrap();
        take_cache(&kept, cache.path());
        let report = |options: &[&str]| {
            let mut report = tare();
            report.args(["report", "--stdio", "--no-children", "-g", "none", "-i"]);
            report.arg(kept.join("recording.data")).args(options);
            let output = report.env("XDG_CACHE_HOME", cache.path()).output().unwrap();
            assert_eq!(status(&output), 0, "{version}: {}", stderr(&output));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let named = report(&[]);
        assert!(named.contains("function_777"), "{version}: {named}");
        assert!(!report(&["--no-cache"]).contains("function_777"), "{version}");
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
    assert!(kept, "cargo nextest run -p tare-perf --run-ignored only write_the_files");
}

/// Writes the files of this version. They hold no path of the machine: the command line is
/// relative, and the cached program lies in a folder of its own.
#[test]
#[ignore = "once per version, by hand"]
fn write_the_files() {
    let version = env!("CARGO_PKG_VERSION");
    let recording = folder().join(format!("{version}.data"));
    let mut record = tare();
    record.arg0("tare").env("XDG_STATE_HOME", std::env::temp_dir()).current_dir(folder());
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o"]).arg(&recording);
    record.args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000"]);
    assert!(record.status().unwrap().success());
    write_the_ledger(version);
    write_the_cache(version);
}

fn write_the_ledger(version: &str) {
    let ledger = ledger(&folder().join(format!("{version}.data")));
    std::fs::write(folder().join(format!("{version}.ledger.json")), format!("{ledger:#}\n"))
        .unwrap();
}

fn write_the_cache(version: &str) {
    let place = Path::new("/tmp/tare-kept");
    std::fs::create_dir_all(place).unwrap();
    let binary = program(place, 2100);
    let kept = folder().join(format!("{version}.cache"));
    std::fs::create_dir_all(&kept).unwrap();
    let mut record = tare();
    record.arg0("tare").args(["record", "-q", "-e", "cpu-clock:u", "-F", "199", "-o"]);
    assert!(
        record.arg(kept.join("recording.data")).arg("--").arg(binary).status().unwrap().success()
    );
    let mut report = tare();
    report.args(["report", "--stdio", "-i"]).arg(kept.join("recording.data"));
    assert!(report.env("XDG_CACHE_HOME", place).output().unwrap().status.success());
    for entry in std::fs::read_dir(place.join("tare/symbols")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::remove_dir_all(place).unwrap();
}
