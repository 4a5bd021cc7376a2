//! The cost of `tare record --off-cpu` for two processes that only wake each other.

use std::path::Path;

use anyhow::Context;
use serde_json::json;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, in_random_order};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Switches twice per operation, on one CPU.
const COMMAND: [&str; 8] = ["taskset", "-c", "0", "perf", "bench", "sched", "pipe", "-l"];
const OPERATIONS: &str = "100000";

/// One run: elapsed seconds by perf bench's clock, and the size of the recording in bytes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct PipeRun {
    seconds: f64,
    bytes: u64,
}

/// Runs `perf bench sched pipe` bare, under tare with and without call chains, and under perf's
/// record of switches with call chains.
pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let tare = setting.tare();
    let file = scratch.path("recorded.data");
    let path = file.display().to_string();
    let with = |words: &[&str]| {
        let all = words.iter().copied().chain(COMMAND).chain([OPERATIONS]);
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let tare = [tare.as_str(), "record", "--off-cpu", "-o", &path];
    let perf = ["perf", "record", "-a", "-g", "-e", "sched:sched_switch", "-o", &path, "--"];
    let variants = vec![
        Variant::new("bare", with(&[])),
        Variant::new(
            "tare, reasons alone",
            with(&[&tare[..], &["--no-call-graph", "--"]].concat()),
        ),
        Variant::new("tare, call chains", with(&[&tare[..], &["--"]].concat())),
        Variant::new("perf, call chains", with(&perf)),
    ];
    let count = setting.rounds.unwrap_or(10);
    let mut measured: Vec<Vec<PipeRun>> = Vec::new();
    for _ in 0..count {
        let (_, runs) = in_random_order(&variants, |variant| recorded(variant, &file))?;
        measured.push(runs);
    }
    let ratio = |at: usize, to: usize, of: fn(&PipeRun) -> f64| {
        Estimate::of_ratios(measured.iter().map(|runs| of(&runs[at]) / of(&runs[to])))
    };
    let finding = |what: &str, measured, bound| Finding { what: what.into(), measured, bound };
    let seconds = |run: &PipeRun| run.seconds;
    let bytes = |run: &PipeRun| run.bytes as f64;
    let findings = vec![
        finding("time, reasons alone/bare", ratio(1, 0, seconds), Bound::AtMost(1.5)),
        finding("time, call chains: tare/perf", ratio(2, 3, seconds), Bound::AtMost(1.0)),
        finding("bytes, call chains: tare/perf", ratio(2, 3, bytes), Bound::AtMost(0.1)),
    ];
    let table = variants.iter().enumerate().map(|(at, variant)| {
        let median = |of: fn(&PipeRun) -> f64| {
            Estimate::median(measured.iter().map(|runs| of(&runs[at])).collect()).value
        };
        let us = 1e6 * median(seconds) / OPERATIONS.parse().unwrap_or(1.0);
        let bytes = median(bytes);
        format!("{:<24} {us:>8.2} us an operation, {bytes:>12.0} bytes", variant.name)
    });
    Ok(Report {
        table: table.collect(),
        findings,
        raw: json!({ "variants": variants, "runs": measured }),
    })
}

fn recorded(variant: &Variant, file: &Path) -> anyhow::Result<PipeRun> {
    let stdout = succeed(&variant.words)?.stdout;
    let seconds = stdout.lines().find_map(|line| line.trim().strip_prefix("Total time:"));
    let seconds = seconds.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let seconds = seconds.with_context(|| format!("perf bench said '{stdout}'"))?;
    if !file.exists() {
        return Ok(PipeRun { seconds, bytes: 0 });
    }
    let bytes = std::fs::metadata(file)?.len();
    std::fs::remove_file(file)?;
    Ok(PipeRun { seconds, bytes })
}
