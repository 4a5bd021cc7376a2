//! The cost of sampling that `tare record` and `tare report` print.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{stderr, tare};

const BURNER: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"];

/// The recorder's message about cost, and the ledger's figures.
fn recorded(folder: &Path, options: &[&str]) -> (String, Value) {
    let file = folder.join("perf.data");
    let mut record = tare();
    record
        .env("XDG_STATE_HOME", folder)
        .args(["record", "-v", "-F", "999", "-e", "cpu-clock", "-o"])
        .arg(&file)
        .args(options)
        .arg("--")
        .args(BURNER);
    let said = stderr(&record.stdin(Stdio::null()).output().unwrap());
    let line = said
        .lines()
        .find(|line| {
            line.contains("overhead without start and exit: ") && line.contains("us per sample")
        })
        .unwrap_or_else(|| panic!("{said}"))
        .to_owned();
    let report = |options: &[&str]| {
        let output = tare()
            .args(["report", "-G", "--sort", "comm"])
            .args(options)
            .arg("-i")
            .arg(&file)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(report(&[]).contains(line.trim_start_matches("tare: ")), "report says the same");
    let document: Value = serde_json::from_str(&report(&["--json"])).unwrap();
    (line, document["ledger"].clone())
}

#[test]
fn the_cost_is_an_estimate_until_the_host_is_calibrated() {
    let folder = tempfile::tempdir().unwrap();
    let (line, ledger) = recorded(folder.path(), &["--no-calibrate"]);
    assert!(line.contains("an estimate") && line.contains("without start and exit"), "{line}");
    assert_eq!(ledger["sampling"]["calibrated"], false);
    assert_eq!(ledger["events"][0]["sample_cost"]["origin"], "estimate");

    let calibrated = || {
        let mut study = tare();
        study.env("XDG_STATE_HOME", folder.path());
        let rates = "0,500,1000,2000,4000";
        let study = study
            .args([
                "overhead",
                "-e",
                "cpu-clock",
                "--rates",
                rates,
                "--pairs",
                "10",
                "--loops",
                "counting",
            ])
            .output()
            .unwrap();
        assert!(study.status.success(), "{}", stderr(&study));
        recorded(folder.path(), &["--no-calibrate"])
    };
    // On a busy hypervisor some rates get too few samples and are excluded; a fit needs two rates.
    let mut tries = std::iter::repeat_with(calibrated).take(3);
    let (line, ledger) = tries
        .find(|(line, _)| line.contains("by a study"))
        .expect("one of three studies can be fitted");
    assert!(line.contains("with call graph none, not fp"), "{line}");
    let sampling = &ledger["sampling"];
    let event = &ledger["events"][0];
    assert_eq!(sampling["calibrated"], true);
    assert_eq!(event["sample_cost"]["origin"], "study");
    let number = |value: &Value| value.as_f64().unwrap();
    let cost = &event["sample_cost"];
    assert_eq!(number(&cost["in_kernel"]), 2.0, "call chains were recorded");
    let samples = number(&event["samples"]) + number(&event["in_kernel"]);
    let expected = samples * number(&cost["us"]["value"]) * 1e3 + number(&sampling["recorder_ns"]);
    let share = number(&sampling["share"]["value"]) * number(&sampling["cpu_ns"]);
    assert!((expected - share).abs() < 1e-3 * expected, "{expected} {share}");
}

/// The files with stored costs of a sample.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.join("tare/overhead"));
    files.into_iter().flatten().map(|file| file.unwrap().path()).collect()
}

#[test]
fn a_recording_measures_once_where_nobody_did() {
    let folder = tempfile::tempdir().unwrap();
    // On a busy machine the loop may get too few samples; the next recording then measures.
    let mut tries = std::iter::repeat_with(|| recorded(folder.path(), &[])).take(5);
    let Some((line, first)) = tries.find(|(line, _)| !line.contains("an estimate")) else {
        return println!("skipped: the loop had too few samples, five times");
    };
    assert!(line.contains("calibrated on ") && line.contains(" by a recording"), "{line}");
    let took = |ledger: &Value| ledger["cost"]["calibration_cpu_ns"].as_u64().unwrap();
    let cost = |ledger: &Value| ledger["events"][0]["sample_cost"].clone();
    assert_eq!(cost(&first)["origin"], "calibration");
    assert!(took(&first) > 0);
    let [file] = &kept(folder.path())[..] else { panic!("{:?}", kept(folder.path())) };
    let written = std::fs::metadata(file).unwrap().modified().unwrap();
    let (_, second) = recorded(folder.path(), &[]);
    assert_eq!((took(&second), cost(&second)), (0, cost(&first)), "the next recording uses it");
    assert_eq!(std::fs::metadata(file).unwrap().modified().unwrap(), written);
    let page = folder.path().join("page.html");
    let mut flame = tare();
    flame.arg("flame").arg("-i").arg(folder.path().join("perf.data")).arg("-o").arg(&page);
    assert!(flame.status().unwrap().success());
    assert!(std::fs::read_to_string(page).unwrap().contains("by a recording"), "the page says so");

    // A measurement on another CPU model doesn't apply here.
    let text = std::fs::read_to_string(file).unwrap();
    let model = text.lines().find(|line| line.contains("cpu_model")).unwrap();
    std::fs::write(file, text.replace(model, r#""cpu_model": "another""#)).unwrap();
    let (line, _) = recorded(folder.path(), &["--no-calibrate"]);
    assert!(line.contains("an estimate"), "{line}");
    std::fs::write(file, text).unwrap();
    let shown =
        tare().args(["overhead", "--show"]).env("XDG_STATE_HOME", folder.path()).output().unwrap();
    assert!(stderr(&shown).contains("no study was made on this host"), "{}", stderr(&shown));
}

#[test]
fn nothing_is_measured_where_somebody_waits_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let record = |options: &[&str]| {
        let mut record = tare();
        record.env("XDG_STATE_HOME", folder.path()).args(["record", "-q", "-e", "cpu-clock"]);
        let output = record.args(options).args(["--", "true"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    record(&["-o", "-"]);
    assert!(kept(folder.path()).is_empty());
    let file = folder.path().join("perf.data").display().to_string();
    record(&["-o", &file, "--no-calibrate"]);
    assert!(kept(folder.path()).is_empty());
}
