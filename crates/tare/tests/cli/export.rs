//! `tare export`: the text formats agree with the report. `./x peers` has other tools read them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::recorded::RecordingFolder;
use crate::support::{document, status, stderr, tare, workload};

fn export(format: &str, file: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = tare();
    let output =
        command.args(["export", "--format", format]).arg(file).args(args).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    output.stdout
}

/// The own weight of each function in the report.
fn reported(file: &Path) -> BTreeMap<String, u64> {
    let args = ["report", "--json", "--no-children", "-g", "none", "--sort", "sym", "-i"];
    let report = document(&tare().args(args).arg(file).output().unwrap());
    let mut sums = BTreeMap::new();
    for entry in report["events"][0]["entries"].as_array().unwrap() {
        if let Some(name) = entry["symbol"].as_str() {
            *sums.entry(name.to_owned()).or_default() += entry["own"]["period"].as_u64().unwrap();
        }
    }
    sums
}

fn json_lines(text: &[u8]) -> Vec<Value> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn names_cannot_control_a_terminal() {
    let recording = RecordingFolder::new();
    let folder = tempfile::tempdir().unwrap();
    // CSI as one character, which JSON allows in a string, and the end of a right-to-left override.
    let program = folder.path().join("a\u{9b}31m\u{202e}b");
    std::fs::copy(workload("mix"), &program).unwrap();
    let recorded =
        recording.run(&["-g", "-F", "999", "--", program.to_str().unwrap(), "0.1", "90", "2"]);
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    for format in ["folded", "jsonl", "speedscope", "firefox", "chrome"] {
        let text = String::from_utf8(export(format, &recording.file(), &[])).unwrap();
        let is_unsafe = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert_eq!(text.find(is_unsafe), None, "{format}: {text:?}");
        assert!(text.contains("31m"), "{format}: {text}");
    }
}

#[test]
fn every_text_format_has_the_sums_of_the_report() {
    let recording = RecordingFolder::new();
    let mix = workload("mix");
    let recorded =
        recording.run(&["-g", "-F", "999", "--", mix.to_str().unwrap(), "0.3", "90", "2"]);
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    let file = recording.file();
    let wanted = reported(&file);
    assert!(wanted.contains_key("sixty"), "{wanted:?}");
    let check = |format: &str, found: &BTreeMap<String, u64>| {
        for (name, period) in &wanted {
            assert_eq!(found.get(name), Some(period), "{format}: {name}");
        }
    };
    let mut folded = BTreeMap::new();
    for line in String::from_utf8(export("folded", &file, &[])).unwrap().lines() {
        let (stack, period) = line.rsplit_once(' ').unwrap();
        let leaf = stack.rsplit(';').next().unwrap().to_owned();
        *folded.entry(leaf).or_default() += period.parse::<u64>().unwrap();
    }
    check("folded", &folded);
    let lines = json_lines(&export("jsonl", &file, &[]));
    let mut rows = BTreeMap::new();
    let mut samples = 0_u64;
    for line in lines.iter().filter(|line| line["kind"] == "sample") {
        let leaf = line["stack"][0]["function"].as_str().unwrap().to_owned();
        *rows.entry(leaf).or_default() += line["period"].as_u64().unwrap();
        samples += 1;
    }
    check("jsonl", &rows);
    let end = lines.last().unwrap();
    assert_eq!((&end["kind"], &end["samples"]), (&"end".into(), &samples.into()));
    assert_eq!(end["ledger"]["finished"], true);
    let speedscope: Value = serde_json::from_slice(&export("speedscope", &file, &[])).unwrap();
    let profile = &speedscope["profiles"][0];
    let mut sums = BTreeMap::new();
    for (stack, weight) in
        profile["samples"].as_array().unwrap().iter().zip(profile["weights"].as_array().unwrap())
    {
        let leaf = stack.as_array().unwrap().last().unwrap().as_u64().unwrap();
        let name = &speedscope["shared"]["frames"][usize::try_from(leaf).unwrap()]["name"];
        *sums.entry(name.as_str().unwrap().to_owned()).or_default() += weight.as_u64().unwrap();
    }
    check("speedscope", &sums);
    let chrome: Value = serde_json::from_slice(&export("chrome", &file, &[])).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let count = |ph: &str| events.iter().filter(|event| event["ph"] == ph).count();
    assert!(count("B") > 0 && count("B") == count("E"), "{} and {}", count("B"), count("E"));
    assert_eq!(chrome["otherData"]["ledger"]["finished"], true);
}

#[test]
fn filters_leave_out_samples_and_formats_say_what_they_lack() {
    let recording = RecordingFolder::new();
    let mix = workload("mix");
    let words = [
        "-e",
        "cpu-clock,page-faults/period=1,name=faults/",
        "-F",
        "999",
        "--",
        mix.to_str().unwrap(),
        "0.2",
        "90",
        "2",
    ];
    let recorded = recording.run(&words);
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    let file = recording.file();
    let all = json_lines(&export("jsonl", &file, &[]));
    let one = json_lines(&export("jsonl", &file, &["-e", "cpu-clock"]));
    assert!(one.len() < all.len() && one.len() > 2, "{} of {}", one.len(), all.len());
    let tid = one[1]["tid"].clone();
    let of_thread = json_lines(&export("jsonl", &file, &["--tid", &tid.to_string()]));
    let is_its = |line: &&Value| line["kind"] == "sample" && line["tid"] == tid;
    assert_eq!(of_thread.len() - 2, all.iter().filter(is_its).count());
    let folded = tare().args(["export", "--format", "folded"]).arg(&file).output().unwrap();
    assert_eq!(status(&folded), 1);
    assert!(stderr(&folded).contains("with -e"), "{}", stderr(&folded));
}

/// Returns the numbers of a protobuf message by field; of repeated ones the last.
fn protobuf_numbers(mut message: &[u8]) -> BTreeMap<u64, u64> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let [byte, rest @ ..] = *message else { panic!("the message is cut") };
            *message = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut numbers = BTreeMap::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let number = varint(&mut message);
        match tag & 7 {
            0 => _ = numbers.insert(tag >> 3, number),
            2 => message = &message[usize::try_from(number).unwrap()..],
            kind => panic!("wire type {kind}"),
        }
    }
    numbers
}

/// Parca refuses a pprof profile without a date or a period.
#[test]
fn exports_have_the_date_of_the_recording() {
    use std::time::{SystemTime, UNIX_EPOCH};
    let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let before_ns = now_ns();
    let recording = RecordingFolder::new();
    let mix = workload("mix");
    let recorded = recording.run(&["-F", "1000", "--", mix.to_str().unwrap(), "0.5", "5", "1"]);
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    let during = before_ns..now_ns();
    let during_ms = before_ns as f64 / 1e6..now_ns() as f64 / 1e6;
    let firefox: Value =
        serde_json::from_slice(&export("firefox", &recording.file(), &[])).unwrap();
    let start_ms = firefox["meta"]["startTime"].as_f64().unwrap();
    assert!(during_ms.contains(&start_ms), "{start_ms} {during_ms:?}");
    let file = recording.folder.path().join("profile.pb.gz");
    export("pprof", &recording.file(), &["-o", file.to_str().unwrap()]);
    let unpacked = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    let numbers = protobuf_numbers(&unpacked.stdout);
    // Fields of `Profile`: time_nanos is 9, duration_nanos 10, period 12.
    assert!(during.contains(&numbers[&9].into()), "{numbers:?} {during:?}");
    assert!(numbers[&10] > 0 && numbers[&10] < 60_000_000_000, "{numbers:?}");
    assert_eq!(numbers[&12], 1_000_000, "{numbers:?}");
}

#[cfg(feature = "parquet")]
#[test]
fn a_recording_becomes_a_store_with_the_sums_of_the_report() {
    use std::time::{SystemTime, UNIX_EPOCH};
    let recording = RecordingFolder::new();
    let mix = workload("mix");
    let now_us = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    let before_us = now_us();
    let recorded =
        recording.run(&["-g", "-F", "999", "--", mix.to_str().unwrap(), "0.3", "90", "2"]);
    assert_eq!(status(&recorded), 0, "{}", stderr(&recorded));
    let file = recording.file();
    let store = recording.folder.path().join("store");
    export("parquet", &file, &["-o", store.to_str().unwrap()]);
    let during = before_us..now_us();

    let samples = crate::agent::rows(&store, "samples");
    let mut sums = BTreeMap::new();
    let mut number = 0_u64;
    for row in &samples {
        assert_eq!((&row["service"], &row["process"]), (&"mix".into(), &"mix".into()), "{row}");
        number += row["samples"].as_u64().unwrap();
        if let Some(function) = row["function"].as_str() {
            *sums.entry(function.to_owned()).or_default() += row["weight"].as_u64().unwrap();
        }
    }
    let wanted = reported(&file);
    for name in ["sixty", "thirty"].into_iter().filter(|name| wanted.contains_key(*name)) {
        assert_eq!(sums.get(name), wanted.get(name), "{name}");
    }
    assert!(sums.contains_key("sixty"), "{sums:?}");
    let lines = json_lines(&export("jsonl", &file, &[]));
    assert_eq!(lines.last().unwrap()["samples"], number);
    let segments = crate::agent::rows(&store, "segments");
    assert_eq!(crate::agent::sum(&segments, "samples"), i64::try_from(number).unwrap());
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let reader = tare_store::StoreReader::open(&store, 1).unwrap();
    let overview = reader.overview(&tare_store::Query::default()).unwrap();
    let times = overview.hosts[&host];
    let is_during = |time_us: i64| during.contains(&time_us.unsigned_abs().into());
    assert!(is_during(times.start_us) && is_during(times.end_us), "{times:?} {during:?}");
    let of_store = |words: &[&str]| {
        let output = tare().args(words).arg("--store").arg(&store).output().unwrap();
        assert_eq!(status(&output), 0, "{words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    of_store(&["store", "verify"]);
    assert!(of_store(&["fleet", "top", "--by", "function", "--total"]).contains("sixty"));

    for (to, expected) in [(store.clone(), "not empty"), (store.join("a.parquet"), "-o DIR")] {
        let mut command = tare();
        command.args(["export", "--format", "parquet", "-o"]).arg(to).arg(&file);
        let output = command.output().unwrap();
        assert_ne!(status(&output), 0);
        assert!(
            stderr(&output).to_lowercase().contains(&expected.to_lowercase()),
            "{}",
            stderr(&output)
        );
    }
}
