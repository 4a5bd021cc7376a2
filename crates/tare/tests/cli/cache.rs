//! Symbols are cached by build id, so a second report doesn't need the binary.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{stderr, tare};
use crate::symbols::build_id;

/// Builds a program with a number of functions besides `main`, three of which run.
pub(crate) fn program(folder: &Path, functions: usize) -> PathBuf {
    let text = folder.join("many.c");
    let binary = folder.join("many");
    let functions: String = (0..functions)
        .map(|n| format!("__attribute__((noinline)) int function_{n}(int a) {{ for (volatile int i = 0; i < 20000; i++) a += i ^ {n}; return a; }}\n"))
        .collect();
    let main = "int main(void) { int a = 0; for (int i = 0; i < 1500; i++) a += function_7(i) + function_77(i) + function_777(i); return a == 1; }\n";
    std::fs::write(&text, functions + main).unwrap();
    let mut cc = Command::new("cc");
    let built =
        cc.args(["-O1", "-g", "-Wl,--build-id=sha1", "-o"]).arg(&binary).arg(&text).status();
    assert!(built.unwrap().success(), "a machine without a C compiler can't build tare either");
    binary
}

/// A recorded program in a folder, with a folder for the cache.
struct CachedRecording {
    folder: tempfile::TempDir,
    binary: PathBuf,
}

impl CachedRecording {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let binary = program(folder.path(), 3000);
        std::fs::create_dir(folder.path().join("cache")).unwrap();
        let mut record = tare();
        record.args(["record", "-e", "cpu-clock:u", "-o"]).arg(folder.path().join("perf.data"));
        let output = record.arg("--").arg(&binary).output().unwrap();
        if !output.status.success() {
            println!("skipped: can't record here: {}", stderr(&output));
            return None;
        }
        Some(Self { folder, binary })
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = tare();
        command.args(["report", "--no-children", "-g", "none", "-i"]);
        command.arg(self.folder.path().join("perf.data")).args(options);
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache")).stdin(Stdio::null());
        command
    }

    fn report(&self, options: &[&str]) -> String {
        let output = self.command(options).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The cached files, by name.
    fn kept(&self) -> Vec<PathBuf> {
        let Ok(files) = std::fs::read_dir(self.folder.path().join("cache/tare/symbols")) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

#[test]
fn a_second_report_is_the_first_ones_also_without_the_binary() {
    let Some(recorded) = CachedRecording::new() else { return };
    let first = recorded.report(&["--no-cache"]);
    assert!(first.contains("function_777") && recorded.kept().is_empty(), "{first}");
    assert_eq!(recorded.report(&[]), first);
    let kept = recorded.kept();
    assert!(!kept.is_empty(), "the program's symbols are kept");
    for path in &kept {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    let folder = kept[0].parent().unwrap().metadata().unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    std::fs::remove_file(&recorded.binary).unwrap();
    assert_eq!(recorded.report(&[]), first);
    assert!(!recorded.report(&["--no-cache"]).contains("function_777"));
    assert_eq!(recorded.kept(), kept);
}

/// An archive has the debug file although this machine's cache holds its symbols: another machine
/// has another cache.
#[test]
fn an_archive_has_files_whose_symbols_are_kept() {
    let Some(recorded) = CachedRecording::new() else { return };
    let folder = recorded.folder.path();
    let script = "objcopy --only-keep-debug many debug && strip many && mkdir -p .build-id/$0 && mv debug .build-id/$0/$1.debug";
    let id = build_id(&recorded.binary);
    let (front, rest) = id.split_at(2);
    let split = Command::new("sh").args(["-ec", script, front, rest]).current_dir(folder).status();
    assert!(split.unwrap().success());
    let debug_dir = format!("--debug-dir={}", folder.display());
    let first = recorded.report(&[&debug_dir]);
    assert!(first.contains("function_777") && !recorded.kept().is_empty(), "{first}");
    let archive = folder.join("all.tar.zst");
    let mut pack = tare();
    pack.args(["archive", &debug_dir, "-o"]).arg(&archive).arg(folder.join("perf.data"));
    let output = pack.env("XDG_CACHE_HOME", folder.join("cache")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let list = Command::new("tar").args(["--zstd", "-tf"]).arg(&archive).output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.contains(&format!("{rest}/debug")), "{list}");
}

/// A cache file that is truncated, changed, writable by other users or a link leads to a new lookup
/// or a message, never to a wrong name.
#[test]
fn what_was_damaged_is_looked_up_again() {
    let Some(recorded) = CachedRecording::new() else { return };
    let whole = recorded.report(&[]);
    let Some(path) = recorded.kept().pop() else { panic!("nothing is kept") };
    let bytes = std::fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 20) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        for damaged in [&bytes[..at], &changed] {
            std::fs::write(&path, damaged).unwrap();
            let report = recorded.report(&[]);
            let is_said = report.contains("the cache had damaged symbols");
            assert!(report == whole || is_said, "{at}: {report}");
            assert_eq!(recorded.report(&[]), whole, "{at}: it is mended");
        }
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    std::fs::write(&path, b"anybody could write this").unwrap();
    assert_eq!(recorded.report(&[]), whole);
    let elsewhere = recorded.folder.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(recorded.report(&[]), whole);
    assert!(!path.is_symlink(), "a link is replaced, not followed");
}

#[test]
fn readers_at_once_see_the_same() {
    let Some(recorded) = CachedRecording::new() else { return };
    let expected = recorded.report(&["--no-cache"]);
    let start = || recorded.command(&[]).stdout(Stdio::piped()).spawn().unwrap();
    let running: Vec<_> = (0..6).map(|_| start()).collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
    let left =
        recorded.kept().into_iter().filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    assert_eq!(left.count(), 0);
}
