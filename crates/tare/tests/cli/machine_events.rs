//! `tare record` on a machine in trouble; docs/internals/reliability.md lists the cases.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use tare_trace::CallNames;

use crate::recorded::{RecordingFolder, read, samples_of, send, wait_for};
use crate::support::{ProcessGuard, Unprivileged, is_root, sh, stderr, tare, workload};

/// Asserts that the file is finished, and that its ledger has the file's samples and at least its
/// losses. Returns the number of samples.
fn check(place: &RecordingFolder, what: &str) -> usize {
    let found = read(&place.file());
    let ledger = found.ledger.unwrap_or_else(|| panic!("{what}: no ledger"));
    assert_eq!(samples_of(&ledger), found.samples, "{what}");
    let lost: u64 = ledger.events.iter().filter_map(|event| event.lost).sum();
    assert!(lost >= found.lost, "{what}: {lost} lost, the file says {}", found.lost);
    assert!(found.finished, "{what}");
    found.samples
}

/// Asserts that tare exits in time, with its own or the command's status, and with a message if
/// something went wrong.
fn is_orderly(output: &Output, what: &str) {
    let said = stderr(output);
    assert!(!said.contains("panicked"), "{what}: {said}");
    let status = output.status.code().unwrap_or_else(|| panic!("{what}: {output:?}"));
    assert!(![101, 124, 134, 137, 139].contains(&status), "{what}: {status} {said}");
    assert!(status == 0 || said.contains("tare:"), "{what}: {status} {said:?}");
}

/// The rings fill up long before the recorder continues.
#[test]
fn a_recorder_that_stood_still_counts_what_it_missed() {
    let place = RecordingFolder::new();
    let mut recorder = ProcessGuard::spawn(&mut place.record(&[
        "-q",
        "-m",
        "2",
        "-e",
        "cpu-clock",
        "-F",
        "4000",
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ]));
    wait_for(&place.file());
    send("STOP", &recorder);
    std::thread::sleep(Duration::from_secs(1));
    send("CONT", &recorder);
    std::thread::sleep(Duration::from_millis(300));
    send("INT", &recorder);
    recorder.wait().unwrap();
    check(&place, "stopped for a second");
    let ledger = read(&place.file()).ledger.unwrap();
    let lost: u64 = ledger.events.iter().filter_map(|event| event.lost).sum();
    assert!(lost > 100, "{lost} lost");
}

#[test]
fn a_hundred_recorders_at_once() {
    let places: Vec<_> = (0..100).map(|_| RecordingFolder::new()).collect();
    let start = |place: &RecordingFolder| {
        let mut command = place.record(&["-q", "-e", "cpu-clock", "-F", "99", "--", "sleep", "1"]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let recorders: Vec<_> = places.iter().map(start).collect();
    for (place, recorder) in places.iter().zip(recorders) {
        let output = recorder.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        check(place, "one of a hundred");
    }
}

#[test]
fn few_descriptors_are_called_by_their_limit() {
    let place = RecordingFolder::new();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=20:20", "--"]).arg(tare().get_program());
    command.args(["record", "-e", "cpu-clock", "-o"]).arg(place.file());
    // Together the groups need more descriptors than the limit allows.
    command
        .args(["-e", "{page-faults,context-switches,cpu-migrations,minor-faults,major-faults}:S"]);
    command.args(["-e", "{task-clock,page-faults,context-switches,cpu-migrations,minor-faults}:S"]);
    command.args(["-e", "{task-clock,page-faults,context-switches,cpu-migrations,minor-faults}:S"]);
    let output = command.args(["--", "true"]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.starts_with("tare: ") && said.contains("ulimit -"), "{said}");
}

/// A seccomp filter, as containers have, makes the system calls of the recorder's main thread fail,
/// one after the other.
#[test]
fn a_filter_that_refuses_any_system_call_is_survived() {
    // Without these a program can't start, exit, allocate or print; or they never fail.
    const VITAL: [&str; 15] = [
        "execve",
        "exit_group",
        "mmap",
        "munmap",
        "brk",
        "arch_prctl",
        "rt_sigreturn",
        "write",
        "getpid",
        "gettid",
        "getuid",
        "geteuid",
        "getegid",
        "clock_gettime",
        "clock_getres",
    ];
    let place = RecordingFolder::new();
    let log = place.folder.path().join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-o"]).arg(&log).arg(tare().get_program());
    strace.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(place.file()).args(["--", "true"]);
    match strace.output() {
        Ok(output) if output.status.success() => {}
        failed => return println!("skipped: strace can't be run: {failed:?}"),
    }
    let text = fs::read_to_string(&log).unwrap();
    let made: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once('(')).map(|(name, _)| name).collect();
    assert!(made.len() > 20 && made.contains("perf_event_open"), "{made:?}");
    let names = CallNames::default();
    let number = |wanted: &str| {
        let mut calls = names.calls().filter(|(call, name)| *name == wanted && !call.compat);
        calls.next().map(|(call, _)| call.number)
    };
    for name in made.iter().filter(|name| !VITAL.contains(name)) {
        let Some(number) = number(name) else { continue };
        for errno in [Errno::PERM, Errno::NOSYS] {
            let place = RecordingFolder::new();
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "20"]).arg(workload("refuse"));
            command.args([number.to_string(), errno.raw_os_error().to_string()]);
            command.arg(tare().get_program()).args(["record", "-e", "cpu-clock", "-o"]);
            let output = command.arg(place.file()).args(["--", "true"]).output().unwrap();
            is_orderly(&output, &format!("{name} refused with {errno:?}"));
            if name == &"perf_event_open" && errno == Errno::PERM {
                assert!(stderr(&output).contains("seccomp"), "{}", stderr(&output));
            }
        }
    }
}

/// As in a container: root lacks the capability, and the paranoid level alone would refuse the
/// kernel's part of the event.
#[test]
fn a_filter_is_named_instead_of_the_paranoid_level() {
    let names = CallNames::default();
    let mut calls = names.calls().filter(|(call, name)| *name == "perf_event_open" && !call.compat);
    let number = calls.next().unwrap().0.number.to_string();
    let place = RecordingFolder::new();
    for command in [&["stat"][..], &["record", "-o"]] {
        let mut refused = Command::new("setpriv");
        if is_root() {
            refused.args(["--bounding-set=-all", "--inh-caps=-all"]);
        }
        refused.arg(workload("refuse")).args([&number, "1"]);
        refused.arg(tare().get_program()).args(command);
        if command.len() > 1 {
            refused.arg(place.file());
        }
        let Ok(output) = refused.args(["--", "true"]).output() else {
            return println!("skipped: setpriv (util-linux) is not installed");
        };
        let said = stderr(&output);
        assert!(said.contains("seccomp filter") && !said.contains("sysctl"), "{command:?}: {said}");
    }
}

/// Freezes the file system with `fsfreeze`, as before a snapshot, so that writes wait.
#[test]
fn a_disk_that_hangs_costs_samples_and_no_more() {
    const HANGS: &str = r#"mount -o loop "$1" "$2" || exit 99
        file=$2/perf.data; tare=$3; out=$4; shift 4
        "$tare" record -q -m 4 -e cpu-clock -F 4000 "$@" -o "$file" -- sh -c 'while :; do :; done' & recorder=$!
        while ! [ -s "$file" ]; do sleep 0.01; done
        sleep 0.3; fsfreeze -f "${file%/*}" || exit 99
        sleep 1.5; fsfreeze -u "${file%/*}"
        sleep 0.3; kill -TERM $recorder; wait $recorder; cp "$file" "$out""#;
    if !is_root() {
        return;
    }
    for way in ["write", "mmap", "direct"] {
        let place = RecordingFolder::new();
        let image = place.folder.path().join("image");
        let mounted = place.folder.path().join("at");
        fs::create_dir(&mounted).unwrap();
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("mkfs.ext4").arg("-q").arg(&image).output();
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            return println!("skipped: mkfs.ext4: {made:?}");
        }
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "unshare", "-m", "sh", "-c", HANGS, "sh"]);
        command.arg(&image).arg(&mounted).arg(tare().get_program()).arg(place.file());
        let output = command.args(["--output-path", way]).stdin(Stdio::null()).output().unwrap();
        if output.status.code() == Some(99) {
            return println!("skipped: {}", stderr(&output));
        }
        assert!(output.status.success(), "{way}: {}", stderr(&output));
        assert!(check(&place, way) > 100, "{way}");
    }
}

#[test]
fn processes_that_are_hidden_are_called_so_and_own_ones_recorded() {
    let Some(user) = Unprivileged::new() else { return };
    let inside = format!(
        r#"mount -t proc -o hidepid=2 proc /proc || exit 99
        exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '
            cd $(mktemp -d) && {tare} record -q -e cpu-clock:u -o own -- true && rm -r "$PWD" || exit 3
            {tare} record -q -e cpu-clock:u -o others -p 1; exit $?'"#,
        tare = user.path().display()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &inside]).output().unwrap();
    if output.status.code() == Some(99) {
        return println!("skipped: /proc can't be mounted: {}", stderr(&output));
    }
    is_orderly(&output, "hidepid=2");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn without_proc_and_sys_there_is_a_recording_or_a_reason() {
    if !is_root() {
        return;
    }
    for folder in ["/proc", "/sys"] {
        let place = RecordingFolder::new();
        let inside = format!("mount -t tmpfs none {folder} || exit 99; exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &inside, "sh"]).arg(tare().get_program());
        command.args(["record", "-e", "cpu-clock", "-o"]).arg(place.file());
        let output =
            command.args(["--", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]);
        let output = output.output().unwrap();
        is_orderly(&output, folder);
        if output.status.success() {
            check(&place, folder);
        }
    }
}

/// Pids stay below 400 and are reused, in a pid namespace with its own limit (Linux 6.14 and
/// later).
#[test]
fn numbers_of_processes_that_come_again_are_kept_apart() {
    const WRAPS: &str = r#"echo 400 >/proc/sys/kernel/pid_max || exit 99
        exec "$@" -- sh -c 'i=0; while [ $i -lt 300 ]; do /bin/true; /bin/false; i=$((i+1)); done'"#;
    let release = rustix::system::uname();
    let numbers = release.release().to_string_lossy().into_owned();
    let mut numbers = numbers.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if !is_root() || (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        return println!("skipped: needs root, and Linux 6.14");
    }
    let place = RecordingFolder::new();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", WRAPS, "sh"]);
    command.arg(tare().get_program()).args(["record", "-q", "-e", "page-faults", "-c", "1", "-o"]);
    let output = command.arg(place.file()).stdin(Stdio::null()).output().unwrap();
    if output.status.code() == Some(99) {
        return println!("skipped: kernel.pid_max can't be set: {}", stderr(&output));
    }
    assert!(output.status.success(), "{}", stderr(&output));
    check(&place, "numbers that come again");
    let mut script = tare();
    let output =
        script.args(["script", "-F", "comm,tid", "-i"]).arg(place.file()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let samples = || text.lines().filter_map(|line| line.trim().rsplit_once(' '));
    let tids: BTreeSet<&str> = samples().map(|(_, tid)| tid).collect();
    assert!(tids.len() <= 400, "600 processes have {} numbers", tids.len());
    let of = |comm: &str| samples().filter(|(name, _)| name.trim() == comm).count() as f64;
    let all = samples().count() as f64;
    let ratio = of("true") / of("false");
    assert!((0.9..1.1).contains(&ratio), "{} of true, {} of false", of("true"), of("false"));
    assert!(of("true") + of("false") > 0.9 * all, "{all} samples, {} of true", of("true"));
}

/// The recorder and its page cache count toward a cgroup's memory limit. If that kills the
/// recorder, the flushed part of its file is readable.
#[test]
fn a_limit_on_memory_is_held_or_leaves_a_file() {
    const LIMITED: &str = r#"group=/sys/fs/cgroup/memory; limit=memory.limit_in_bytes
        [ -d $group ] || { group=/sys/fs/cgroup; limit=memory.max; }
        group=$group/tare-test-$$; mkdir $group 2>/dev/null || exit 99
        # Of a recorder that was killed the command goes on.
        trap 'for i in $(seq 100); do rmdir $group 2>/dev/null && break
              xargs -r kill -9 <$group/cgroup.procs 2>/dev/null; sleep 0.1; done' EXIT
        echo $1 >$group/$limit 2>/dev/null || exit 99
        shift; sh -c 'echo $$ >$0/cgroup.procs && exec "$@"' $group "$@"; echo "status $?" >&2"#;
    if !is_root() {
        return;
    }
    for (limit, is_enough) in [("48M", true), ("4M", false)] {
        let place = RecordingFolder::new();
        let mut command = Command::new("sh");
        command.args(["-c", LIMITED, "sh", limit]).arg(tare().get_program());
        command.args(["record", "-q", "-e", "page-faults", "-c", "1", "--call-graph", "dwarf"]);
        let work = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done";
        command.arg("-o").arg(place.file()).args(["--", "sh", "-c", work]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        if output.status.code() == Some(99) {
            return println!("skipped: no cgroup of memory can be made");
        }
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{limit}: {said}");
        if is_enough {
            assert!(said.contains("status 0"), "{limit}: {said}");
            check(&place, limit);
        } else if place.file().exists() && fs::metadata(place.file()).unwrap().len() > 0 {
            assert!(sh(&format!("test -s {}", place.file().display())).status.success());
            let report = tare().args(["script", "-i"]).arg(place.file()).output().unwrap();
            is_orderly(&report, limit);
        }
    }
}

/// The kernel states too large a size in records about BPF programs for all recorders but the first.
#[test]
fn records_about_bpf_programs_have_their_own_size_with_two_recorders() {
    const KSYMBOL: u32 = 17;
    const BPF_EVENT: u32 = 18;
    if !is_root() {
        return;
    }
    let places = [RecordingFolder::new(), RecordingFolder::new()];
    let mut recorders: Vec<_> = places
        .iter()
        .map(|place| {
            let command = ["-q", "-a", "-F", "99", "--", "sleep", "60"];
            ProcessGuard::spawn(&mut place.record(&command))
        })
        .collect();
    places.iter().for_each(|place| wait_for(&place.file()));
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        let traced = tare().args(["trace", "-s", "--", "true"]).output().unwrap();
        if !traced.status.success() {
            return println!("skipped: can't load BPF programs here: {}", stderr(&traced));
        }
    }
    for recorder in &mut recorders {
        send("INT", recorder);
        recorder.wait_for_exit();
    }
    let mut seen = 0;
    for place in &places {
        let bytes = fs::read(place.file()).unwrap();
        let number = |at: usize| {
            let word = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            usize::try_from(word).unwrap()
        };
        let mut at = number(40);
        let end = at + number(48);
        while at < end {
            let kind = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let size = usize::from(u16::from_le_bytes(bytes[at + 6..at + 8].try_into().unwrap()));
            let own = match kind {
                KSYMBOL => {
                    let name = bytes[at + 24..at + size].iter().position(|byte| *byte == 0);
                    Some(24 + (name.unwrap() + 1).next_multiple_of(8))
                }
                BPF_EVENT => Some(24),
                _ => None,
            };
            // The trailer: task, time, CPU and id.
            if let Some(own) = own {
                seen += 1;
                assert_eq!(size, own + 32, "record {kind} at {at}");
            }
            assert!(size >= 8, "{at}");
            at += size;
        }
    }
    assert!(seen > 0, "programs were loaded");
}
