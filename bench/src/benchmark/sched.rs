//! `tare sched` beside `perf sched timehist` on one recording, and `tare lock` against what programs
//! waited by their own clocks.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, rounds};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// So many round trips of a pipe are recorded.
const LOOPS: &str = "100000";

/// A line of a list of switches: its place and time as text, and microseconds of wait, delay and run.
struct Line<'a> {
    place: &'a str,
    task: &'a str,
    us: [u64; 3],
}

fn lines(text: &str) -> Vec<Line<'_>> {
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
            Some(Line { place: &text[..end], task: &text[end..], us })
        })
        .collect()
}

/// How many switches both list, and how many of them differ by more than a microsecond.
#[derive(Default)]
struct SwitchComparison {
    switches: u64,
    /// perf has no number for the task, as it has ended.
    unnamed: u64,
    /// A switch is missing before it.
    unknown: u64,
    /// Before 6.13 perf has no delay of a task that was preempted: it is the whole wait.
    preempted: u64,
    differ: u64,
}

fn compare(ours: &[Line<'_>], perf: &[Line<'_>]) -> anyhow::Result<SwitchComparison> {
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

/// Lists of the switches of one recording, side by side, and what they took.
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

/// What `tare lock` says of a program that knows how long it waited: tare over the program's clock.
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

/// Waits for a futex and for a lock of the kernel, against the waiting thread's own clock.
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
