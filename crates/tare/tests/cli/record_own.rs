//! `tare record`'s own threads and system calls, and its end when its reader is gone.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::recorded::{RecordingFolder, perf_script, read, samples_of, send, wait_for};
use crate::support::{ProcessGuard, Unprivileged, is_root, sh, stderr, tare};

/// Name, policy and realtime priority of each thread (proc(5), fields 2, 41 and 40 of `stat`).
fn priorities(pid: u32) -> Vec<(String, u32, u32)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let (name, rest) = text.split_once('(').unwrap().1.rsplit_once(") ").unwrap();
        // The first word here is the third field of `stat`.
        let word = |field: usize| rest.split(' ').nth(field - 3).unwrap().parse().unwrap();
        (name.to_owned(), word(41), word(40))
    };
    tasks.map(of).collect()
}

#[test]
fn reading_has_the_priority_that_is_asked_for() {
    if !is_root() {
        return;
    }
    let place = RecordingFolder::new();
    let mut recorder = ProcessGuard::spawn(&mut place.record(&[
        "-r",
        "5",
        "--readers",
        "2",
        "-z",
        "-a",
        "-e",
        "cpu-clock",
        "-q",
    ]));
    wait_for(&place.file());
    let threads = priorities(recorder.id());
    send("INT", &recorder);
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    // SCHED_FIFO is 1. Only the main thread and readers have it, not the compressing one.
    let expected = |name: &str| if name == "tare-output" { (0, 0) } else { (1, 5) };
    assert_eq!(threads.len(), 3);
    assert!(
        threads.iter().all(|(name, policy, priority)| (*policy, *priority) == expected(name)),
        "{threads:?}"
    );

    let Some(nobody) = Unprivileged::new() else { return };
    let output = nobody.tare("record", &["-r", "5", "-o", "/dev/null", "true"]);
    let text = stderr(&output);
    assert!(
        output.status.code() == Some(125) && text.lines().last().unwrap().contains("ulimit -r"),
        "{text}"
    );
}

#[test]
fn several_threads_read_every_record_once() {
    if !is_root() {
        return;
    }
    let ways: [&[&str]; 5] =
        [&[], &["-z"], &["--output-path=mmap"], &["--output-path=direct"], &["--max-size=1G"]];
    for way in ways {
        let place = RecordingFolder::new();
        let words = [
            "--readers",
            "2",
            "-a",
            "-m",
            "64K",
            "--no-call-graph",
            "--flush-interval",
            "20",
            "-e",
            "raw_syscalls:*,sched:sched_switch",
        ];
        let command = ["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=60000"];
        let output = place.run(&[&words[..], way, &command].concat());
        assert!(output.status.success(), "{way:?}: {}", stderr(&output));
        let found = read(&place.file());
        let ledger = found.ledger.unwrap();
        assert_eq!((ledger.cost.readers, samples_of(&ledger)), (2, found.samples), "{way:?}");
        let by_ring: u64 = ledger.losses.iter().map(|loss| loss.records).sum();
        assert_eq!(by_ring, found.lost, "{way:?}");
        // If a mark came too early, perf would report events out of order.
        let Some(lines) = perf_script(&["-F", "time"], &place.file()) else { return };
        assert!(lines.len() == found.samples && lines.is_sorted(), "{way:?}");
    }
}

/// The recorder's system calls in a recording of this length: by the kernel's count of the whole
/// process, and by the ledger.
fn system_calls(options: &[&str], seconds: &str) -> (f64, f64) {
    let place = RecordingFolder::new();
    let counts = place.folder.path().join("counts");
    let mut stat = tare();
    stat.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o"]).arg(&counts).arg("--");
    let record = place.record(
        &[&["-e", "cpu-clock", "-F", "4000", "--flush-interval", "5", "-q"], options].concat(),
    );
    // The shell and its children make the same calls however long the recording is.
    let busy = format!("timeout {seconds} sh -c 'while :; do :; done'; true");
    let output = stat
        .arg(record.get_program())
        .args(record.get_args())
        .args(["--", "sh", "-c", &busy])
        .output()
        .unwrap();
    assert!(output.status.success(), "{options:?}: {}", stderr(&output));
    let counted = std::fs::read_to_string(&counts).unwrap();
    let line = counted.lines().find(|line| line.contains("sys_enter")).unwrap();
    let ledger = read(&place.file()).ledger.unwrap();
    (line.split(',').next().unwrap().parse().unwrap(), ledger.cost.system_calls as f64)
}

#[test]
fn the_ledger_knows_the_recorders_system_calls() {
    if !is_root() {
        return;
    }
    let ways: [&[&str]; 5] = [
        &["--output-path=write"],
        &["--output-path=mmap"],
        &["--output-path=direct"],
        &["-z"],
        &["--readers", "2"],
    ];
    for options in ways {
        // Both include start and exit, which cancel in the difference.
        let short = system_calls(options, "0.2");
        let long = system_calls(options, "1.2");
        let kernel = long.0 - short.0;
        let ledger = long.1 - short.1;
        println!("{options:?}: {kernel} by the kernel, {ledger} by the ledger");
        assert!(
            kernel > 50.0 && (0.85..1.15).contains(&(ledger / kernel)),
            "{options:?}: {kernel} {ledger}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let line = |end: &str| {
        format!(
            "{{ {} record -o - -e cpu-clock -F 4000 --flush-interval 20 {end}; echo \"status $?\" >&2; }} | head -c 100 >/dev/null",
            env!("CARGO_BIN_EXE_tare")
        )
    };
    let output = sh(&line("-- sh -c 'timeout 0.5 sh -c \"while :; do :; done\"; exit 3'"));
    // The message about --follow comes first.
    assert!(
        stderr(&output)
            .lines()
            .all(|line| line == "status 3" || line.contains("follows the command")),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).ends_with("status 3\n"), "{}", stderr(&output));
}

#[test]
fn a_fifo_that_nobody_reads_can_be_given_up() {
    let place = RecordingFolder::new();
    let fifo = place.folder.path().join("fifo");
    assert!(sh(&format!("mkfifo {}", fifo.display())).status.success());
    let spawn = || {
        let mut command = tare();
        command.args(["record", "-e", "cpu-clock", "-o"]).arg(&fifo).args(["--", "true"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let recorder = spawn();
    std::thread::sleep(Duration::from_millis(300));
    send("INT", &recorder);
    let output = recorder.wait_with_output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(
        text.contains("no reader has opened this FIFO; waiting for one")
            && text.lines().last().unwrap().contains("signal 2"),
        "{text}"
    );
    // A late reader gets a recording that perf reads.
    let recorder = spawn();
    std::thread::sleep(Duration::from_millis(300));
    let saved = place.folder.path().join("saved");
    let mut reader =
        Command::new("cat").arg(&fifo).stdout(File::create(&saved).unwrap()).spawn().unwrap();
    assert!(
        recorder.wait_with_output().unwrap().status.success() && reader.wait().unwrap().success()
    );
    assert!(perf_script(&["-F", "time"], &saved).is_none_or(|lines| lines.len() < 1000));
}

/// With output to /dev/null a flush would have no effect.
#[test]
fn nobody_is_woken_to_flush_what_is_not_kept() {
    let wake_ups = |file: &str| -> u32 {
        let mut record = tare();
        record.args(["record", "-v", "-e", "cpu-clock", "-F", "99", "-o", file]);
        let output = record.args(["--", "sleep", "3"]).output().unwrap();
        let said = stderr(&output);
        let words: Vec<&str> = said.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("wake-up")).expect(&said);
        words[at - 1].parse().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let kept = wake_ups(&folder.path().join("perf.data").display().to_string());
    let not_kept = wake_ups("/dev/null");
    assert!(not_kept + 2 <= kept, "{not_kept} {kept}");
}

/// Rings for clocks, without stack copies, records of switches or overwriting, are smaller than for
/// other events.
#[test]
fn rings_are_as_large_as_what_comes_in_some_seconds() {
    if !is_root() {
        return;
    }
    let place = RecordingFolder::new();
    for (options, kib) in [
        (&["-e", "cpu-clock"][..], 2048),
        (&["-e", "cpu-clock", "-F", "4000", "--call-graph", "fp"], 4096),
        (&["-e", "cpu-clock", "-c", "1000000", "--no-call-graph"], 2048),
        (&["-e", "cpu-clock", "--call-graph", "dwarf"], 8192),
        (&["-e", "cpu-clock,page-faults"], 8192),
        (&["-e", "sched:sched_switch"], 8192),
        (&["-e", "cpu-clock", "--switch-events"], 8192),
        (&["-e", "cpu-clock", "--overwrite"], 8192),
        (&["-e", "cpu-clock", "-m", "64K"], 64),
    ] {
        let output = place.run(&[options, &["--", "true"]].concat());
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let ledger = read(&place.file()).ledger.unwrap();
        assert_eq!(ledger.rings.bytes, kib << 10, "{options:?}");
    }
}
