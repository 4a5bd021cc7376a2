//! The binary before a change against the binary after it: the cost of counting, recording and
//! reading.

use anyhow::Context;
use serde_json::json;

use super::trial::{self, Trial, TrialResult, TrialRound, raw, table};
use crate::benchmark::report_speed;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// Bound of each ratio of after over before, for its whole interval.
const NO_SLOWER: Bound = Bound::AtMost(1.03);

const PAIRS: usize = 20;

/// Programs in the recording that is read.
const PROGRAMS: u32 = 100;

/// The names of the cases.
const CASES: [&str; 4] = ["short", "flood", "steady", "read"];

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    for case in &setting.cases {
        anyhow::ensure!(CASES.contains(&case.as_str()), "no case '{case}': {}", CASES.join(", "));
    }
    let wants =
        |case: &str| setting.cases.is_empty() || setting.cases.iter().any(|name| name == case);
    let scratch = Scratch::new(setting)?;
    let count = setting.rounds.unwrap_or(PAIRS);
    let mut all = Report { table: Vec::new(), findings: Vec::new(), raw: json!({}) };
    if wants(CASES[0]) {
        add(&mut all, CASES[0], short(&scratch, 10 * count)?);
    }
    if wants(CASES[1]) {
        add(&mut all, CASES[1], flood(&scratch, count)?);
    }
    if wants(CASES[2]) {
        // The cost of start and exit varies more between runs than the cost of recording, so this
        // case has twice the rounds.
        add(&mut all, CASES[2], steady(&scratch, 2 * count)?);
    }
    if wants(CASES[3]) {
        add(&mut all, CASES[3], read(&scratch, count)?);
    }
    Ok(all)
}

fn add(all: &mut Report, name: &str, one: Report) {
    all.table.extend(one.table);
    all.findings.extend(one.findings);
    all.raw[name] = one.raw;
}

/// Compares `stat true` and `record true`.
fn short(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<Report> {
    let commands = short_commands(scratch, &before(scratch)?);
    let rounds = rounds(&commands, count)?;
    let findings = vec![
        finding("CPU of `stat true`, after/before", cpu_ratio(&rounds, 0)),
        finding("CPU of `record true`, after/before", cpu_ratio(&rounds, 2)),
    ];
    Ok(Report::of_rounds(&commands, &rounds, findings))
}

/// The path of the binary before the change.
fn before(scratch: &Scratch<'_>) -> anyhow::Result<String> {
    let before = scratch.setting.before.as_ref().context("name the binary before: against FILE")?;
    Ok(before.display().to_string())
}

/// CPU time of the variant at `before + 1` over that of the variant at `before`.
fn cpu_ratio(rounds: &[Round], before: usize) -> Estimate {
    Estimate::of_ratios(
        rounds
            .iter()
            .map(|round| round.usage[before + 1].cpu_ns as f64 / round.usage[before].cpu_ns as f64),
    )
}

fn flood(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<Report> {
    let command = [scratch.setting.workload("flood")];
    let trials = pair("flood", "-a -e raw_syscalls:*", &command);
    let rounds = scratch.rounds(&trials, count)?;
    let what = "flood: recorder CPU per GB, after/before";
    let findings = vec![finding(what, ratios(&rounds, TrialResult::cpu_per_gb))];
    Ok(Report { table: table(&trials, &rounds), findings, raw: raw(&trials, &rounds) })
}

fn steady(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<Report> {
    let spin = two_busy(&scratch.setting.workload("spin"));
    let command = ["sh", "-c", &spin].map(str::to_owned);
    let trials = pair("steady, 4000 Hz -g", "-F 4000 -g", &command);
    let rounds = scratch.rounds(&trials, count)?;
    let what = "steady: recorder CPU, after/before";
    let findings = vec![finding(what, ratios(&rounds, |run| run.cpu_s))];
    let mut table = table(&trials, &rounds);
    table.extend(["before", "after"].iter().enumerate().map(|(at, when)| {
        let between = trial::median(&rounds, at, between);
        format!("of it between start and end, {when}: {:.2} ms", between.value / 1e6)
    }));
    Ok(Report { table, findings, raw: raw(&trials, &rounds) })
}

/// Compares `report` and `script` of one recording with call chains.
fn read(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<Report> {
    let (file, _) = report_speed::recording(scratch, PROGRAMS)?;
    let before = before(scratch)?;
    let after = scratch.setting.tare();
    let command = |tool: &str, name: &str| [tool, name, "-i", &file].map(str::to_owned);
    let commands = vec![
        Variant::new("report, before", command(&before, "report")),
        Variant::new("report, after", command(&after, "report")),
        Variant::new("script, before", command(&before, "script")),
        Variant::new("script, after", command(&after, "script")),
    ];
    let rounds = rounds(&commands, count)?;
    let findings = vec![
        finding("CPU of `report`, after/before", cpu_ratio(&rounds, 0)),
        finding("CPU of `script`, after/before", cpu_ratio(&rounds, 2)),
    ];
    Ok(Report::of_rounds(&commands, &rounds, findings))
}

/// The recorder's CPU time without start-up and shutdown, from its ledger, in ns; NaN without a
/// ledger.
fn between(run: &TrialResult) -> f64 {
    let cost = run.ledger.as_ref().map(|ledger| &ledger["cost"]["recording_cpu_ns"]);
    cost.and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN)
}

fn pair(name: &str, options: &str, command: &[String]) -> [Trial; 2] {
    [(Tool::Before, "before"), (Tool::Tare, "after")]
        .map(|(tool, when)| super::trial(&format!("{name}, {when}"), tool, options, command))
}

fn finding(what: &str, measured: Estimate) -> Finding {
    Finding { what: what.to_owned(), measured, bound: NO_SLOWER }
}

/// The variants of `stat true` and of `record true`: before and after.
fn short_commands(scratch: &Scratch<'_>, before: &str) -> Vec<Variant> {
    let after = scratch.setting.tare();
    let stat = |tare: &str| [tare, "stat", "-o", "/dev/null", "true"].map(str::to_owned);
    let record = |tool, file| {
        [scratch.recorder(tool, &scratch.path(file)), vec!["true".to_owned()]].concat()
    };
    vec![
        Variant::new("stat true, before", stat(before)),
        Variant::new("stat true, after", stat(&after)),
        Variant::new("record true, before", record(Tool::Before, "before.data")),
        Variant::new("record true, after", record(Tool::Tare, "after.data")),
    ]
}

/// The second trial over the first, round by round.
fn ratios(rounds: &[TrialRound], of: fn(&TrialResult) -> f64) -> Estimate {
    Estimate::of_ratios(rounds.iter().map(|round| of(&round.runs[1]) / of(&round.runs[0])))
}

/// A line of shell that keeps two CPUs busy for some seconds.
fn two_busy(spin: &str) -> String {
    format!("'{spin}' 4000000000 & '{spin}' 4000000000 & wait")
}
