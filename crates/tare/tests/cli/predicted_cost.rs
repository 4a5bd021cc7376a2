//! What `tare record` and `tare report` say that sampling cost.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{stderr, tare};

const BURNER: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"];

/// The line that the recorder says, and what the recording says of it.
fn recorded(folder: &Path) -> (String, Value) {
    let file = folder.join("perf.data");
    let mut record = tare();
    record
        .env("XDG_STATE_HOME", folder)
        .args(["record", "-v", "-F", "999", "-e", "cpu-clock", "-o"])
        .arg(&file)
        .arg("--")
        .args(BURNER);
    let said = stderr(&record.stdin(Stdio::null()).output().unwrap());
    let line = said
        .lines()
        .find(|line| line.contains("in that cost, ") && line.contains("us a sample"))
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
    let (line, ledger) = recorded(folder.path());
    assert!(line.contains("an estimate") && line.contains("start-up apart"), "{line}");
    assert_eq!(ledger["sampling"]["calibrated"], false);

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
        recorded(folder.path())
    };
    // Rates that a busy hypervisor delivers too little of are left out of lines, and a line needs
    // two.
    let mut tries = std::iter::repeat_with(calibrated).take(3);
    let (line, ledger) = tries
        .find(|(line, _)| line.contains("calibrated on "))
        .expect("one of three studies can be fitted");
    assert!(line.contains("with call graph none, not fp"), "{line}");
    let (sampling, event) = (&ledger["sampling"], &ledger["events"][0]);
    assert_eq!(sampling["calibrated"], true);
    let number = |value: &Value| value.as_f64().unwrap();
    let cost = &event["sample_cost"];
    assert_eq!(number(&cost["in_kernel"]), 2.0, "call chains were recorded");
    let samples = number(&event["samples"]) + number(&event["in_kernel"]);
    let expected = samples * number(&cost["us"]["value"]) * 1e3 + number(&sampling["recorder_ns"]);
    let share = number(&sampling["share"]["value"]) * number(&sampling["cpu_ns"]);
    assert!((expected - share).abs() < 1e-3 * expected, "{expected} {share}");
}
