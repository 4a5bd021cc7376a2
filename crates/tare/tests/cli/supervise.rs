//! How the commands that run or watch programs end, and with which exit status.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{ProcessGuard, is_root, signal, status, stderr, tare, wait_until};

/// Commands that run a program, with options for short output.
const RUNNERS: [&[&str]; 5] = [
    &["stat", "-e", "page-faults:u"],
    &["record", "-q", "-e", "task-clock:u", "-o", "recording.data"],
    &["trace", "-o", "calls.txt"],
    &["sched", "-o", "sums.txt"],
    &["lock", "-o", "locks.txt"],
];

/// `trace`, `sched` and `lock` need more rights than a user has.
fn runners() -> &'static [&'static [&'static str]] {
    if is_root() { &RUNNERS } else { &RUNNERS[..2] }
}

/// `tare RUNNER OPTIONS -- sh -c SCRIPT` in a folder.
fn command(folder: &Path, runner: &[&str], options: &[&str], script: &str) -> Command {
    let mut command = tare();
    command.current_dir(folder).args(runner).args(options).args(["--", "sh", "-c", script]);
    // SIGTSTP has no effect in an orphaned process group, which the tests' own may be.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a script that runs `setup`, creates the file `started` and goes on with `script`, and
/// waits for that file.
fn start(folder: &Path, runner: &[&str], setup: &str, script: &str) -> Child {
    let started = folder.join("started");
    let _ = std::fs::remove_file(&started);
    let script = format!("{setup}; echo > started; {script}");
    let child = command(folder, runner, &[], &script).spawn().expect("tare was built");
    wait_until("the command starts", || started.exists());
    child
}

/// Columns: script, tare's options, expected status.
#[test]
fn each_runner_exits_as_its_command_did() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str], i32); 7] = [
        ("exit 0", &[], 0),
        ("exit 7", &[], 7),
        ("kill -KILL $$", &[], 137),
        ("kill -TERM $$", &[], 143),
        ("exec sleep 60", &["--timeout", "200"], 0),
        ("trap 'exit 5' TERM; while :; do sleep 0.01; done", &["--timeout", "1000"], 5),
        ("exit 7", &["--timeout", "60000"], 7),
    ];
    for runner in runners() {
        for (script, options, expected) in cases {
            let output = command(folder.path(), runner, options, script).output().unwrap();
            assert_eq!(
                status(&output),
                expected,
                "{runner:?} {options:?} {script}: {}",
                stderr(&output)
            );
        }
    }
}

/// Waits for tare's end, at most for 20 seconds.
fn ended(mut child: Child, what: &str) -> i32 {
    let until = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        match child.try_wait().unwrap() {
            Some(ended) => return ended.code().unwrap_or(-1),
            None if std::time::Instant::now() > until => {
                child.kill().unwrap();
                panic!("{what} goes on");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Shells start background jobs with SIGINT ignored, and their children ignore it too.
#[test]
fn an_inherited_ignored_sigint_ends_a_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    for runner in runners() {
        for words in [&["--", "sh", "-c", "echo > started; exec sleep 60"][..], &["-p"]] {
            let _ = std::fs::remove_file(&started);
            let target = ProcessGuard::busy();
            let pid = target.id().to_string();
            let is_attached = words == ["-p"];
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' INT QUIT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tare")]);
            command.current_dir(folder.path()).args(*runner).args(words);
            if is_attached {
                command.arg(&pid);
            }
            command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().unwrap();
            if is_attached {
                std::thread::sleep(Duration::from_millis(1500));
            } else {
                wait_until("the command starts", || started.exists());
            }
            signal(&child, Signal::INT);
            let status = ended(child, &format!("{runner:?} {words:?}"));
            assert_eq!(status, if is_attached { 130 } else { 143 }, "{runner:?} {words:?}");
        }
    }
}

#[test]
fn each_runner_passes_a_signal_on_and_exits_as_its_command_did() {
    let folder = tempfile::tempdir().unwrap();
    for runner in runners() {
        for (number, setup, script, expected) in [
            (Signal::INT, ":", "exec sleep 60", 130),
            (Signal::TERM, ":", "exec sleep 60", 143),
            (Signal::HUP, ":", "exec sleep 60", 129),
            (Signal::TERM, "trap 'exit 5' TERM", "while :; do sleep 0.01; done", 5),
        ] {
            let child = start(folder.path(), runner, setup, script);
            signal(&child, number);
            let output = child.wait_with_output().unwrap();
            assert_eq!(status(&output), expected, "{runner:?} {number:?}: {}", stderr(&output));
        }
    }
}

/// SIGTSTP is not caught: it stops tare alone, and the command's status arrives after SIGCONT.
#[test]
fn each_runner_can_be_stopped_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    for runner in runners() {
        let child =
            start(folder.path(), runner, ":", "while ! [ -e go ]; do sleep 0.01; done; exit 7");
        signal(&child, Signal::TSTP);
        let state = format!("/proc/{}/stat", child.id());
        wait_until("tare stops", || std::fs::read_to_string(&state).unwrap().contains(") T "));
        std::fs::write(folder.path().join("go"), "").unwrap();
        signal(&child, Signal::CONT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), 7, "{runner:?}: {}", stderr(&output));
        std::fs::remove_file(folder.path().join("go")).unwrap();
    }
}

#[test]
fn each_runner_works_with_stdin_closed() {
    let folder = tempfile::tempdir().unwrap();
    for runner in runners() {
        let output = Command::new("sh")
            .current_dir(folder.path())
            .args(["-c", "exec \"$@\" -- sh -c 'exit 7' <&-", "sh"])
            .arg(tare().get_program())
            .args(*runner)
            .output()
            .unwrap();
        assert_eq!(status(&output), 7, "{runner:?}: {}", stderr(&output));
    }
}

#[test]
fn each_runner_reports_a_command_that_cannot_be_executed() {
    let folder = tempfile::tempdir().unwrap();
    for runner in runners() {
        for (name, expected) in [("./no-such-program", 127), ("/dev/null", 126)] {
            let output = tare()
                .current_dir(folder.path())
                .args(*runner)
                .args(["--", name])
                .output()
                .unwrap();
            assert_eq!(status(&output), expected, "{runner:?} {name}: {}", stderr(&output));
        }
    }
}

/// `tare top` on a busy process, after it has printed something.
fn start_top(target: &Child, options: &[&str]) -> Child {
    let mut command = tare();
    command.args(["top", "--stdio", "-d", "0.2", "-p", &target.id().to_string()]).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).expect("top prints");
    child
}

fn finish(mut child: Child) -> Output {
    // `top` ends at a closed pipe and waits at a full one, so read all.
    let mut rest = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn top_ends_with_a_status_for_each_cause() {
    let mut target = ProcessGuard::busy();
    for (number, expected) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let child = start_top(&target, &[]);
        signal(&child, number);
        let output = finish(child);
        assert_eq!(status(&output), expected, "{number:?}: {}", stderr(&output));
    }
    let stopped = start_top(&target, &["--timeout", "3000"]);
    signal(&stopped, Signal::TSTP);
    std::thread::sleep(Duration::from_millis(100));
    signal(&stopped, Signal::CONT);
    let output = finish(stopped);
    assert_eq!(status(&output), 0, "timeout after a stop: {}", stderr(&output));
    let line = format!(
        "exec {} top --stdio -p {} --timeout 300 <&-",
        tare().get_program().display(),
        target.id()
    );
    let output = crate::support::sh(&line);
    assert_eq!(status(&output), 0, "stdin closed: {}", stderr(&output));
    let child = start_top(&target, &[]);
    target.end();
    let output = finish(child);
    assert_eq!(status(&output), 0, "the target exits: {}", stderr(&output));
    assert!(stderr(&output).contains("all sampled processes have exited"), "{}", stderr(&output));
}

/// The first signal is passed on; the second makes tare terminate the command and exit.
#[test]
fn a_second_signal_ends_a_command_that_ignores_the_first() {
    let folder = tempfile::tempdir().unwrap();
    for runner in runners() {
        let child = start(
            folder.path(),
            runner,
            "trap 'echo > caught' INT",
            "while :; do sleep 0.01; done",
        );
        let caught = folder.path().join("caught");
        signal(&child, Signal::INT);
        wait_until("the command takes the first signal", || caught.exists());
        signal(&child, Signal::INT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), 143, "{runner:?}: {}", stderr(&output));
        std::fs::remove_file(&caught).unwrap();
    }
}

#[test]
fn recording_and_counting_without_a_command_say_what_they_watch() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (words, wanted) in [
        (&["record", "-e", "cpu-clock"][..], "tare: recording the whole machine until Ctrl-C\n"),
        (&["stat", "-e", "cpu-clock"], "tare: counting the whole machine until Ctrl-C\n"),
    ] {
        let said = folder.path().join("said");
        let mut command = tare();
        command.args(words).current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
        let text = || std::fs::read_to_string(&said).unwrap();
        wait_until("tare says what it watches", || text().contains(wanted));
        signal(&child, Signal::INT);
        assert_eq!(ended(child, &format!("{words:?}")), 130, "{words:?}");
    }
    for words in [&["record", "-q"][..], &["record", "-C", "0"], &["stat"], &["stat", "-x,"]] {
        let mut command = tare();
        command
            .args(words)
            .args(["-e", "cpu-clock", "--timeout", "200"])
            .current_dir(folder.path());
        let output = command.output().unwrap();
        assert!(!stderr(&output).contains("whole machine"), "{words:?}: {}", stderr(&output));
    }
}
