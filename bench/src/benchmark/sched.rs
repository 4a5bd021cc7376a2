//! `tare sched` beside `perf sched timehist` and `latency` on one recording, and `tare lock`
//! compared with the waits that a program measures itself.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, rounds};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Round trips through a pipe in the recording.
const LOOPS: &str = "100000";

/// A line of a list of switches: time and CPU as text, the rest of the line as text, and wait,
/// delay and run in microseconds.
struct SwitchLine<'a> {
    place: &'a str,
    task: &'a str,
    us: [u64; 3],
}

fn lines(text: &str) -> Vec<SwitchLine<'_>> {
    let line = |line: &'_ str| {
        let (place, rest) = line.trim().split_once("]  ")?;
        let mut words = rest.split_whitespace().rev();
        let mut us = || words.next()?.replace('.', "").parse::<u64>().ok();
        let run = us()?;
        let delay = us()?;
        let wait = us()?;
        Some((place.len(), [wait, delay, run]))
    };
    let found = |text: &'_ str| line(text);
    text.lines()
        .filter_map(|text| {
            let (end, us) = found(text)?;
            let text = text.trim();
            Some(SwitchLine { place: &text[..end], task: &text[end..], us })
        })
        .collect()
}

/// Switches that both tools list, and those that differ by more than a microsecond, by reason.
#[derive(Default)]
struct SwitchComparison {
    switches: u64,
    /// perf shows the task with pid -1.
    unnamed: u64,
    /// tare shows only zeros, because an earlier switch is missing.
    unknown: u64,
    /// perf before 6.13 reports no delay for a preempted task; its delay is the whole wait.
    preempted: u64,
    differ: u64,
}

fn compare(ours: &[SwitchLine<'_>], perf: &[SwitchLine<'_>]) -> anyhow::Result<SwitchComparison> {
    ensure!(ours.len() == perf.len(), "{} switches here, {} by perf", ours.len(), perf.len());
    let mut all = SwitchComparison::default();
    for (ours, perf) in ours.iter().zip(perf) {
        ensure!(ours.place == perf.place, "'{}' here, '{}' by perf", ours.place, perf.place);
        let is_near = |at: usize| ours.us[at].abs_diff(perf.us[at]) <= 1;
        all.switches += 1;
        if is_near(0) && is_near(1) && is_near(2) {
            continue;
        }
        if perf.task.contains("[-1") {
            all.unnamed += 1;
        } else if ours.us == [0; 3] {
            all.unknown += 1;
        } else if is_near(0)
            && is_near(2)
            && perf.us[1] == 0
            && ours.us[1].abs_diff(perf.us[0]) <= 1
        {
            all.preempted += 1;
        } else {
            all.differ += 1;
        }
    }
    Ok(all)
}

/// Compares both tools' lists of one recording's switches, and their cost.
pub(crate) fn timehist(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let file = scratch.path("sched.data").display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let record = ["perf", "sched", "record", "-o", &file, "--", "perf", "bench", "sched", "pipe"];
    succeed(&words(&[&record[..], &["-l", LOOPS]].concat()))?;
    let tare = setting.tare();
    let variants = vec![
        Variant::new("tare sched --timehist", words(&[&tare, "sched", "-i", &file, "--timehist"])),
        Variant::new("tare sched", words(&[&tare, "sched", "-i", &file])),
        Variant::new("perf sched timehist", words(&["perf", "sched", "timehist", "-i", &file])),
        Variant::new("perf sched latency", words(&["perf", "sched", "latency", "-i", &file])),
    ];
    let ours = succeed(&variants[0].words)?.stdout;
    let perf = succeed(&variants[2].words)?.stdout;
    let compared = compare(&lines(&ours), &lines(&perf))?;
    let all = rounds(&variants, setting.rounds.unwrap_or(10))?;
    let ratio = |of: usize, to: usize| {
        Estimate::of_ratios(
            all.iter()
                .map(|round| round.usage[of].elapsed_ns as f64 / round.usage[to].elapsed_ns as f64),
        )
    };
    let finding = |what: &str, measured, bound| Finding { what: what.into(), measured, bound };
    let findings = vec![
        finding("elapsed of --timehist, tare/perf", ratio(0, 2), Bound::AtMost(0.2)),
        finding("elapsed of sums, tare/perf", ratio(1, 3), Bound::AtMost(0.2)),
        finding(
            "switches that differ by more than 1 us",
            Estimate::exact(compared.differ as f64),
            Bound::AtMost(0.0),
        ),
    ];
    let mut report = Report::of_rounds(&variants, &all, findings);
    let SwitchComparison { switches, unnamed, unknown, preempted, differ } = compared;
    report.table.push(format!(
        "{switches} switches: {differ} differ; {preempted} delays of preempted tasks that perf leaves out, {unnamed} of tasks without a number in perf, {unknown} behind a missing switch"
    ));
    report.raw = json!({
        "runs": report.raw, "switches": switches, "differ": differ, "preempted": preempted,
        "unnamed": unnamed, "unknown": unknown,
    });
    Ok(report)
}

/// The ratio of the wait that `tare lock` reports to the wait by the program's own clock.
fn lock_ratio(setting: &Setting, kind: &str, caller: &str) -> anyhow::Result<f64> {
    let workload = setting.workload("contended");
    let scratch = Scratch::new(setting)?;
    let file = scratch.path("locks.json");
    let name = file.display().to_string();
    let words = [&setting.tare(), "lock", "--json", "-o", &name, "--", &workload, kind, "10", "20"];
    let stdout = succeed(&words.map(str::to_owned))?.stdout;
    let waited: f64 = stdout.trim().parse().with_context(|| format!("contended: '{stdout}'"))?;
    let document: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let rows = document["locks"].as_array().context("no locks")?;
    let is_callers =
        |row: &&Value| row["caller"].as_str().is_some_and(|name| name.contains(caller));
    let row = rows.iter().find(is_callers).with_context(|| format!("no {caller}: {document}"))?;
    Ok(row["total_ns"].as_f64().context("no total")? / waited)
}

/// Compares waits for a futex and for a kernel lock with the waiting thread's own clock.
pub(crate) fn lock(setting: &Setting) -> anyhow::Result<Report> {
    let count = setting.rounds.unwrap_or(10);
    let mut findings = Vec::new();
    let mut raw = Vec::new();
    for (kind, caller) in [("futex", "take_mutex"), ("kernel", "fdget_pos")] {
        let ratios = (0..count).map(|_| lock_ratio(setting, kind, caller));
        let ratios = ratios.collect::<anyhow::Result<Vec<_>>>()?;
        raw.push(json!({ "kind": kind, "ratios": ratios }));
        let off = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
        findings.push(Finding {
            what: format!("{kind}: share that the waits of {caller} are off by"),
            measured: Estimate::median(off),
            bound: Bound::AtMost(0.03),
        });
    }
    Ok(Report { table: Vec::new(), findings, raw: json!(raw) })
}
