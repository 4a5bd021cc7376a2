//! Comparisons by `tare stat --vs` with known answers: a command with itself, and with one that
//! works 3% longer.

use anyhow::Context;
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::run as run_command;
use crate::setting::Setting;

/// Passes of the workload's loop: a few milliseconds.
const PASSES: u64 = 15_000_000;

/// Compares a command with itself: at most 5% of the comparisons may have a verdict other than 'no
/// difference seen'.
pub(crate) fn equal(setting: &Setting) -> anyhow::Result<Report> {
    let comparisons = compare(setting, PASSES, setting.rounds.unwrap_or(100))?;
    let wrong = comparisons.iter().filter(|comparison| !all_equal(comparison)).count();
    report(
        "comparisons with anything but 'no difference seen', in percent",
        wrong,
        5.0,
        &comparisons,
    )
}

/// Compares with a loop that makes 3% more passes: nine in ten comparisons must find it in the
/// elapsed time.
pub(crate) fn planted(setting: &Setting) -> anyhow::Result<Report> {
    let comparisons = compare(setting, PASSES / 100 * 103, setting.rounds.unwrap_or(10))?;
    let missed = comparisons
        .iter()
        .filter(|comparison| verdicts(comparison).next() != Some("slower"))
        .count();
    report("comparisons that miss 3% in the time, in percent", missed, 10.0, &comparisons)
}

/// Runs `count` comparisons; returns their documents with the number of pairs in place of the
/// pairs.
fn compare(setting: &Setting, passes_of_b: u64, count: usize) -> anyhow::Result<Vec<Value>> {
    let file = tempfile::NamedTempFile::new()?;
    let output = file.path().display().to_string();
    let spin = setting.workload("spin");
    (1..=count)
        .map(|seed| {
            let seed = seed.to_string();
            let b = format!("'{spin}' {passes_of_b}");
            let a = PASSES.to_string();
            let tare = setting.tare();
            let words = [
                &tare,
                "stat",
                "--json",
                "-o",
                &output,
                "--seed",
                &seed,
                "--max-time",
                "300",
                "--vs",
                &b,
                "--",
                &spin,
                &a,
            ];
            run_command(&words.map(str::to_owned))?;
            let mut document: Value = serde_json::from_slice(&std::fs::read(file.path())?)
                .context("the document of --json")?;
            let pairs = document["pairs"].as_array().map_or(0, Vec::len);
            document["pairs"] = json!(pairs);
            Ok(document)
        })
        .collect()
}

/// The verdicts of a comparison; the first is about elapsed time.
fn verdicts(comparison: &Value) -> impl Iterator<Item = &str> {
    comparison["metrics"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|metric| metric["verdict"].as_str())
}

fn all_equal(comparison: &Value) -> bool {
    verdicts(comparison).next().is_some()
        && verdicts(comparison).all(|verdict| verdict == "no difference seen")
}

fn report(what: &str, bad: usize, at_most: f64, comparisons: &[Value]) -> anyhow::Result<Report> {
    let figure = |name: &str| {
        Estimate::from_figures(
            comparisons.iter().filter_map(|comparison| comparison[name].as_f64()).collect(),
        )
        .value
    };
    let names: Vec<&str> = comparisons
        .iter()
        .filter_map(|comparison| comparison["metrics"].as_array())
        .flatten()
        .filter_map(|m| m["metric"].as_str())
        .collect();
    let mut table = vec![format!(
        "{} comparisons; trimmed means: {:.0} pairs, {:.1} s",
        comparisons.len(),
        figure("pairs"),
        figure("seconds")
    )];
    let mut seen = std::collections::BTreeSet::new();
    for name in names.into_iter().filter(|name| seen.insert(*name)) {
        let of = |comparison: &Value| {
            comparison["metrics"].as_array()?.iter().find(|m| m["metric"] == name)?["verdict"]
                .as_str()
                .map(str::to_owned)
        };
        let mut times = std::collections::BTreeMap::new();
        comparisons
            .iter()
            .filter_map(of)
            .for_each(|verdict| *times.entry(verdict).or_insert(0) += 1);
        let times: Vec<String> =
            times.iter().map(|(verdict, count)| format!("{verdict} {count}")).collect();
        table.push(format!("{name:<20} {}", times.join(", ")));
    }
    let percent = 100.0 * bad as f64 / comparisons.len().max(1) as f64;
    let findings = vec![Finding {
        what: what.into(),
        measured: Estimate::exact(percent),
        bound: Bound::AtMost(at_most),
    }];
    Ok(Report { table, findings, raw: json!(comparisons) })
}
