//! Recordings made inside of a pid namespace, such as a container's.

use serde_json::Value;

use crate::support::{ProcessGuard, document, sh, status, stderr, tare};

#[test]
fn tasks_outside_of_the_namespace_have_no_borrowed_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let _busy = ProcessGuard::busy();
    let output = sh(&format!(
        "exec unshare --pid --fork --mount-proc {} record -a -e cpu-clock -F 499 -o {} -- sleep 0.4",
        env!("CARGO_BIN_EXE_tare"),
        file.display()
    ));
    if status(&output) != 0 {
        println!("skipped: {}", stderr(&output));
        return;
    }
    let output = tare().args(["report", "--json", "--no-children", "-i"]).arg(&file).output();
    let document = document(&output.unwrap());
    let entries = document["events"][0]["entries"].as_array().unwrap();
    let is_outside = |entry: &&Value| entry["comm"] == ":-1";
    assert!(entries.iter().any(|entry| is_outside(&entry)), "{document}");
    for entry in entries.iter().filter(is_outside) {
        let dso = entry["dso"].as_str().unwrap_or_default();
        assert!(dso.is_empty() || dso.starts_with('['), "{entry}");
    }
    // The busy shell is outside: no sample inside is called `sh`.
    assert!(entries.iter().all(|entry| entry["comm"] != "sh"), "{document}");
    assert_ne!(document["loss"]["foreign_samples"], 0, "{document}");
}
