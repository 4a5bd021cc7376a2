//! `--json`: one document of tare's own, with its version, every run and every reason.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::line::{Line, Value};
use super::plain_json::plain_json;
use super::results::Results;
use crate::count::Key;
use crate::statistics::Summary;

/// Raised when a field changes its meaning or goes; new fields don't raise it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document {
    version: u32,
    tool: &'static str,
    command: Vec<String>,
    target: String,
    /// How what the command starts is counted, where that isn't by inheritance.
    #[serde(skip_serializing_if = "Option::is_none")]
    follow: Option<Follow>,
    exact: bool,
    runs: usize,
    events: Vec<Event>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Interval>,
    times: Times,
}

#[derive(Serialize)]
struct Follow {
    mode: &'static str,
    /// Whether the command's execve is in the counts.
    counts_exec: bool,
}

#[derive(Serialize)]
struct Times {
    elapsed_seconds: Vec<f64>,
    user_seconds: Vec<f64>,
    system_seconds: Vec<f64>,
    peak_memory_bytes: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Event {
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    unit: String,
    /// The count of one run, or the mean of several; `null` without a count.
    value: Option<f64>,
    /// Why there is no count.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    runs: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_deviation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_95: Option<[f64; 2]>,
    running_ns: u64,
    running_share: f64,
    /// Whether the value is an estimate from a part of the time.
    scaled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<Metric>,
}

#[derive(Debug, Serialize)]
struct Metric {
    value: f64,
    unit: String,
}

#[derive(Debug, Serialize)]
struct Interval {
    at_seconds: f64,
    events: Vec<Event>,
}

/// The intervals so far.
#[derive(Debug, Default)]
pub struct Intervals(Vec<Interval>);

impl Intervals {
    /// Adds the lines of an interval that ended `at` after the start.
    pub fn add(&mut self, at: Duration, lines: &[Line]) {
        self.0.push(Interval {
            at_seconds: at.as_secs_f64(),
            events: lines.iter().map(event).collect(),
        });
    }
}

/// Writes the document.
///
/// # Errors
/// The writer's own.
pub fn write(out: &mut dyn Write, results: &Results, intervals: Intervals) -> io::Result<()> {
    let description = results.description();
    let times = results.times();
    let document = Document {
        version: VERSION,
        tool: "tare stat",
        command: description.command.clone(),
        target: description.target.clone(),
        follow: description.in_cgroup.then_some(Follow { mode: "cgroup", counts_exec: true }),
        exact: description.exact,
        runs: results.runs(),
        events: results.lines().iter().map(event).collect(),
        intervals: intervals.0,
        times: Times {
            elapsed_seconds: times.elapsed,
            user_seconds: times.user,
            system_seconds: times.system,
            peak_memory_bytes: times.peak_memory,
        },
    };
    writeln!(out, "{}", plain_json(&serde_json::to_string_pretty(&document)?))
}

fn event(line: &Line) -> Event {
    let (value, reason) = match line.value {
        Value::Counted(value) => (Some(value), None),
        Value::NotCounted(None) => (None, Some("it was never on a counter".to_owned())),
        Value::NotCounted(Some(reason)) | Value::NotSupported(reason) => {
            (None, Some(reason.to_string()))
        }
    };
    let spread = line.spread.as_ref();
    Event {
        event: line.event.clone(),
        key: match line.key {
            Key::All => None,
            Key::Cpu(cpu) => Some(format!("CPU{cpu}")),
            Key::Thread(_) => line.thread.clone(),
            Key::Topology(place) => Some(place.to_string()),
        },
        cgroup: line.cgroup.clone(),
        unit: line.unit.clone(),
        value,
        reason,
        runs: line.runs.clone(),
        standard_deviation: spread.and_then(|spread| spread.deviation),
        interval_95: spread
            .and_then(|spread: &Summary| spread.interval)
            .map(|interval| [interval.low, interval.high]),
        running_ns: line.running_ns,
        running_share: line.running_share,
        scaled: line.is_scaled(),
        metric: line
            .metric
            .as_ref()
            .map(|metric| Metric { value: metric.value, unit: metric.unit.clone() }),
    }
}
