//! Finding the file of an address: separate debug files, and moved or deleted files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{ProcessGuard, document, is_root, stderr, tare, wait_until};
use crate::symbols::{SPIN, both_show, build_id, compile, names, record, run};

/// Executes a file from memory.
const FROM_MEMORY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
    int from = open(words[1], O_RDONLY), to = memfd_create("program", MFD_CLOEXEC);
    while (sendfile(to, from, 0, 1 << 20) > 0) { }
    fexecve(to, words + 1, environ);
    return 1;
}
"#;

/// A stripped program, its recording, and its debug file in a folder that tare doesn't know.
struct Stripped {
    folder: tempfile::TempDir,
    file: PathBuf,
    binary: PathBuf,
    debug: PathBuf,
    id: String,
}

impl Stripped {
    fn record() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let binary = compile(path, SPIN, "spin", &["-Wl,--build-id=sha1"])?;
        let file = path.join("perf.data");
        let id = build_id(&binary);
        run("objcopy", &["--only-keep-debug", "spin", "apart"], path);
        run("objcopy", &["--strip-all", "spin"], path);
        record(&binary, &file)?;
        let debug = path.join("apart");
        Some(Self { folder, file, binary, debug, id })
    }

    fn put(&self, at: &Path) {
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::copy(&self.debug, at).unwrap();
    }

    /// Whether both commands show the function, with these environment variables.
    fn shows(&self, options: &[&str], environment: &[(&str, &Path)]) -> bool {
        let shown = ["report", "script"].map(|command| {
            let mut tare = tare();
            tare.args([command, "-i"]).arg(&self.file).args(options).env_remove("HOME");
            tare.envs(environment.iter().copied());
            let output = tare.output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            String::from_utf8_lossy(&output.stdout).contains("hot_function")
        });
        assert_eq!(shown[0], shown[1]);
        shown[0]
    }
}

#[test]
fn a_debug_file_is_found_by_build_id() {
    let Some(stripped) = Stripped::record() else { return };
    let folder = stripped.folder.path();
    let (front, rest) = stripped.id.split_at(2);
    assert!(!stripped.shows(&[], &[]), "nothing has the debug file yet");
    let named = folder.join("named");
    stripped.put(&named.join(format!(".build-id/{front}/{rest}.debug")));
    let options = ["--debug-dir", "/nowhere", "--debug-dir", named.to_str().unwrap()];
    assert!(stripped.shows(&options, &[]), "--debug-dir");
    let home = folder.join("home");
    stripped.put(&home.join(format!(".debug/.build-id/{front}/{rest}/debug")));
    assert!(stripped.shows(&[], &[("HOME", &home)]), "what perf keeps");
    let kept = home.join(".debug");
    assert!(stripped.shows(&["--buildid-dir", kept.to_str().unwrap()], &[]), "--buildid-dir");
    for (variable, place) in [
        ("DEBUGINFOD_CACHE_PATH", ""),
        ("XDG_CACHE_HOME", "debuginfod_client"),
        ("HOME", ".cache/debuginfod_client"),
        ("HOME", ".debuginfod_client_cache"),
    ] {
        let cache = folder.join(format!("{variable}{place}").replace('/', "_"));
        stripped.put(&cache.join(place).join(&stripped.id).join("debuginfo"));
        assert!(stripped.shows(&[], &[(variable, &cache)]), "{variable} {place}");
    }
    // A debug file of another build is ignored, wherever it lies.
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    let source = SPIN.replace("hot_function", "other_function");
    compile(&other, &source, "spin", &["-Wl,--build-id=sha1"]).unwrap();
    let at = named.join(format!(".build-id/{front}/{rest}.debug"));
    std::fs::copy(other.join("spin"), at).unwrap();
    assert!(!stripped.shows(&options, &[]));
    assert!(stripped.binary.exists());
}

#[test]
fn the_report_says_what_would_name_most_samples() {
    let Some(stripped) = Stripped::record() else { return };
    let said = |options: &[&str], urls: Option<&str>| {
        let mut tare = tare();
        tare.args(["report", "--json", "-i"]).arg(&stripped.file).args(options).env_remove("HOME");
        tare.env_remove("DEBUGINFOD_URLS");
        urls.map(|urls| tare.env("DEBUGINFOD_URLS", urls));
        let document = document(&tare.output().unwrap());
        let unnamed = &document["loss"]["unnamed"];
        (unnamed["percent"].as_f64(), unnamed["remedy"].as_str().map(str::to_owned))
    };
    let (percent, remedy) = said(&[], None);
    assert!(percent.is_some_and(|percent| (5.0..=100.0).contains(&percent)), "{percent:?}");
    let remedy = remedy.unwrap();
    assert!(remedy.starts_with("DEBUGINFOD_URLS="), "{remedy}");
    assert!(remedy.ends_with(&format!("build id {}", stripped.id)), "{remedy}");
    let (_, remedy) = said(&[], Some("ima:ignore"));
    assert_eq!(
        remedy,
        Some(format!("--debug-dir with the debug file of build id {}", stripped.id))
    );
    let mut text = tare();
    text.args(["report", "--stdio", "-i"]).arg(&stripped.file).env_remove("DEBUGINFOD_URLS");
    let text = String::from_utf8(text.output().unwrap().stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("% of samples would have a function name: "))
        .unwrap();
    assert!(line.ends_with(&format!("({} is stripped)", stripped.binary.display())), "{line}");
    // If names are found, there is no advice.
    let named = stripped.folder.path().join("named");
    let (front, rest) = stripped.id.split_at(2);
    stripped.put(&named.join(format!(".build-id/{front}/{rest}.debug")));
    assert_eq!(said(&["--debug-dir", named.to_str().unwrap()], None), (None, None));
}

/// Without symbols, the unwind tables still tell where functions begin and end.
#[test]
fn functions_of_a_stripped_program_are_named_by_their_addresses() {
    let Some(stripped) = Stripped::record() else { return };
    let symbols = Command::new("nm").arg(&stripped.debug).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let function = format!("fun_{:x}", address("hot_function"));
    let file = &stripped.file;
    assert!(both_show(file, None, &[], &function), "{:?}", names("report", file, None, &[]));
    let run = |words: &[&str]| {
        let output = tare().args(words).arg("-i").arg(file).env_remove("HOME").output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    // One row for all of its addresses, in every view.
    let report = run(&["report", "--stdio", "--no-children", "-g", "none", "--sort", "dso,sym"]);
    let rows = report.lines().filter(|line| line.contains(" spin "));
    assert_eq!(rows.count(), 1, "{report}");
    let folded = run(&["export", "-f", "folded", "-o", "-"]);
    assert!(folded.lines().any(|line| line.contains(&function)), "{folded}");
    assert!(run(&["flame", "-o", "-"]).contains(&function));
    let annotated = run(&["annotate", "--stdio", "-s", &function]);
    assert!(annotated.contains("jmp") || annotated.contains("b."), "{annotated}");
}

/// A FIFO, an endless device or a circular link takes the place of a debug file.
#[test]
fn what_is_no_regular_file_is_passed_over() {
    let Some(stripped) = Stripped::record() else { return };
    let folder = stripped.folder.path();
    let (front, rest) = stripped.id.split_at(2);
    let at = folder.join(format!("named/.build-id/{front}/{rest}.debug"));
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    run("mkfifo", &[at.to_str().unwrap()], folder);
    let named = folder.join("named");
    let options = ["--debug-dir", named.to_str().unwrap()];
    assert!(!stripped.shows(&options, &[]), "a FIFO");
    std::fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &at).unwrap();
    assert!(!stripped.shows(&options, &[]), "a device");
    std::fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink(&at, &at).unwrap();
    assert!(!stripped.shows(&options, &[]), "a link to itself");
    std::fs::remove_file(&at).unwrap();
    stripped.put(&at);
    assert!(stripped.shows(&options, &[]));
}

/// Compiles a program that spins until it is killed.
fn endless(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = SPIN.replace("long i = 0; i < 150000000", "unsigned long i = 0; i != ~0ul");
    compile(folder, &source, "spin", flags)
}

/// Records a process that continues afterwards.
fn attach(process: &ProcessGuard, to: &Path) -> bool {
    let mut record = tare();
    record.args(["record", "-q", "-e", "cpu-clock", "-p", &process.id().to_string(), "-o"]);
    let output = record.arg(to).args(["--", "sleep", "0.3"]).output().unwrap();
    if !output.status.success() {
        println!("skipped: can't record here: {}", stderr(&output));
    }
    output.status.success()
}

/// Waits until the process has executed the program.
fn wait_for(process: &ProcessGuard, program: &str) {
    let comm = format!("/proc/{}/comm", process.id());
    wait_until("the program runs", || {
        std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == program)
    });
}

#[test]
fn a_deleted_program_has_names_while_it_runs() {
    for flags in [["-Wl,--build-id=sha1"], ["-Wl,--build-id=none"]] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("perf.data");
        let folder = folder.path();
        let Some(binary) = endless(folder, &flags) else { return };
        let mut process = ProcessGuard::spawn(&mut Command::new(&binary));
        wait_for(&process, "spin");
        std::fs::remove_file(&binary).unwrap();
        if !attach(&process, &file) {
            return;
        }
        assert!(both_show(&file, None, &[], "hot_function"), "{flags:?}");
        // Another program takes its place; then the process exits.
        let source = SPIN.replace("hot_function", "other_function");
        compile(folder, &source, "spin", &flags).unwrap();
        assert!(both_show(&file, None, &[], "hot_function"), "{flags:?}");
        process.end();
        for name in ["hot_function", "other_function"] {
            assert!(!both_show(&file, None, &[], name), "{flags:?} {name}");
        }
    }
}

#[test]
fn a_program_in_memory_has_names_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let folder = folder.path();
    let Some(binary) = endless(folder, &[]) else { return };
    let starter = compile(folder, FROM_MEMORY, "start", &[]).unwrap();
    let process = ProcessGuard::spawn(Command::new(starter).arg(&binary));
    let exe = format!("/proc/{}/exe", process.id());
    wait_until("the program runs", || {
        std::fs::read_link(&exe).is_ok_and(|exe| exe.to_string_lossy().contains("memfd"))
    });
    std::fs::remove_file(&binary).unwrap();
    if attach(&process, &file) {
        assert!(both_show(&file, None, &[], "hot_function"));
    }
}

#[test]
fn a_program_on_a_private_file_system_has_names_while_it_runs() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let folder = folder.path();
    let Some(_) = endless(folder, &[]) else { return };
    let private = folder.join("private");
    std::fs::create_dir(&private).unwrap();
    let line = "mount -t tmpfs tmpfs private && cp spin private/hidden && exec $PWD/private/hidden";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", line]).current_dir(folder).stderr(Stdio::null());
    let process = ProcessGuard::spawn(&mut unshare);
    wait_for(&process, "hidden");
    if attach(&process, &file) {
        assert!(!private.join("hidden").exists());
        let shown = names("report", &file, None, &[]);
        assert!(both_show(&file, None, &[], "hot_function"), "{shown:?}");
    }
}

/// Without a build id, only a file's ctime shows that it was written over.
#[test]
fn a_program_that_was_written_over_lends_no_names() {
    for flags in [["-Wl,--build-id=sha1"], ["-Wl,--build-id=none"]] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("perf.data");
        let folder = folder.path();
        let Some(binary) = compile(folder, SPIN, "spin", &flags) else { return };
        let source = SPIN.replace("hot_function", "other_function");
        let other = compile(folder, &source, "other", &flags).unwrap();
        if record(&binary, &file).is_none() {
            return;
        }
        assert!(both_show(&file, None, &[], "hot_function"), "{flags:?}");
        // `cp -p` keeps the time of modification.
        let modified = binary.metadata().unwrap().modified().unwrap();
        std::fs::write(&binary, std::fs::read(&other).unwrap()).unwrap();
        let written = std::fs::OpenOptions::new().write(true).open(&binary).unwrap();
        written.set_times(std::fs::FileTimes::new().set_modified(modified)).unwrap();
        for name in ["hot_function", "other_function"] {
            assert!(!both_show(&file, None, &[], name), "{flags:?} {name}");
        }
        let mut report = tare();
        report.args(["report", "--json", "-i"]).arg(&file).env_remove("HOME");
        let output = report.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let reason = if flags == ["-Wl,--build-id=none"] {
            "the file was changed after it was recorded, and it had no build id"
        } else {
            "the file has changed since (another build id)"
        };
        assert!(text.contains(reason), "{text}");
    }
}

/// A host and a container have files of one path and one inode number, on two file systems.
#[test]
fn an_equal_inode_of_another_file_system_is_another_file() {
    if !is_root() {
        return println!("skipped: only root can mount");
    }
    for flags in [["-Wl,--build-id=sha1"], ["-Wl,--build-id=none"]] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(_) = endless(folder, &flags) else { return };
        let source = SPIN.replace("hot_function", "other_function");
        compile(folder, &source, "other", &flags).unwrap();
        std::fs::create_dir(folder.join("private")).unwrap();
        let script = r#"
            mount -t tmpfs tmpfs private && cp other private/spin || exit 77
            unshare -m sh -c 'mount -t tmpfs tmpfs private && cp spin private/spin &&
                exec "$PWD/private/spin"' & pid=$!
            for _ in $(seq 200); do [ "$(cat /proc/$pid/comm)" = spin ] && break; sleep 0.05; done
            stat -c %i private/spin "/proc/$pid/root$PWD/private/spin" | uniq | wc -l
            show() { "$TARE" report -i x --stdio --no-children -g none --sort sym | grep _function; }
            "$TARE" record -q -e cpu-clock -p $pid -o x -- sleep 0.3
            show; kill -9 $pid; wait $pid; echo ended; show; true
        "#;
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-c", script]).current_dir(folder);
        let output = shell.env("TARE", env!("CARGO_BIN_EXE_tare")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.code() == Some(77) || !text.starts_with("1\n") {
            return println!("skipped: no two file systems with equal inodes: {text}");
        }
        let (running, ended) = text.split_once("ended").unwrap();
        assert!(running.contains("hot_function"), "{flags:?} {text}");
        assert!(!running.contains("other_function"), "{flags:?} {text}");
        assert!(!ended.contains("_function"), "{flags:?} {text}");
    }
}
