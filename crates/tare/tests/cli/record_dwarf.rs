//! `tare record --call-graph dwarf` also records data mappings, because unwind tables may lie
//! there.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use tare_format::file::Reader;
use tare_format::record::Record;

use crate::recorded::{RecordingFolder, perf_script};
use crate::support::{ProcessGuard, stderr, tare};

/// The numbers of code and data mappings of each file in a recording.
fn mappings(path: &Path) -> BTreeMap<String, (usize, usize)> {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    let mut mappings: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if let Ok(Record::Mmap(mmap)) = entry.record.decode() {
            let (code, data) =
                mappings.entry(String::from_utf8_lossy(mmap.path).into_owned()).or_default();
            *if mmap.is_data { data } else { code } += 1;
        }
    }
    mappings
}

/// Asserts that the C library has mappings of both kinds.
fn has_data(mappings: &BTreeMap<String, (usize, usize)>, what: &str) {
    let libc =
        mappings.iter().find(|(path, _)| path.contains("/libc.so") || path.contains("/libc-"));
    let (path, (code, data)) = libc.expect("sh is linked to a C library");
    assert!(*code > 0 && *data > 0, "{what}: {path}: {mappings:?}");
}

#[test]
fn copied_stacks_come_with_mappings_of_data() {
    let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    for options in [&["--call-graph=dwarf,1024"][..], &["-e", "cpu-clock/call-graph=dwarf/"]] {
        let place = RecordingFolder::new();
        let output = place.run(&[options, &["--", "sh", "-c", busy]].concat());
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        has_data(&mappings(&place.file()), &format!("{options:?}"));
    }
    let running = ProcessGuard::busy();
    let place = RecordingFolder::new();
    let pid = running.id().to_string();
    let output = place.run(&["--call-graph=dwarf,1024", "-p", &pid, "--timeout", "200"]);
    assert!(output.status.success(), "{}", stderr(&output));
    has_data(&mappings(&place.file()), "what ran before");
    let place = RecordingFolder::new();
    assert!(place.run(&["--", "sh", "-c", busy]).status.success());
    assert!(mappings(&place.file()).values().all(|(_, data)| *data == 0), "fp needs none");
}

/// Debian's perf 6.1 has no unwinder and stops at the first frame.
#[test]
fn copied_stacks_are_whole() {
    let place = RecordingFolder::new();
    let options = ["--call-graph=dwarf,32768", "-e", "cpu-clock:u", "-F", "2500", "--"];
    // One run yields few samples.
    let often = format!("for i in $(seq 40); do {} list; done", env!("CARGO_BIN_EXE_tare"));
    let output = place.run(&[&options[..], &["sh", "-c", &often]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let whole = |text: &str| {
        let stacks = text.split("\n\n").filter(|stack| stack.trim_start().starts_with("tare"));
        let ends = |stack: &&str| stack.contains("_start") || stack.contains(" main+");
        (stacks.clone().filter(ends).count(), stacks.count())
    };
    let script = tare().args(["script", "-F", "comm,ip,sym", "-i"]).arg(place.file()).output();
    let script = script.unwrap();
    let (good, all) = whole(&String::from_utf8_lossy(&script.stdout));
    // Some stacks exceed the copy.
    assert!(all > 20 && good * 10 > all * 6, "{good} of {all} by tare");
    let unwinds = Command::new("perf").args(["version", "--build-options"]).output();
    let unwinds = unwinds
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libunwind: [ on"));
    let Some(lines) = perf_script(&["--no-inline", "-F", "comm,ip,sym"], &place.file()) else {
        return;
    };
    let (good, all) = whole(&lines.join("\n"));
    if unwinds {
        assert!(good * 10 > all * 6, "{good} of {all} by perf");
    } else {
        println!("skipped: this perf has no libunwind: {good} of {all}");
    }
}
