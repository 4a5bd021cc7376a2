//! `tare record --keep-binaries`: symbols of files that are deleted, rebuilt, or not visible from
//! here.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ProcessGuard, is_root, stderr, tare};
use crate::symbols::{SPIN, build_id, compile, names};

/// Records a shell command in a folder.
fn record_line(folder: &Path, line: &str, options: &[&str]) -> Option<Output> {
    let mut record = tare();
    record.args(["record", "-e", "cpu-clock", "-o", "perf.data"]).args(options);
    record.args(["--", "sh", "-c", line]).current_dir(folder);
    let output = record.env("HOME", folder.join("home")).output().unwrap();
    if !output.status.success() {
        println!("skipped: can't record here: {}", stderr(&output));
        return None;
    }
    Some(output)
}

/// The functions of a report, with the kept binaries unless `options` name another folder.
fn shown(folder: &Path, options: &[&str]) -> Vec<String> {
    names("report", &folder.join("perf.data"), Some(&folder.join("home")), options)
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|shown| shown == name)
}

fn program(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    std::fs::create_dir(folder.join("home")).unwrap();
    let flags = [&["-Wl,--build-id=sha1"], flags].concat();
    let binary = compile(folder, SPIN, "spin", &flags)?;
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    compile(&other, &SPIN.replace("hot_function", "other_function"), "spin", &flags).unwrap();
    Some(binary)
}

#[test]
fn names_survive_what_becomes_of_the_file() {
    for (what, line, gone, needs_root) in [
        ("built again", "./spin", "cp other/spin spin", false),
        ("deleted", "./spin", "rm spin", false),
        ("deleted meanwhile", "./spin & sleep .3; rm spin; wait", "true", false),
        (
            "a private file system",
            "exec unshare -m sh -c 'mount -t tmpfs tmpfs other && cp spin other && exec other/spin'",
            "rm spin",
            true,
        ),
        ("a container's root", "exec unshare -m chroot root /bin/spin", "rm -r root spin", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        if needs_root && !is_root() {
            continue;
        }
        let Some(_) = program(folder, &["-static"]) else { return };
        std::fs::create_dir_all(folder.join("root/bin")).unwrap();
        std::fs::copy(folder.join("spin"), folder.join("root/bin/spin")).unwrap();
        let Some(output) = record_line(folder, line, &["--keep-binaries"]) else { return };
        let said = stderr(&output);
        assert!(said.contains("kept ") && !said.contains("NOT KEPT"), "{what}: {said}");
        let status = Command::new("sh").args(["-c", gone]).current_dir(folder).status().unwrap();
        assert!(status.success());
        assert!(has(&shown(folder, &[]), "hot_function"), "{what}: {:?}", shown(folder, &[]));
        assert!(!has(&shown(folder, &[]), "other_function"), "{what}");
        let nothing = shown(folder, &["--buildid-dir", "/nowhere"]);
        assert!(!has(&nothing, "hot_function") && !has(&nothing, "other_function"), "{what}");
    }
}

#[test]
fn builds_that_ran_one_after_the_other_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(_) = program(folder, &[]) else { return };
    let line = "cp other/spin new; ./spin; mv new spin; ./spin";
    if record_line(folder, line, &["--keep-binaries"]).is_none() {
        return;
    }
    let both = shown(folder, &[]);
    assert!(has(&both, "hot_function") && has(&both, "other_function"), "{both:?}");
    // Without the kept binaries, the replaced build's functions have no names.
    compile(folder, SPIN, "spin", &["-Wl,--build-id=sha1"]).unwrap();
    let Some(_) = record_line(folder, line, &[]) else { return };
    let report = shown(folder, &["--buildid-dir", "/nowhere"]);
    assert!(!has(&report, "hot_function"), "{report:?}");
}

#[test]
fn perf_reads_what_is_kept_and_it_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(binary) = program(folder, &[]) else { return };
    let Some(_) = record_line(folder, "./spin", &["--keep-binaries"]) else { return };
    let id = build_id(&binary);
    let kept = folder.join(format!("home/.debug/.build-id/{}/{}/elf", &id[..2], &id[2..]));
    let meta = kept.metadata().unwrap();
    assert_eq!(meta.mode() & 0o777, 0o600);
    std::fs::remove_file(&binary).unwrap();
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "-i", "perf.data"]).current_dir(folder);
    match perf.env("HOME", folder.join("home")).output() {
        Err(_) => println!("skipped: no perf"),
        Ok(theirs) => {
            let text = String::from_utf8_lossy(&theirs.stdout).into_owned();
            assert!(text.contains("hot_function"), "{text} {}", stderr(&theirs));
        }
    }
    // Once more, with an existing file.
    compile(folder, SPIN, "spin", &["-Wl,--build-id=sha1"]).unwrap();
    let Some(output) = record_line(folder, "./spin", &["--keep-binaries"]) else { return };
    assert!(stderr(&output).contains("kept 0 files with 0 B"), "{}", stderr(&output));
    assert_eq!(kept.metadata().unwrap().ino(), meta.ino());
    let report = tare().args(["report", "-i"]).arg(folder.join("perf.data")).output().unwrap();
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.lines().any(|line| line.starts_with("# kept 0 files")), "{text}");
}

#[test]
fn nothing_is_kept_in_a_folder_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    let mut record = tare();
    record.args(["record", "-e", "cpu-clock", "-o"]).arg(folder.path().join("perf.data"));
    record.arg(format!("--keep-binaries={}", open.display())).args(["--", "true"]);
    let output = record.output().unwrap();
    let said = stderr(&output);
    assert!(output.status.code() == Some(125) && said.contains("others can write"), "{said}");
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
}

/// Appends data in 60,000 pieces of 4 KiB with holes between them, which takes long to copy.
fn append_pieces(binary: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(binary).unwrap();
    for piece in 0..60_000_u64 {
        file.write_all_at(&[1; 4096], (1 << 20) + piece * 12_288).unwrap();
    }
}

/// Whether a file that isn't whole so far is in a folder or below it.
fn has_unfinished(folder: &Path) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        has_unfinished(&entry.path()) || name.to_string_lossy().starts_with("elf.")
    })
}

fn interrupt(process: &Child) {
    kill_process(Pid::from_child(process), Signal::INT).unwrap();
}

/// The first signal ends the sampling, the second one the copies.
#[test]
fn a_second_signal_ends_the_copies() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let waits = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"ready\"); fflush(stdout); for (;;) pause(); }\n";
    let Some(binary) = compile(folder.path(), waits, "waits", &["-Wl,--build-id=sha1"]) else {
        return;
    };
    append_pieces(&binary);
    let mut record = tare();
    record.args(["record", "-e", "cpu-clock", "-o", "perf.data"]).current_dir(folder.path());
    record.arg(format!("--keep-binaries={}", kept.display())).arg("--").arg(&binary);
    record.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = ProcessGuard::spawn(&mut record);
    let mut line = String::new();
    BufReader::new(recorder.take_stdout()).read_line(&mut line).unwrap();
    if line != "ready\n" {
        return println!("skipped: can't record here");
    }
    // The recorder reads the mapping within a flush interval.
    std::thread::sleep(Duration::from_millis(600));
    interrupt(&recorder);
    let end = Instant::now() + Duration::from_secs(60);
    while !has_unfinished(&kept) {
        assert!(Instant::now() < end, "the copy begins");
        if recorder.try_wait().unwrap().is_some() {
            return println!("skipped: the copy was done at once");
        }
    }
    interrupt(&recorder);
    recorder.wait_for_exit();
    let mut said = String::new();
    let mut errors = recorder.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
    assert!(said.contains("NOT KEPT"), "{said}");
    assert!(!has_unfinished(&kept), "the unfinished copy is removed");
}
