//! What unwinding while recording costs: stolen time, the recorder's CPU time and memory, a build
//! with many processes, and perf's way to the same chains.

use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::finding;
use crate::report::{Bound, Report};
use crate::run::{run, succeed};
use crate::scratch::Scratch;

/// A command with deep stacks.
const DEEP: &str = "printf '#include <regex>\\nint main() { return std::regex_match(\"a\", std::regex(\"b\")); }\\n' | g++ -O2 -x c++ -o /dev/null -";

pub(super) fn measure(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let stolen = stolen(scratch, report)?;
    let recorder = recorder(scratch, report)?;
    let busy = busy_machine(scratch, report)?;
    let forks = forks(scratch, report)?;
    Ok(json!({ "stolen": stolen, "recorder": recorder, "busy": busy, "forks": forks }))
}

/// The time that a sample takes from the sampled program, beside frame pointers.
fn stolen(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let tare = scratch.setting.tare();
    let words = [
        &tare,
        "overhead",
        "-e",
        "cpu-clock",
        "--rates",
        "0,4000",
        "--loops",
        "counting",
        "--call-graph",
        "fp,auto",
        "--pairs",
        "200",
        "--no-save",
        "--json",
    ];
    let document: Value = serde_json::from_str(&succeed(&words.map(str::to_owned))?.stdout)?;
    let us = |study: usize| {
        let rows = document["studies"][study]["rows"].as_array().into_iter().flatten();
        let last = rows.last().context("a study has rows")?;
        number(&last["cost"]["stolen_us"]["value"])
    };
    let [fp, auto] = [us(0)?, us(1)?];
    report.table.push(format!("stolen by a sample: fp {fp:.2} us, auto {auto:.2} us"));
    let what = "stolen by a sample, auto minus fp, us".to_owned();
    report.findings.push(finding(what, auto - fp, Bound::AtMost(5.0)));
    Ok(json!({ "fp_us": fp, "auto_us": auto }))
}

/// Records a command with `tare record -e cpu-clock` and these options; returns the ledger.
fn record(scratch: &Scratch<'_>, options: &[&str], command: &[&str]) -> anyhow::Result<Value> {
    let file = scratch.path("recorded.data").display().to_string();
    let tare = scratch.setting.tare();
    let begin = [&tare, "record", "-q", "-e", "cpu-clock", "-o", &file];
    let words = [&begin[..], options, &["--"], command].concat();
    succeed(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    ledger(scratch, &file)
}

/// The ledger of a recording.
fn ledger(scratch: &Scratch<'_>, file: &str) -> anyhow::Result<Value> {
    let tare = scratch.setting.tare();
    let words = [&tare, "report", "--json", "-g", "none", "--no-children", "-i", file];
    let document: Value = serde_json::from_str(&succeed(&words.map(str::to_owned))?.stdout)?;
    Ok(document["ledger"].clone())
}

fn number(value: &Value) -> anyhow::Result<f64> {
    value.as_f64().with_context(|| format!("{value} is no number"))
}

/// CPU time and memory of the recorder, beside frame pointers, and beside perf's way: copies of
/// stacks, unwound by `perf script`.
fn recorder(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let mut costs = Vec::new();
    for how in ["fp", "auto"] {
        let options = ["-F", "999", "--call-graph", how];
        costs.push(record(scratch, &options, &["sh", "-c", DEEP])?);
    }
    let cpu_us = |ledger: &Value| number(&ledger["cost"]["recording_cpu_ns"]).map(|ns| ns / 1e3);
    let samples = number(&costs[1]["events"][0]["samples"])?;
    let each = cpu_us(&costs[1])? / samples;
    let what = "recorder's CPU time per sample of g++, us".to_owned();
    report.findings.push(finding(what, each, Bound::AtMost(6.0)));
    let memory = |ledger: &Value| number(&ledger["cost"]["peak_memory_bytes"]);
    let more = (memory(&costs[1])? - memory(&costs[0])?) / 1e6;
    let what = "peak memory of the recorder, auto minus fp, MB".to_owned();
    report.findings.push(finding(what, more, Bound::AtMost(40.0)));
    let perf = perf_script_us(scratch)?;
    let what = "CPU time: perf script of copied stacks/tare's recorder, per sample".to_owned();
    report.findings.push(finding(what, perf / each, Bound::AtLeast(20.0)));
    Ok(json!({ "ledgers": costs, "perf_script_us_per_sample": perf }))
}

/// CPU time of `perf script` per sample with a copied stack.
fn perf_script_us(scratch: &Scratch<'_>) -> anyhow::Result<f64> {
    let file = scratch.path("perf-deep.data").display().to_string();
    let record = [
        "perf",
        "record",
        "-q",
        "-F",
        "999",
        "-e",
        "cpu-clock",
        "--call-graph",
        "dwarf,65528",
        "-o",
        &file,
        "--",
        "sh",
        "-c",
        DEEP,
    ];
    succeed(&record.map(str::to_owned))?;
    let script = ["perf", "script", "--no-inline", "-F", "ip,sym", "-i", &file];
    let samples = succeed(&script.map(str::to_owned))?.stdout.split("\n\n").count();
    let used = run(&script.map(str::to_owned))?;
    std::fs::remove_file(&file)?;
    Ok(used.cpu_ns as f64 / 1e3 / samples.max(1) as f64)
}

/// The share of a CPU that the recorder takes at 99 Hz with two busy CPUs.
fn busy_machine(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let busy_loop = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
    let mut busy = [busy_loop()?, busy_loop()?];
    let recorded = record(scratch, &["-a", "-g", "-F", "99"], &["sleep", "10"]);
    for process in &mut busy {
        process.kill()?;
        process.wait()?;
    }
    let ledger = recorded?;
    let share = number(&ledger["cost"]["recording_cpu_ns"])? / number(&ledger["recorded_ns"])?;
    let what = "recorder's share of a CPU at 99 Hz with two busy CPUs".to_owned();
    report.findings.push(finding(what, share, Bound::AtMost(0.003)));
    Ok(ledger)
}

/// A command that starts some hundred processes a second: losses and whole chains.
fn forks(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let many = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); /bin/ls / >/dev/null; done";
    let ledger = record(scratch, &["-g", "-F", "999"], &["sh", "-c", many])?;
    let unwound = &ledger["unwound"];
    let whole = number(&unwound["whole"])?;
    let sum = |name: &str| -> f64 {
        let parts = unwound[name].as_array().into_iter().flatten();
        parts.filter_map(|part| part["stacks"].as_f64()).sum()
    };
    let all = whole + sum("truncated") + sum("failed") + number(&unwound["behind"])?;
    ensure!(all > 0.0, "no stack was unwound");
    let lost = number(&ledger["events"][0]["lost"])?;
    report.findings.extend([
        finding("many processes: lost samples".to_owned(), lost, Bound::AtMost(0.0)),
        finding("many processes: whole chains".to_owned(), whole / all, Bound::AtLeast(0.97)),
    ]);
    Ok(ledger)
}
