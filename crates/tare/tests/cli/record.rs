//! `tare record` from its start to each way of ending: contents of the recording, and messages.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use crate::recorded::{RecordingFolder, perf_script, read, samples_of, send, wait_for};
use crate::support::{PidFileGuard, ProcessGuard, Unprivileged, is_root, sh, stderr};

/// A short command.
const BUSY: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"];

#[test]
fn a_command_leaves_samples_a_ledger_and_its_status() {
    let place = RecordingFolder::new();
    let output = place.run(&[
        "-e",
        "cpu-clock",
        "-F",
        "4000",
        "--",
        "sh",
        "-c",
        &format!("{}; exit 7", BUSY[2]),
    ]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let found = read(&place.file());
    let ledger = found.ledger.unwrap();
    assert!(found.finished && found.samples > 0 && found.marks > 0);
    assert_eq!((samples_of(&ledger), ledger.finished), (found.samples, true));
    assert!(ledger.command.as_ref().is_some_and(|command| command.user_ns > 0), "{ledger:?}");
    assert!(
        ledger.cost.start_cpu_ns > 0
            && ledger.cost.wake_ups > 0
            && ledger.cost.system_calls >= ledger.cost.wake_ups,
        "{ledger:?}"
    );
    assert_eq!(ledger.output.path, "write");
    let text = stderr(&output);
    assert!(text.contains(&format!("{} samples in ", found.samples)), "{text}");
    assert!(text.contains("tare: overhead ") && text.contains(" (recorder: "), "{text}");
    let Some(lines) = perf_script(&["-F", "tid,time"], &place.file()) else { return };
    assert_eq!(lines.len(), found.samples);
    // The recorder has no samples.
    assert!(!found.tids.contains(&ledger.recorder.pid));
}

#[test]
fn quiet_is_quiet() {
    let place = RecordingFolder::new();
    let output = place.run(&["-q", "--", "true"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert!(read(&place.file()).finished);
}

/// The number of lines in which a tracepoint names one of the threads: in a field, or as the
/// current thread.
fn named(script: &[String], tids: &[i32]) -> usize {
    let names = |line: &&String| {
        let (tid, fields) = line.trim_start().split_once(' ').unwrap_or_default();
        let by_field = |tid: &i32| {
            ["next_pid", "prev_pid", " pid"].iter().any(|field| {
                fields
                    .split(field)
                    .nth(1)
                    .is_some_and(|at| at[1..].split(' ').next() == Some(&tid.to_string()))
            })
        };
        tids.iter().any(|own| tid == own.to_string() || by_field(own))
    };
    script.iter().filter(names).count()
}

#[test]
fn a_whole_machine_without_the_recorder() {
    if !is_root() {
        return;
    }
    let events = "raw_syscalls:*,sched:sched_switch,sched:sched_wakeup";
    for path in ["write", "mmap", "direct"] {
        let place = RecordingFolder::new();
        let option = format!("--output-path={path}");
        let output = place.run(&[
            "-a",
            "--no-call-graph",
            "-e",
            events,
            &option,
            "--flush-interval",
            "50",
            "--",
            "sleep",
            "0.4",
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        let found = read(&place.file());
        let ledger = found.ledger.unwrap();
        let own: Vec<i32> = ledger.recorder.tids.iter().copied().collect();
        assert!(own.contains(&ledger.recorder.pid) && found.samples > 0);
        assert_eq!(samples_of(&ledger), found.samples);
        assert!(!found.tids.iter().any(|tid| own.contains(tid)));
        let Some(script) = perf_script(&["-F", "tid,trace"], &place.file()) else { return };
        assert_eq!(script.len(), found.samples);
        assert_eq!(named(&script, &own), 0, "{path}");
    }
    let place = RecordingFolder::new();
    let output = place.run(&[
        "-a",
        "--include-self",
        "-e",
        events,
        "--flush-interval",
        "50",
        "--",
        "sleep",
        "0.4",
    ]);
    let ledger = read(&place.file()).ledger.unwrap();
    let own: Vec<i32> = ledger.recorder.tids.iter().copied().collect();
    let Some(script) = perf_script(&["-F", "tid,trace"], &place.file()) else { return };
    let seen = named(&script, &own);
    // A recorder that records its own writes would fill the file with them. On a busy machine it
    // drains its rings more often, which makes more calls.
    let allowed = 400 + script.len() / 100;
    assert!(seen > 0 && seen < allowed, "{seen} own events: {}", stderr(&output));
}

#[test]
fn signals_end_a_recording_that_is_whole() {
    if !is_root() {
        return;
    }
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let place = RecordingFolder::new();
        let mut recorder = ProcessGuard::spawn(&mut place.record(&["-a", "-e", "cpu-clock", "-q"]));
        wait_for(&place.file());
        send(signal, &recorder);
        assert_eq!(recorder.wait().unwrap().code(), Some(status), "{signal}");
        let found = read(&place.file());
        assert!(found.finished && found.samples > 0 && found.ledger.unwrap().finished, "{signal}");
    }
}

#[test]
fn the_command_ends_with_the_signal_and_says_so() {
    let place = RecordingFolder::new();
    let mut recorder =
        ProcessGuard::spawn(&mut place.record(&["-e", "cpu-clock", "-q", "--", "sleep", "30"]));
    wait_for(&place.file());
    send("TERM", &recorder);
    assert_eq!(recorder.wait().unwrap().code(), Some(143));
    assert!(read(&place.file()).finished);
}

#[test]
fn a_killed_recorder_leaves_a_command_that_goes_on_and_a_file_that_can_be_read() {
    let place = RecordingFolder::new();
    let command = PidFileGuard(place.folder.path().join("pid"));
    let script = format!("echo $$ >{}; while :; do :; done", command.0.display());
    let options = [
        "--no-call-graph",
        "-e",
        "cpu-clock",
        "--flush-interval",
        "50",
        "-q",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let mut recorder = ProcessGuard::spawn(&mut place.record(&options));
    wait_for(&command.0);
    std::thread::sleep(Duration::from_millis(300));
    send("KILL", &recorder);
    recorder.wait().unwrap();
    assert!(command.is_alive(), "the command is gone");
    drop(command);
    let found = read(&place.file());
    let ledger = found.ledger.unwrap();
    assert!(found.samples > 0 && !found.finished && !ledger.finished);
    assert_eq!(i64::from(ledger.recorder.pid), i64::from(recorder.id()));
    let Some(lines) = perf_script(&["-F", "tid,time"], &place.file()) else { return };
    assert_eq!(lines.len(), found.samples);
}

#[test]
fn a_killed_command_is_128_and_the_signal() {
    let place = RecordingFolder::new();
    assert_eq!(place.run(&["-q", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    assert!(read(&place.file()).finished);
}

#[test]
fn a_command_that_cannot_run_costs_no_recording() {
    let place = RecordingFolder::new();
    std::fs::write(place.file(), "precious").unwrap();
    for (command, status) in [("no-such-program-here", 127), ("/etc/passwd", 126)] {
        let output = place.run(&["--", command]);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert_eq!(
            stderr(&output).lines().filter(|line| line.contains(command)).count(),
            1,
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(std::fs::read_to_string(place.file()).unwrap(), "precious");
}

#[test]
fn a_running_process_is_recorded_and_left_alone() {
    let place = RecordingFolder::new();
    let mut busy = ProcessGuard::busy();
    let pid = busy.id().to_string();
    let output = place.run(&["-e", "cpu-clock", "-p", &pid, "--timeout", "300"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&place.file());
    assert!(found.samples > 0 && found.tids.iter().all(|tid| tid.to_string() == pid));
    let lines = perf_script(&["-F", "comm,dso,ip"], &place.file());
    assert!(lines.is_none_or(|lines| lines.iter().any(|line| line.contains("sh"))));
    assert!(busy.try_wait().unwrap().is_none(), "the process ended");
    // The recording ends with the process.
    let mut recorder =
        ProcessGuard::spawn(&mut place.record(&["-e", "cpu-clock", "-q", "-p", &pid]));
    std::thread::sleep(Duration::from_millis(300));
    busy.end();
    assert!(recorder.wait().unwrap().success());
    let output = place.run(&["-p", &pid]);
    assert_eq!(
        (output.status.code(), stderr(&output).lines().last()),
        (Some(2), Some(&*format!("tare: there is no process {pid}")))
    );
}

#[test]
fn an_ordinary_user_records_what_is_his() {
    let Some(nobody) = Unprivileged::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    sh(&format!("chmod 777 {}", folder.path().display()));
    let file = folder.path().join("perf.data");
    let output = nobody.tare(
        "record",
        &["-o", file.to_str().unwrap(), "-e", "cpu-clock", "--", BUSY[0], BUSY[1], BUSY[2]],
    );
    let paranoid: i32 = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    if paranoid > 2 {
        println!("skipped: kernel.perf_event_paranoid is {paranoid}");
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&file);
    assert!(found.samples > 0);
    assert!(found.ledger.unwrap().rings.bytes >= 4096);
    if paranoid > 0 {
        let output = nobody.tare(
            "record",
            &["-o", file.to_str().unwrap(), "-a", "-e", "cpu-clock", "--timeout", "100"],
        );
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.contains("sysctl kernel.perf_event_paranoid="),
            "{text}"
        );
    }
}

#[test]
fn closed_descriptors_and_few_of_them() {
    let place = RecordingFolder::new();
    let line = |end: &str| {
        format!(
            "{} record -q -o {} -e cpu-clock -- true {end}",
            env!("CARGO_BIN_EXE_tare"),
            place.file().display()
        )
    };
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let output = sh(&line(closed));
        assert!(output.status.success(), "{closed}: {}", stderr(&output));
        assert!(read(&place.file()).finished, "{closed}");
    }
    let output = sh(&format!("ulimit -n 20; {}", line("")));
    assert!(output.status.success(), "{}", stderr(&output));
    let cpus = std::thread::available_parallelism().unwrap().get();
    let many = vec!["cpu-clock"; 40].join(",");
    let output = sh(&format!(
        "ulimit -n 20; {}",
        line("").replace("-e cpu-clock", &format!("--follow=inherit -e {many}"))
    ));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    let text = stderr(&output);
    // One more descriptor separates the command's counts from its children's.
    assert!(
        text.lines().count() == 1
            && text.contains(&format!("{} file descriptors are needed", 40 * cpus + 1))
            && text.contains("ulimit -Hn"),
        "{text}"
    );
}

#[test]
fn what_finds_no_room_is_counted() {
    if !is_root() {
        return;
    }
    let place = RecordingFolder::new();
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=300000 2>/dev/null";
    let output = place.run(&[
        "-m",
        "1",
        "--no-call-graph",
        "-e",
        "raw_syscalls:*",
        "--",
        "sh",
        "-c",
        command,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&place.file());
    let ledger = found.ledger.unwrap();
    let lost: u64 = ledger.events.iter().filter_map(|event| event.lost).sum();
    assert_eq!(samples_of(&ledger), found.samples);
    assert_eq!(ledger.rings.bytes, 4096);
    assert!(lost > 0 && stderr(&output).contains(" LOST"), "{ledger:?}");
    // The kernel reports a ring's last losses only in the event's count, because no further record
    // follows.
    let by_ring: u64 = ledger.losses.iter().map(|loss| loss.records).sum();
    assert!(
        by_ring == found.lost && by_ring > 0 && by_ring <= lost,
        "{by_ring} by ring, {} in records, {lost} by event",
        found.lost
    );
    assert!(ledger.losses.iter().all(|loss| loss.from_ns <= loss.to_ns), "{ledger:?}");
}

#[test]
fn the_last_seconds_alone() {
    let place = RecordingFolder::new();
    let words = ["-e", "cpu-clock", "-F", "1000", "--flush-interval", "50", "--keep-last", "0.2"];
    let output = place
        .run(&[&words[..], &["--", "sh", "-c", "while :; do :; done & sleep 1; kill $!"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&place.file());
    let ledger = found.ledger.unwrap();
    assert_eq!(samples_of(&ledger), found.samples);
    let Some(times) = perf_script(&["-F", "time"], &place.file()) else { return };
    let times: Vec<f64> =
        times.iter().map(|line| line.trim().trim_end_matches(':').parse().unwrap()).collect();
    let span = times.last().unwrap() - times.first().unwrap();
    assert!(span < 0.9 * ledger.recorded_ns as f64 / 1e9, "{span} s of {ledger:?}");
    // Records about processes are older and still present.
    let Some(lines) = perf_script(&["-F", "comm,dso,ip"], &place.file()) else { return };
    assert!(
        lines.iter().filter(|line| !line.trim().is_empty()).all(|line| !line.contains(":-1")),
        "{lines:?}"
    );
}

#[test]
fn overwritten_rings_hold_what_came_last() {
    if !is_root() {
        return;
    }
    let place = RecordingFolder::new();
    let command = "dd if=/dev/zero of=/dev/null bs=1 count=100000 2>/dev/null";
    let output = place.run(&[
        "--overwrite",
        "-m",
        "16",
        "--no-call-graph",
        "-e",
        "raw_syscalls:*",
        "--",
        "sh",
        "-c",
        command,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&place.file());
    let ledger = found.ledger.unwrap();
    assert!(found.samples > 100 && found.samples < 20_000, "{} samples", found.samples);
    assert_eq!(samples_of(&ledger), found.samples);
    let Some(lines) = perf_script(&["-F", "time"], &place.file()) else { return };
    assert_eq!(lines.len(), found.samples);
    assert!(lines.is_sorted());
}

#[test]
fn orders_are_taken_and_answered() {
    let place = RecordingFolder::new();
    let orders = place.folder.path().join("orders");
    let answers = place.folder.path().join("answers");
    assert!(sh(&format!("mkfifo {} {}", orders.display(), answers.display())).status.success());
    let control = format!("fifo:{},{}", orders.display(), answers.display());
    let options = [
        "-e",
        "cpu-clock",
        "-D",
        "-1",
        "--control",
        &control,
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    let mut recorder = ProcessGuard::spawn(&mut place.record(&options));
    wait_for(&place.file());
    let mut to = File::options().read(true).write(true).open(&orders).unwrap();
    let mut from = BufReader::new(File::options().read(true).write(true).open(&answers).unwrap());
    for order in ["ping", "enable", "disable", "stop"] {
        writeln!(to, "{order}").unwrap();
        let mut answer = String::new();
        from.read_line(&mut answer).unwrap();
        assert_eq!(answer, "ack\n", "{order}");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    let found = read(&place.file());
    assert!(found.samples > 0 && found.finished);
    let ledger = found.ledger.unwrap();
    assert!(ledger.recorded_ns < 1_000_000_000, "{ledger:?}");
}

#[test]
fn exact_counts_of_threads() {
    let place = RecordingFolder::new();
    let output = place.run(&[
        "-s",
        "-e",
        "page-faults",
        "-c",
        "1",
        "--",
        "sh",
        "-c",
        "/bin/true; /bin/true; exit 0",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(read(&place.file()).reads >= 2);
}
