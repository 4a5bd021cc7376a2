//! The share of a shell loop's CPU time that samples cover, and whether they attribute it to the
//! right programs.

use std::collections::BTreeMap;

use serde_json::json;

use super::recorded::{RecordedCommand, RecorderKind, Time};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;

const RATES: [&str; 3] = ["99", "1000", "4000"];
const LOOPS: &str = "1000";

struct CoverageRun {
    who: RecorderKind,
    rate: &'static str,
    recorded: RecordedCommand,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let command = [setting.workload("commands.sh"), LOOPS.to_owned()];
    let mut runs = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(10) {
        let mut ways: Vec<_> =
            RecorderKind::ALL.into_iter().flat_map(|who| RATES.map(|rate| (who, rate))).collect();
        fastrand::shuffle(&mut ways);
        for (who, rate) in ways {
            let recorded = scratch.follow(who, &["-e", "cpu-clock", "-F", rate], &command)?;
            runs.push(CoverageRun { who, rate, recorded });
        }
    }
    let mut table = Vec::new();
    let mut findings = Vec::new();
    for who in RecorderKind::ALL {
        for rate in RATES {
            let of = runs.iter().filter(|run| run.who == who && run.rate == rate);
            let coverage = Estimate::median(of.map(|run| run.recorded.coverage()).collect());
            table.push(format!("{:<13} {rate:>4} Hz: coverage {coverage}", who.name()));
            if sees_all(who) {
                let finding = |bound| Finding {
                    what: format!("coverage at {rate} Hz, {}", who.name()),
                    measured: coverage,
                    bound,
                };
                findings.extend(
                    [Bound::EstimateAtLeast(0.95), Bound::EstimateAtMost(1.05)].map(finding),
                );
            }
        }
        let (split, line) =
            split(runs.iter().filter(|run| run.who == who).map(|run| &run.recorded));
        table.push(format!("{:<13} {line}", who.name()));
        if sees_all(who) {
            let samples = runs
                .iter()
                .filter(|run| run.who == who)
                .map(|run| run.recorded.samples)
                .sum::<u64>();
            let finding = |what: &str, value, bound| Finding {
                what: format!("{what}, {}", who.name()),
                measured: Estimate::exact(value),
                bound,
            };
            findings.push(finding("samples of the split", samples as f64, Bound::AtLeast(4000.0)));
            findings.push(finding(
                "share of a program, furthest from the exact one, points",
                split,
                Bound::AtMost(3.0),
            ));
        }
    }
    let raw: Vec<_> = runs
        .iter()
        .map(|run| json!({ "who": run.who.name(), "hz": run.rate, "recorded": run.recorded }))
        .collect();
    Ok(Report { table, findings, raw: json!(raw) })
}

fn sees_all(who: RecorderKind) -> bool {
    matches!(who, RecorderKind::Tare("cgroup" | "system"))
}

/// Sums all runs. Returns the largest difference between a name's sampled and exact share, in
/// percentage points, and a line with all shares.
fn split<'a>(runs: impl Iterator<Item = &'a RecordedCommand>) -> (f64, String) {
    let mut names: BTreeMap<&str, Time> = BTreeMap::new();
    for (name, time) in runs.flat_map(|recorded| &recorded.names) {
        let sum = names.entry(name).or_default();
        sum.exact_s += time.exact_s;
        sum.sampled_s += time.sampled_s;
    }
    let exact_s: f64 = names.values().map(|time| time.exact_s).sum();
    let sampled_s: f64 = names.values().map(|time| time.sampled_s).sum();
    let shares: Vec<_> = names
        .iter()
        .map(|(name, time)| {
            (
                *name,
                100.0 * time.sampled_s / sampled_s.max(f64::MIN_POSITIVE),
                100.0 * time.exact_s / exact_s,
            )
        })
        .collect();
    let furthest =
        shares.iter().map(|(_, sampled, exact)| (sampled - exact).abs()).fold(0.0, f64::max);
    let line: Vec<_> = shares
        .iter()
        .map(|(name, sampled, exact)| format!("{name} {sampled:.1}% (exact {exact:.1}%)"))
        .collect();
    (furthest, line.join(", "))
}
