//! A report of a recording of 1 GB, and whether it agrees with perf's.

use serde_json::json;

use super::synthetic;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::{Usage, succeed};
use crate::scratch::Scratch;
use crate::setting::Setting;

const SAMPLES: u64 = 10_000_000;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let file = scratch.path("large");
    let bytes = synthetic::write(&file, SAMPLES)?;
    let tare = setting.tare();
    let file = file.display().to_string();
    let report = |tool: &str| {
        [tool, "report", "--stdio", "--sort", "comm", "-i", &file].map(str::to_owned).to_vec()
    };
    let variants = vec![
        Variant::new("tare report", report(&tare)),
        Variant::new("perf report", report("perf")),
    ];
    let [ours, theirs] = [rows(&variants[0].words)?, rows(&variants[1].words)?];
    let differ = ours
        .iter()
        .filter(|row| !theirs.contains(row))
        .chain(theirs.iter().filter(|row| !ours.contains(row)))
        .count();
    let rounds = rounds(&variants, setting.rounds.unwrap_or(7))?;
    let ratio = |of: fn(&Usage) -> u64| {
        Estimate::median(
            rounds
                .iter()
                .map(|Round { usage, .. }| of(&usage[0]) as f64 / of(&usage[1]) as f64)
                .collect(),
        )
    };
    let quarter = Bound::AtMost(0.25);
    let findings = vec![
        Finding {
            what: "elapsed, tare/perf".into(),
            measured: ratio(|usage| usage.elapsed_ns),
            bound: quarter,
        },
        Finding {
            what: "peak memory, tare/perf".into(),
            measured: ratio(|usage| usage.peak_bytes),
            bound: quarter,
        },
        Finding {
            what: "rows that only one of them has".into(),
            measured: Estimate::exact(differ as f64),
            bound: Bound::AtMost(0.0),
        },
        Finding {
            what: "rows".into(),
            measured: Estimate::exact(ours.len() as f64),
            bound: Bound::AtLeast(2.0),
        },
    ];
    let mut report = Report::of_rounds(&variants, &rounds, findings);
    report.table.push(format!("{SAMPLES} samples, {bytes} bytes"));
    report.raw =
        json!({ "bytes": bytes, "samples": SAMPLES, "rows": [ours, theirs], "runs": report.raw });
    Ok(report)
}

/// The rows of a report: percentage and name, sorted.
fn rows(words: &[String]) -> anyhow::Result<Vec<String>> {
    let done = succeed(words)?;
    let row = |line: &str| {
        let mut fields = line.split_whitespace();
        let share = fields.next().filter(|share| share.ends_with('%'))?;
        Some(format!("{share} {}", fields.next()?))
    };
    let mut rows: Vec<String> = done.stdout.lines().filter_map(row).collect();
    rows.sort();
    Ok(rows)
}
