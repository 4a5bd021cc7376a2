//! `report` and `script` of many short processes with deep stacks, beside perf's and beside those
//! of ten times as many processes.

use std::path::Path;

use serde_json::json;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, cold_rounds, rounds};
use crate::run::{Usage, run as run_command, succeed};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// Programs in the recording that perf reads too.
const SMALL: u32 = 300;

/// Indices of the variants.
const FLAT: usize = 0;
const REPORT: usize = 1;
const JSON: usize = 2;
const SCRIPT: usize = 3;
const OF_PERF: usize = 4;

/// Compares reports with perf's. perf's report with call chains takes half a minute and gigabytes,
/// so it runs once and serves all rounds.
pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let (file, bytes) = recording(&scratch, SMALL)?;
    let variants = [of_tare(&setting.tare(), &file), of_perf(&file)].concat();
    let beside = rounds(&variants, setting.rounds.unwrap_or(10))?;
    let slow = Variant::new("perf report", command_line("perf", &["report", "--stdio"], &file));
    let peer = run_command(&slow.words)?;
    let findings = against_perf(&beside, &peer, bytes);
    let mut report = Report::of_rounds(&variants, &beside, findings);
    let once = [Round { order: vec![0], usage: vec![peer] }];
    report.table.extend(Report::of_rounds(&[slow], &once, Vec::new()).table);
    report.table.push(format!("a recording of {bytes} bytes"));
    report.raw = json!({ "bytes": bytes, "runs": report.raw, "perf report": peer });
    Ok(report)
}

/// Compares tare's reports of a recording with its reports of one of ten times as many programs.
pub(crate) fn grown(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let [small, large] = [SMALL, 10 * SMALL].map(|programs| recording(&scratch, programs));
    let (small, bytes) = small?;
    let (large, large_bytes) = large?;
    let variants = [of_tare(&setting.tare(), &small), of_tare(&setting.tare(), &large)].concat();
    let all = cold_rounds(&variants, setting.rounds.unwrap_or(5))?;
    let findings = ten_times(&all, large_bytes as f64 / bytes as f64);
    let mut report = Report::of_rounds(&variants, &all, findings);
    report.table.push(format!("recordings of {bytes} and {large_bytes} bytes"));
    report.raw = json!({ "bytes": [bytes, large_bytes], "runs": report.raw });
    Ok(report)
}

/// Records `programs` short programs, two at a time. Returns the file and its size.
pub(super) fn recording(scratch: &Scratch<'_>, programs: u32) -> anyhow::Result<(String, u64)> {
    let file = scratch.path(&format!("{programs}.data"));
    let mut words = scratch.recorder(Tool::Tare, &file);
    let half = format!("'{}' {}", scratch.setting.workload("short-python.sh"), programs / 2);
    words.extend(["-F", "20000", "-g", "--", "sh", "-c"].map(str::to_owned));
    words.push(format!("{half} & {half} & wait"));
    succeed(&words)?;
    let bytes = std::fs::metadata(Path::new(&file))?.len();
    Ok((file.display().to_string(), bytes))
}

const IS_FLAT: [&str; 3] = ["--no-children", "-g", "none"];

fn command_line(tool: &str, options: &[&str], file: &str) -> Vec<String> {
    [&[tool], options, &["-i", file]].concat().into_iter().map(str::to_owned).collect()
}

fn of_tare(tare: &str, file: &str) -> Vec<Variant> {
    let words = |options: &[&str]| command_line(tare, options, file);
    let flat = [&["report"][..], &IS_FLAT].concat();
    vec![
        Variant::new("tare report, flat", words(&flat)),
        Variant::new("tare report", words(&["report"])),
        Variant::new("tare report --json", words(&["report", "--json"])),
        Variant::new("tare script", words(&["script"])),
    ]
}

fn of_perf(file: &str) -> Vec<Variant> {
    let words = |options: &[&str]| command_line("perf", options, file);
    let flat = [&["report", "--stdio"][..], &IS_FLAT].concat();
    vec![
        Variant::new("perf report, flat", words(&flat)),
        Variant::new("perf script", words(&["script"])),
    ]
}

fn finding(what: &str, measured: Estimate, bound: f64) -> Finding {
    Finding { what: what.to_owned(), measured, bound: Bound::AtMost(bound) }
}

fn against_perf(rounds: &[Round], peer: &Usage, bytes: u64) -> Vec<Finding> {
    let median =
        |figure: &dyn Fn(&Round) -> f64| Estimate::median(rounds.iter().map(figure).collect());
    let cpu = |at: usize, to: usize| {
        median(&|round| round.usage[at].cpu_ns as f64 / round.usage[to].cpu_ns as f64)
    };
    let peak = |round: &Round, at: usize| round.usage[at].peak_bytes as f64;
    vec![
        finding("flat report: CPU, tare/perf", cpu(FLAT, OF_PERF), 0.5),
        finding(
            "report: CPU, tare/perf",
            median(&|round| round.usage[REPORT].cpu_ns as f64 / peer.cpu_ns as f64),
            0.1,
        ),
        finding("script: CPU, tare/perf", cpu(SCRIPT, OF_PERF + 1), 0.25),
        finding("CPU, report --json/report", cpu(JSON, REPORT), 1.5),
        finding(
            "report: peak memory/size of the file",
            median(&|round| peak(round, REPORT) / bytes as f64),
            5.0,
        ),
        finding(
            "flat report: peak memory, tare/perf",
            median(&|round| peak(round, FLAT) / peak(round, OF_PERF)),
            1.0,
        ),
    ]
}

/// The cost for ten times the samples, relative to the first recording and scaled by the growth of
/// the file, `grown`.
fn ten_times(rounds: &[Round], grown: f64) -> Vec<Finding> {
    type UsageFigure = fn(&Usage) -> u64;
    let all: [(&str, UsageFigure); 2] =
        [("CPU", |usage| usage.cpu_ns), ("peak memory", |usage| usage.peak_bytes)];
    let names = ["flat report", "report", "report --json", "script"];
    let mut findings = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        for (what, of) in all {
            let ratio = |round: &Round| {
                let [small, large] = [at, at + names.len()].map(|at| of(&round.usage[at]) as f64);
                large / small * 10.0 / grown
            };
            let measured = Estimate::from_figures(rounds.iter().map(ratio).collect());
            findings.push(finding(
                &format!("ten times the samples, {name}: {what}"),
                measured,
                11.0,
            ));
        }
    }
    findings
}
