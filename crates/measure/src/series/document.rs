//! A series for programs: the JSON document of `--json` and `--export-json`.
//!
//! `results` has hyperfine's fields, so its scripts and other readers of its exports read it;
//! `tare` has what hyperfine lacks.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::report::{Comparison, SeriesReport, Spread, TimeShape};
use super::schedule::SeriesStop;
use crate::compare::document::MetricRow;
use crate::compare::{Judgement, Metric};

/// Version of the part `tare`: raised when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// Writes the document. `host` identifies the machine.
///
/// # Errors
/// Returns errors of `out`.
pub fn json(out: &mut dyn Write, report: &SeriesReport, host: &str) -> io::Result<()> {
    let failures = report.failures().map(|failure| {
        json!({
            "command": report.commands[failure.command].name,
            "run": failure.run,
            "status": failure.status,
            "signal": failure.signal,
        })
    });
    let fail_if = report.conditions.iter().flat_map(|condition| {
        report.comparisons.iter().chain(&report.baseline).map(move |comparison| {
            json!({
                "condition": condition.to_string(),
                "command": report.commands[comparison.command].name,
                "judgement": judgement(report.judgement(condition, comparison)),
            })
        })
    });
    let (stop, failure) = match &report.notes.stop {
        SeriesStop::Settled => ("settled", None),
        SeriesStop::MaxRuns => ("max-runs", None),
        SeriesStop::MaxTime => ("max-time", None),
        SeriesStop::Failed(why) => ("failed", Some(why)),
    };
    let commands = 0..report.commands.len();
    let document = json!({
        "failed_runs": failures.collect::<Vec<_>>(),
        "results": commands.filter_map(|command| result(report, command)).collect::<Vec<_>>(),
        "tare": {
            "version": VERSION,
            "tool": "tare bench",
            "host": host,
            "seed": report.plan.seed,
            "warmup": report.plan.warmup,
            "min_effect": report.min_effect,
            "familywise_level": crate::compare::LEVEL,
            "seconds": report.notes.spent.as_secs_f64(),
            "stop": stop,
            "failure": failure,
            "sequential": report.notes.is_sequential,
            "reference": report.commands.first().map(|command| &command.name),
            "comparisons": report.comparisons.iter().map(|one| compared(report, one)).collect::<Vec<_>>(),
            "baseline": report.baseline.iter().map(|one| compared(report, one)).collect::<Vec<_>>(),
            "fail_if": fail_if.collect::<Vec<_>>(),
            "machine": report.notes.machine,
            "shell": report.notes.shell.map(|shell| json!({
                "elapsed": shell.elapsed,
                "user": shell.user,
                "system": shell.system,
            })),
        },
    });
    tare_format::json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

/// The word of a judgement.
#[must_use]
pub fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Fails => "fails",
        Judgement::Passes => "passes",
        Judgement::Unknown => "unknown",
    }
}

fn compared(report: &SeriesReport, comparison: &Comparison) -> Value {
    json!({
        "command": report.commands[comparison.command].name,
        "identical": comparison.is_identical,
        "metrics": comparison.judged.iter().map(MetricRow::new).collect::<Vec<_>>(),
    })
}

/// hyperfine's fields of a command, and tare's; `None` if it has no runs.
fn result(report: &SeriesReport, command: usize) -> Option<Value> {
    let runs = &report.runs[command];
    let info = &report.commands[command];
    let Spread { summary, median, min, max } = report.spread(command, &Metric::Time)?;
    let mean = |index: usize| {
        let spread = report.spread(command, &report.metrics[index]);
        spread.map_or(0.0, |spread| spread.summary.mean)
    };
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("command", json!(info.name));
    put("mean", json!(summary.mean));
    put("stddev", json!(summary.deviation));
    put("median", json!(median));
    put("user", json!(mean(2)));
    put("system", json!(mean(3)));
    put("min", json!(min));
    put("max", json!(max));
    put("times", json!(runs.values(&Metric::Time)));
    let memory = runs.values(&Metric::PeakMemory);
    if memory.len() == runs.len() {
        put("memory_usage_byte", json!(memory));
    }
    // `null` for a run that a signal killed.
    put("exit_codes", json!(runs.endings().map(|ending| ending.0).collect::<Vec<_>>()));
    if !info.parameters.is_empty() {
        let parameters = info.parameters.iter();
        let parameters: Map<_, _> =
            parameters.map(|(name, value)| (name.clone(), json!(value))).collect();
        put("parameters", Value::Object(parameters));
    }
    put("tare", own_fields(report, command));
    Some(Value::Object(fields))
}

/// Every metric of every run, the whole times with the shell's, and what stands out.
fn own_fields(report: &SeriesReport, command: usize) -> Value {
    let runs = &report.runs[command];
    let info = &report.commands[command];
    let metrics: Map<String, Value> = report
        .metrics
        .iter()
        .filter_map(|metric| {
            let spread = report.spread(command, metric)?;
            let interval = spread.summary.interval;
            let value = json!({
                "unit": metric.unit(),
                "mean": spread.summary.mean,
                "low": interval.map(|interval| interval.low),
                "high": interval.map(|interval| interval.high),
                "median": spread.median,
                "values": runs.values(metric),
            });
            Some((metric.name().to_owned(), value))
        })
        .collect();
    let shape = TimeShape::from_times(&runs.values(&Metric::Time));
    json!({
        "line": info.line,
        "in_shell": info.in_shell,
        "whole_times": runs.whole_times(),
        "begins": runs.begins(),
        "rounds": runs.rounds(),
        "metrics": metrics,
        "outliers": shape.outliers,
        "first_run_slow": shape.is_first_slow,
        "modes": shape.modes,
    })
}
