//! `tare record`: output paths, and what remains when writing fails.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tare_format::file::Reader;
use tare_format::record::kind::PERF_RECORD_SAMPLE;

use crate::support::{PidFileGuard, ProcessGuard, Tmpfs, is_root, left_out, stderr, tare};

/// Processes with some hundred page faults each; each sample has a stack copy.
const FORKS: &str = "i=0; while [ $i -lt 800 ]; do /bin/true; i=$((i+1)); done";

fn record(options: &[&str]) -> Command {
    let mut command = tare();
    command
        .args(["record", "-e", "page-faults", "-c", "1", "--call-graph", "dwarf,8192"])
        .args(options)
        .stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("tare was built")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The number of samples that tare's reader finds, and whether the file is complete. `None` if the
/// file isn't a recording yet.
fn look(path: &Path) -> Option<(usize, bool)> {
    let mut reader = Reader::open(File::open(path).ok()?).ok()?;
    let mut samples = 0;
    while let Some(entry) = reader.next_record().ok()? {
        samples += usize::from(entry.record.kind == PERF_RECORD_SAMPLE);
    }
    Some((samples, reader.losses().is_empty()))
}

/// The number of samples in a recording, which must be complete.
fn samples(path: &Path) -> usize {
    let (samples, is_whole) = look(path).unwrap();
    assert!(is_whole, "{}", path.display());
    samples
}

/// Asserts that perf reads the file and finds as many samples as tare.
fn samples_of_both(path: &Path) -> usize {
    let samples = samples(path);
    let Ok(output) = Command::new("perf")
        .args(["script", "-F", "tid,time", "-G", "-i"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
    else {
        println!("skipped: perf can't be run");
        return samples;
    };
    assert!(output.status.success(), "{}: {}", path.display(), stderr(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).count(),
        samples,
        "{}",
        path.display()
    );
    samples
}

/// `auto` switches to direct output during the recording.
const WAYS: [&[&str]; 7] = [
    &["--output-path=write"],
    &["--output-path=mmap"],
    &["--output-path=direct"],
    &["-z", "--output-path=write"],
    &["-z", "--output-path=mmap"],
    &["-z", "--output-path=direct"],
    &["--output-path=auto"],
];

#[test]
fn a_full_disk_ends_the_recording_with_a_file_that_fills_it() {
    for way in WAYS {
        let size = if way.contains(&"-z") { 1 << 20 } else { 20 << 20 };
        let Some(tmpfs) = Tmpfs::mount(size) else { return };
        let path = tmpfs.0.path().join("perf.data");
        let output = run(record(way).args(["-o", text(&path), "sh", "-c", FORKS]));
        assert_eq!(output.status.code(), Some(125), "{way:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("full"), "{way:?}: {}", stderr(&output));
        assert_eq!(
            stderr(&output).matches("ended early").count(),
            1,
            "{way:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains(" DROPPED"), "{way:?}: {}", stderr(&output));
        assert!(fs::metadata(&path).unwrap().len() > size * 9 / 10, "{way:?}");
        assert!(samples_of_both(&path) > 100, "{way:?}");
    }
}

/// Descriptions of tracepoints enlarge the file's end, which must fit too.
#[test]
fn a_full_disk_ends_a_compressed_recording_of_tracepoints() {
    for path in ["write", "mmap", "direct"] {
        let Some(tmpfs) = Tmpfs::mount(3 << 20) else { return };
        let file = tmpfs.0.path().join("perf.data");
        let way = ["-z", "-e", "sched:*,raw_syscalls:*", "--output-path", path];
        let output =
            run(record(&way).args(["-o", text(&file), "sh", "-c", &FORKS.replace("800", "1600")]));
        assert_eq!(output.status.code(), Some(125), "{path}: {}", stderr(&output));
        assert_eq!(
            stderr(&output).matches("ended early").count(),
            1,
            "{path}: {}",
            stderr(&output)
        );
        assert!(fs::metadata(&file).unwrap().len() > (3 << 20) * 9 / 10, "{path}");
        assert!(samples_of_both(&file) > 100, "{path}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_recording_and_kills_nobody() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let size = if way.contains(&"-z") { 999_999 } else { 9_999_999 };
        let path = folder.path().join("perf.data");
        let _ = fs::remove_file(&path);
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--fsize={size}"))
            .arg(env!("CARGO_BIN_EXE_tare"))
            .args(record(way).get_args());
        let output = run(command.args(["-o", text(&path), "sh", "-c", FORKS]));
        assert_eq!(output.status.code(), Some(125), "{way:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("ulimit -f"), "{way:?}: {}", stderr(&output));
        let len = fs::metadata(&path).unwrap().len();
        assert!(len <= size && len > size * 9 / 10, "{way:?}: {len}");
        assert!(samples_of_both(&path) > 100, "{way:?}");
    }
    // The command has SIGXFSZ's default disposition and is killed by its own write.
    let mut command = Command::new("prlimit");
    command
        .args(["--fsize=1000000", env!("CARGO_BIN_EXE_tare"), "record", "-o"])
        .arg(folder.path().join("other"));
    let output = run(command
        .args(["sh", "-c", "exec head -c 2000000 /dev/zero > big"])
        .current_dir(folder.path()));
    assert_eq!(output.status.code(), Some(128 + 25), "{}", stderr(&output));
}

#[test]
fn dev_null_a_fifo_and_stdout_take_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let output = run(record(way).args(["-o", "/dev/null", "true"]));
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));

        let saved = folder.path().join("stdout");
        let output = record(way)
            .args(["-o", "-", "true"])
            .stdout(File::create(&saved).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));
        assert!(samples_of_both(&saved) > 10, "{way:?}");

        let fifo = folder.path().join("fifo");
        let saved = folder.path().join("saved");
        let _ = fs::remove_file(&fifo);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut reader =
            Command::new("cat").arg(&fifo).stdout(File::create(&saved).unwrap()).spawn().unwrap();
        let output = run(record(way).args(["-o", text(&fifo), "true"]));
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));
        assert!(reader.wait().unwrap().success());
        assert!(samples_of_both(&saved) > 10, "{way:?}");
        assert!(!folder.path().join("fifo.old").exists());
    }
    assert!(fs::symlink_metadata("/dev/null").is_ok());
}

#[test]
fn what_is_there_is_kept_and_links_in_shared_folders_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let old = folder.path().join("perf.data.old");
    fs::write(&file, "before").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(&old, "long before").unwrap();
    assert!(run(&mut record(&["-o", text(&file), "true"])).status.success());
    assert!(samples_of_both(&file) > 10);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&old, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "before");

    // In a private folder tare follows a symbolic link.
    let link = folder.path().join("link");
    let target = folder.path().join("target");
    fs::write(&target, "before").unwrap();
    symlink(&target, &link).unwrap();
    assert!(run(&mut record(&["-o", text(&link), "true"])).status.success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(samples(&target) > 10);
    assert_eq!(fs::read_to_string(folder.path().join("target.old")).unwrap(), "before");

    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(&target, "precious").unwrap();
    for leads_to in [&target, &folder.path().join("nothing")] {
        let link = shared.join("link");
        let _ = fs::remove_file(&link);
        symlink(leads_to, &link).unwrap();
        let output = run(&mut record(&["-o", text(&link), "true"]));
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains("symbolic link"), "{}", stderr(&output));
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(!folder.path().join("nothing").exists());

    let output = run(&mut record(&["-o", text(folder.path()), "true"]));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
}

/// Waits until a condition holds.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "it never came to that");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a recorder `at` milliseconds after its first samples, and counts the samples of its file.
fn kill_and_read(recorder: &mut Command, way: &[&str], at: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let command = PidFileGuard(folder.path().join("pid"));
    let line = format!("echo $$ > {}; while :; do /bin/true; done", command.0.display());
    let mut recorder = ProcessGuard::spawn(
        recorder
            .args(way)
            .args(["-o", text(&path), "sh", "-c", &line])
            .stdin(Stdio::null())
            .stderr(Stdio::null()),
    );
    wait_until(|| command.pid().is_some());
    wait_until(|| look(&path).is_some_and(|(samples, _)| samples > 10));
    std::thread::sleep(Duration::from_millis(at));
    recorder.end();
    assert!(command.is_alive(), "{way:?}: the command lives on");
    drop(command);
    let samples = samples_of_both(&path);
    assert!(samples > 10, "{way:?}");
    let script = run(tare().args(["script", "-F", "tid,time", "-G", "-i", text(&path)]));
    assert!(script.status.success(), "{way:?}: {}", stderr(&script));
    assert_eq!(
        String::from_utf8_lossy(&script.stdout).lines().filter(|line| !line.is_empty()).count()
            + left_out(&script),
        samples,
        "{way:?}"
    );
}

#[test]
fn a_recorder_that_is_killed_leaves_a_file_and_lets_the_command_live() {
    for (way, at) in WAYS.iter().zip([0, 100, 300, 700]) {
        kill_and_read(&mut record(&[]), way, at);
    }
    if !is_root() {
        return;
    }
    for (way, at) in WAYS.iter().zip([250, 0, 150, 400]) {
        kill_and_read(
            tare().args(["record", "-e", "sched:*,raw_syscalls:sys_enter", "-m", "512"]),
            way,
            at,
        );
    }
}

#[test]
fn a_recording_ends_or_goes_on_in_another_file_when_it_is_large() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let output =
        run(record(&["--max-size=2M", "-m", "64"]).args(["-o", text(&path), "sh", "-c", FORKS]));
    assert!(stderr(&output).contains("it has reached its size limit"), "{}", stderr(&output));
    let len = fs::metadata(&path).unwrap().len();
    assert!((2 << 20..4 << 20).contains(&len), "{len}");
    assert!(samples_of_both(&path) > 10);

    for (way, size) in [(WAYS[0], "2M"), (WAYS[1], "2M"), (WAYS[2], "2M"), (WAYS[3], "50K")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.data");
        let switch = format!("--switch-output={size}");
        let output = run(record(way).args([
            "-m",
            "64",
            &switch,
            "--switch-max-files=3",
            "-o",
            text(&path),
            "sh",
            "-c",
            FORKS,
        ]));
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));
        let files: Vec<PathBuf> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 3, "{way:?}: {files:?}");
        let named = |file: &PathBuf| {
            file.extension().is_some_and(|time| {
                time.len() == 16 && text(Path::new(time)).parse::<u64>().is_ok()
            })
        };
        assert!(files.iter().all(named), "{way:?}: {files:?}");
        assert!(files.iter().map(|file| samples_of_both(file)).sum::<usize>() > 100, "{way:?}");
    }
}
