//! Inputs of `tare report`: streams, damaged files, hostile names, recordings of the recorder
//! itself.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::report::{Recordings, report, rows, stdout};
use crate::support::{is_root, sh, stderr, tare};

#[test]
fn a_pipe_gives_the_same_as_a_file() {
    let Some(made) = Recordings::get() else { return };
    let stream = sh(
        "perf record --no-bpf-event -q -e cpu-clock -F 1999 -o - -- sh -c 'head -c 9000000 /dev/zero | gzip -c >/dev/null'",
    );
    let saved = made.file("stream");
    std::fs::write(&saved, &stream.stdout).unwrap();
    for keys in ["comm", "comm,dso,sym"] {
        let mut child = tare()
            .args(["report", "-i", "-", "--sort", keys])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&stream.stdout).unwrap();
        let piped = stdout(&child.wait_with_output().unwrap());
        assert_eq!(piped, stdout(&report(&saved, &["--sort", keys])));
        assert!(piped.contains("gzip"), "{piped}");
    }
}

#[test]
fn what_is_cut_is_read_as_far_as_it_goes() {
    let Some(made) = Recordings::get() else { return };
    let whole = std::fs::read(made.file("plain")).unwrap();
    let cut = made.file("cut");
    // Offset and size of the data (`struct perf_file_header`): the cut is in the middle of them.
    let word = |at: usize| {
        let bytes = whole[at..].first_chunk().unwrap();
        usize::try_from(u64::from_ne_bytes(*bytes)).unwrap()
    };
    std::fs::write(&cut, &whole[..word(40) + word(48) / 2]).unwrap();
    for keys in ["comm", "comm,sym"] {
        let output = report(&cut, &["--sort", keys]);
        let text = stdout(&output);
        assert!(
            text.contains("the header promises more data than there are")
                || text.contains("the data end within a record"),
            "{text}"
        );
        assert!(!rows(&text).is_empty());
    }
}

#[test]
fn what_is_no_recording_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    for content in [&b""[..], b"PERFILE2", b"\x7fELF nothing of ours, but long enough to be one"] {
        std::fs::write(&file, content).unwrap();
        let output = report(&file, &[]);
        assert_eq!(
            (output.status.code(), stderr(&output).lines().count()),
            (Some(1), 1),
            "{}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty());
    }
    let absent = report(&folder.path().join("absent"), &[]);
    assert_eq!(
        (absent.status.code(), stderr(&absent).lines().count()),
        (Some(1), 1),
        "{}",
        stderr(&absent)
    );
    let unknown = report(&file, &["--sort", "colour"]);
    assert_eq!(unknown.status.code(), Some(2));
}

/// The kernel accepts any bytes as a thread name.
#[test]
fn hostile_names_do_nothing_to_a_terminal() {
    let Some(made) = Recordings::get() else { return };
    let program = made.file("evil\x1b[2J\n\u{9b}x");
    std::fs::copy("/bin/gzip", &program).unwrap();
    let file = made.file("hostile");
    let input = "head -c 9000000 /dev/zero";
    let recorded = Command::new("sh")
        .args(["-c", &format!("{input} | perf record --no-bpf-event -q -e cpu-clock -F 1999 -o \"$0\" -- \"$1\" -c >/dev/null")])
        .arg(&file)
        .arg(&program)
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    for args in [
        &["--sort", "comm"][..],
        &["--sort", "pid,dso,sym"],
        &["--json", "--sort", "comm,dso"],
        &["--header-only"],
    ] {
        let text = stdout(&report(&file, args));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{args:?} {text:?}");
        assert!(text.contains("evil"), "{args:?} {text}");
    }
}

/// At a high rate a recorder of the whole machine samples itself.
#[test]
fn samples_of_the_recorder_are_left_out_and_counted() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("self");
    let recorded = tare()
        .args(["record", "-a", "-e", "cpu-clock", "-F", "4999", "-o"])
        .arg(&file)
        .args(["--", "sleep", "0.5"])
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let document = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&stdout(&report(&file, &[&["--json"], args].concat()))).unwrap()
    };
    let samples = |document: &serde_json::Value| document["events"][0]["samples"].as_u64().unwrap();
    // Without and with code locations.
    for args in [["--sort", "comm", "-g", "none"], ["--sort", "comm,sym", "-g", "none"]] {
        let without = document(&args);
        let with = document(&[&args[..], &["--include-self"]].concat());
        let own = without["loss"]["own_samples_left_out"].as_u64().unwrap();
        assert_eq!(samples(&without) + own, samples(&with));
        assert_eq!(Some(own), with["ledger"]["events"][0]["own"].as_u64());
        assert_eq!(Some(samples(&with)), with["ledger"]["events"][0]["samples"].as_u64());
    }
    let text = stdout(&report(&file, &["--sort", "comm"]));
    assert!(text.contains("# the recorder: "), "the ledger is shown: {text}");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let Some(made) = Recordings::get() else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = tare()
        .args(["report", "-i"])
        .arg(made.file("plain"))
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}
