//! A comparison for programs: a versioned JSON document with every pair, and CSV.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::pairs::Stop;
use super::report::{ComparisonReport, MissingEvent};
use super::{Judgement, Measurement, Metric, MetricVerdict, Scale, Side};

/// Version of the document: raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

/// One metric, judged. Absent figures are `null` in JSON and empty in CSV.
#[derive(Debug, Serialize)]
pub(crate) struct MetricRow<'a> {
    metric: &'a str,
    unit: &'a str,
    pairs: usize,
    median_a: f64,
    median_b: f64,
    /// `ratio`: B / A; `difference`: B - A.
    scale: &'static str,
    estimate: f64,
    low: Option<f64>,
    high: Option<f64>,
    p: f64,
    p_holm: f64,
    detectable: Option<f64>,
    verdict: &'static str,
}

impl<'a> MetricRow<'a> {
    pub(crate) fn new(judged: &'a MetricVerdict) -> Self {
        let effect = &judged.effect;
        Self {
            metric: judged.metric.name(),
            unit: judged.metric.unit(),
            pairs: judged.pairs,
            median_a: judged.median_a,
            median_b: judged.median_b,
            scale: if effect.scale == Scale::Ratio { "ratio" } else { "difference" },
            estimate: effect.estimate,
            low: effect.interval.map(|interval| interval.low),
            high: effect.interval.map(|interval| interval.high),
            p: judged.p,
            p_holm: judged.p_holm,
            detectable: effect.detectable,
            verdict: judged.verdict.words(&judged.metric),
        }
    }
}

/// Writes the JSON document.
///
/// # Errors
/// Returns errors of `out`.
pub fn json(out: &mut dyn Write, comparison: &ComparisonReport<'_>) -> io::Result<()> {
    let request = comparison.request;
    let missing = |one: &MissingEvent| json!({ "event": one.event, "reason": one.reason });
    let fail_if = request.conditions.iter().map(|condition| {
        let judgement = match condition.judge(&comparison.judged) {
            Judgement::Fails => "fails",
            Judgement::Passes => "passes",
            Judgement::Unknown => "unknown",
        };
        json!({ "condition": condition.to_string(), "judgement": judgement })
    });
    let (stop, failure) = match &comparison.stop {
        Stop::Precise => ("precise", None),
        Stop::Decided => ("decided", None),
        Stop::MaxPairs => ("max-runs", None),
        Stop::MaxTime => ("max-time", None),
        Stop::Failed(why) => ("failed", Some(why)),
    };
    let document = json!({
        "version": VERSION,
        "tool": "tare stat --vs",
        "a": comparison.words(Side::A),
        "b": comparison.words(Side::B),
        "seed": request.plan.seed,
        "warmup": request.plan.warmup,
        "min_effect": request.min_effect,
        "stop": stop,
        "failure": failure,
        "seconds": comparison.spent.as_secs_f64(),
        "metrics": comparison.judged.iter().map(MetricRow::new).collect::<Vec<_>>(),
        "fail_if": fail_if.collect::<Vec<_>>(),
        "missing": comparison.notes.missing.iter().map(missing).collect::<Vec<_>>(),
        "least_running_share": comparison.notes.least_share.unwrap_or(1.0),
        "failed_runs": failed_runs(comparison),
        "pairs": comparison.pairs.iter().map(|pair| json!({
            "first": format!("{:?}", pair.first),
            "a": run(request.metrics, &pair.a),
            "b": run(request.metrics, &pair.b),
        })).collect::<Vec<_>>(),
    });
    tare_format::json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

/// Lists the runs that failed, with the number of their pair from 1.
fn failed_runs(comparison: &ComparisonReport<'_>) -> Vec<Value> {
    let describe = |(number, side, run): (usize, Side, &Measurement)| {
        json!({
            "pair": number,
            "side": format!("{side:?}"),
            "status": run.status,
            "signal": run.signal,
        })
    };
    comparison.failed_runs().map(describe).collect()
}

/// Every metric of one run, in its unit.
fn run(metrics: &[Metric], run: &Measurement) -> Value {
    Value::Object(
        metrics
            .iter()
            .map(|metric| (metric.name().to_owned(), json!(metric.value_in(run))))
            .collect::<Map<_, _>>(),
    )
}

/// Writes a line of column names, then one line per metric. Absent figures are empty.
///
/// # Errors
/// Returns errors of `out`.
pub fn csv(
    out: &mut dyn Write,
    comparison: &ComparisonReport<'_>,
    separator: &str,
) -> io::Result<()> {
    let names = [
        "metric",
        "unit",
        "pairs",
        "median_a",
        "median_b",
        "scale",
        "estimate",
        "low",
        "high",
        "p",
        "p_holm",
        "detectable",
        "verdict",
    ];
    writeln!(out, "{}", names.join(separator))?;
    for row in comparison.judged.iter().map(MetricRow::new) {
        let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
        let metric = tare_format::printable(row.metric).replace(separator, " ");
        let fields = [
            metric,
            row.unit.to_owned(),
            row.pairs.to_string(),
            number(Some(row.median_a)),
            number(Some(row.median_b)),
            row.scale.to_owned(),
            number(Some(row.estimate)),
            number(row.low),
            number(row.high),
            number(Some(row.p)),
            number(Some(row.p_holm)),
            number(row.detectable),
            row.verdict.to_owned(),
        ];
        writeln!(out, "{}", fields.join(separator))?;
    }
    Ok(())
}
