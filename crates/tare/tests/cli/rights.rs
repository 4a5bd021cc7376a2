//! What root does and may do: the capabilities that its recorder keeps, and what it leaves in a
//! user's home. See `docs/security.md`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::recorded::{RecordingFolder, send, wait_for};
use crate::support::{ProcessGuard, is_root, stderr, tare, wait_until};

// Bits of `CapPrm` (`include/uapi/linux/capability.h`).
const SYS_MODULE: u32 = 16;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const CHECKPOINT_RESTORE: u32 = 40;

/// The permitted capabilities of a thread.
fn permitted(task: &Path) -> u64 {
    let status = std::fs::read_to_string(task.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

fn has(set: u64, capability: u32) -> bool {
    set >> capability & 1 == 1
}

/// The permitted capabilities of each thread of a process, by tid.
fn of_threads(pid: u32) -> BTreeMap<u32, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.unwrap();
        (task.file_name().to_str().unwrap().parse().unwrap(), permitted(&task.path()))
    };
    tasks.map(of).collect()
}

#[test]
fn what_is_needed_no_longer_is_given_up() {
    let own = permitted(Path::new("/proc/self"));
    if !is_root() || !has(own, CHECKPOINT_RESTORE) || !has(own, SYS_MODULE) {
        println!("skipped: needs all capabilities of root, and Linux 5.9");
        return;
    }
    for (more, keeps_admin) in [(&[][..], false), (&["--switch-output=1h"], true)] {
        let place = RecordingFolder::new();
        let told = place.file().with_extension("told");
        let command = format!("cat /proc/self/status > {}; exec sleep 100", told.display());
        let args = [&["-z", "--readers", "2", "-a", "-e", "cpu-clock", "-q"], more].concat();
        let args = [&args[..], &["--", "sh", "-c", &command]].concat();
        let recorder = ProcessGuard::spawn(&mut place.record(&args));
        wait_for(&told);
        // The main thread drops its capabilities before it releases the command.
        let threads = of_threads(recorder.id());
        assert!(threads.len() > 2, "{threads:?}");
        for (tid, set) in &threads {
            if *tid == recorder.id() {
                assert!(has(*set, PERFMON) && !has(*set, SYS_MODULE), "{set:x}");
                assert_eq!(has(*set, SYS_ADMIN), keeps_admin, "{set:x}");
            } else {
                assert_eq!(*set, 0, "thread {tid}");
            }
        }
        let commands = || {
            let text = std::fs::read_to_string(&told).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("CapPrm:"));
            line.map(|line| u64::from_str_radix(line.trim(), 16).unwrap())
        };
        wait_until("the command's rights", || commands().is_some());
        assert_eq!(commands(), Some(own), "the command has what it would have without");
        send("INT", &recorder);
    }
}

/// With `HOME` set to a user's, as by `sudo -E`.
#[test]
fn root_creates_nothing_in_a_users_home() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let run = |words: &[&str]| {
        let mut tare = tare();
        let tare = tare.args(words).current_dir(folder.path()).env("HOME", &home);
        // Nothing answers there.
        tare.env("DEBUGINFOD_URLS", "http://127.0.0.1:9").env_remove("DEBUGINFOD_CACHE_PATH");
        tare.env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME").output().unwrap()
    };
    let left = |words: &[&str]| {
        let found = Command::new("find").arg(&home).arg("-mindepth").arg("1").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "after {words:?}");
    };
    for words in [
        &[
            "record",
            "-e",
            "cpu-clock",
            "-o",
            "perf.data",
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done",
        ][..],
        &["report", "--stdio"],
        &["script"],
        &["annotate", "--stdio"],
        &["flame", "-o", "flame.html"],
        &["archive"],
        &["overhead", "-e", "cpu-clock", "--rates", "0,100", "--pairs", "2"],
        &["doctor"],
    ] {
        run(words);
        left(words);
    }
    let refused = run(&["record", "--keep-binaries", "-o", "kept.data", "--", "true"]);
    assert!(
        stderr(&refused).contains("belongs to another user: name a folder"),
        "{}",
        stderr(&refused)
    );
    left(&["record --keep-binaries"]);
}
