//! Series of `tare bench` with known answers, which later runs continue: equal commands, and
//! commands of which one works 3% or 1% longer. hyperfine compares equal commands too, by Welch's
//! t-test.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::run as run_command;
use crate::setting::Setting;

/// Passes of the workload's loop in a millisecond, about.
const PASSES_A_MS: u64 = 2_500_000;

/// A kind of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    /// Number of commands; all but the last are equal.
    commands: usize,
    /// What the last works more, in thousandths.
    more: u64,
    /// `--max-time`.
    seconds: &'static str,
    /// `--min-effect`.
    effect: &'static str,
    /// One in this many series is of this kind.
    one_in: u64,
}

const KINDS: [Kind; 3] = [
    Kind { name: "equal", commands: 5, more: 0, seconds: "20", effect: "1%", one_in: 1 },
    Kind { name: "3%", commands: 2, more: 30, seconds: "60", effect: "1%", one_in: 7 },
    Kind { name: "1%", commands: 2, more: 10, seconds: "180", effect: "0.5%", one_in: 15 },
];

/// Appends as many series as `--rounds` says (10 by default) to those of earlier runs, and reports
/// all of them. Series with an odd number run beside a busy loop on each CPU.
pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let path = setting.tare.with_file_name("bench-ab.jsonl");
    let mut all = read(&path)?;
    let first = all.iter().filter_map(|one| one["seed"].as_u64()).max().map_or(0, |seed| seed + 1);
    for seed in first..first + setting.rounds.unwrap_or(10) as u64 {
        for kind in KINDS.iter().filter(|kind| seed % kind.one_in == kind.one_in - 1) {
            let made = series(setting, *kind, seed)?;
            let mut file = File::options().append(true).create(true).open(&path)?;
            writeln!(file, "{made}")?;
            all.push(made);
        }
    }
    Ok(report(&all))
}

/// Series that earlier runs appended.
fn read(path: &PathBuf) -> anyhow::Result<Vec<Value>> {
    let Ok(file) = File::open(path) else { return Ok(Vec::new()) };
    let line = |line: std::io::Result<String>| {
        serde_json::from_str(&line?).with_context(|| path.display().to_string())
    };
    BufReader::new(file).lines().map(line).collect()
}

/// Busy loops, which end when this is dropped.
struct BusyLoops(Vec<Child>);

impl BusyLoops {
    fn start(spin: &str) -> anyhow::Result<Self> {
        let cpus = std::thread::available_parallelism()?.get();
        let start = |_| {
            Command::new(spin).arg("100000000000000").stdout(Stdio::null()).spawn().context("spin")
        };
        Ok(Self((0..cpus).map(start).collect::<anyhow::Result<_>>()?))
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Makes a series; returns its kind, seed, verdicts and time, and hyperfine's answer for two equal
/// commands.
fn series(setting: &Setting, kind: Kind, seed: u64) -> anyhow::Result<Value> {
    let spin = setting.workload("spin");
    let is_busy = seed % 2 == 1;
    let _busy = is_busy.then(|| BusyLoops::start(&spin)).transpose()?;
    // 5 to 100 ms.
    let milliseconds = fastrand::Rng::with_seed(seed).u64(5..=100);
    let passes = milliseconds * PASSES_A_MS;
    let mut commands = vec![format!("{spin} {passes}"); kind.commands];
    if let Some(last) = commands.last_mut() {
        *last = format!("{spin} {}", passes + passes / 1000 * kind.more);
    }
    let scratch = tempfile::NamedTempFile::new()?;
    let file = scratch.path().display().to_string();
    let seed_text = seed.to_string();
    let options = [
        "bench",
        "-N",
        "--style",
        "none",
        "--seed",
        &seed_text,
        "--max-time",
        kind.seconds,
        "--min-effect",
        kind.effect,
        "--export-json",
        &file,
    ];
    let tare = setting.tare();
    let words = [tare.as_str()].into_iter().chain(options).map(str::to_owned);
    run_command(&words.chain(commands.clone()).collect::<Vec<_>>())?;
    let document: Value = serde_json::from_slice(&std::fs::read(scratch.path())?)?;
    let verdicts: Vec<&str> = document["tare"]["comparisons"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|comparison| comparison["metrics"].as_array())
        .flatten()
        .filter_map(|metric| metric["verdict"].as_str())
        .collect();
    let is_called = |verdict: &&&str| matches!(**verdict, "slower" | "faster" | "more" | "less");
    let runs = document["results"][0]["times"].as_array().map_or(0, Vec::len);
    let by_hyperfine = match kind.more {
        0 => hyperfine_differs(&commands[..2], runs, &file)?,
        _ => None,
    };
    Ok(json!({
        "kind": kind.name,
        "seed": seed,
        "busy": is_busy,
        "milliseconds": milliseconds,
        "differences": verdicts.iter().filter(is_called).count(),
        "slower": verdicts.first() == Some(&"slower"),
        "runs": runs,
        "seconds": document["tare"]["seconds"],
        "hyperfine_differs": by_hyperfine,
    }))
}

/// Whether Welch's t-test at 5% on hyperfine's runs tells two commands apart; `None` without
/// hyperfine.
fn hyperfine_differs(commands: &[String], runs: usize, file: &str) -> anyhow::Result<Option<bool>> {
    let runs = runs.max(10).to_string();
    let options = ["-N", "--style", "none", "-r", &runs, "--export-json", file];
    let ran = Command::new("hyperfine").args(options).args(commands).stdout(Stdio::null()).status();
    if !ran.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let document: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let figures = |result: usize| {
        let times = document["results"][result]["times"].as_array();
        let times: Vec<f64> = times.into_iter().flatten().filter_map(Value::as_f64).collect();
        let n = times.len() as f64;
        let mean = times.iter().sum::<f64>() / n;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n)
    };
    let a = figures(0);
    let b = figures(1);
    // With hundreds of runs, t is normal.
    Ok(Some((a.0 - b.0).abs() / (a.1 + b.1).sqrt() > 1.96))
}

fn report(all: &[Value]) -> Report {
    let of = |name: &str| all.iter().filter(|one| one["kind"] == name).collect::<Vec<_>>();
    let share = |hits: usize, all: usize| 100.0 * hits as f64 / all.max(1) as f64;
    let equal = of("equal");
    let alarms = equal.iter().filter(|one| one["differences"].as_u64() > Some(0)).count();
    let tested = equal.iter().filter_map(|one| one["hyperfine_differs"].as_bool());
    let tested: Vec<bool> = tested.collect();
    let told_apart = tested.iter().filter(|differs| **differs).count();
    let mut table = vec![
        format!("equal: {alarms} of {} series report a difference", equal.len()),
        format!("equal, hyperfine and Welch's t-test: {told_apart} of {}", tested.len()),
    ];
    let finding = |what: &str, measured: f64, most: f64| Finding {
        what: what.to_owned(),
        measured: Estimate::exact(measured),
        bound: Bound::AtMost(most),
    };
    let mut findings = vec![finding(
        "series of equal commands that report a difference, in percent",
        share(alarms, equal.len()),
        2.34,
    )];
    for (name, most) in [("3%", 5.0), ("1%", 20.0)] {
        let planted = of(name);
        let missed = planted.iter().filter(|one| one["slower"] != true).count();
        table.push(format!("{name} more work: {missed} of {} series miss it", planted.len()));
        findings.push(finding(
            &format!("series that miss {name} more work, in percent"),
            share(missed, planted.len()),
            most,
        ));
    }
    Report { table, findings, raw: json!(all) }
}
