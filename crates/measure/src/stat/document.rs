//! `--json`: a versioned document in tare's own format, with every run and the reasons for missing
//! counts.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::line::{StatLine, Value};
use super::plain_json::plain_json;
use super::results::Results;
use super::runs::RunEnd;
use crate::count::Key;
use crate::statistics::Summary;

/// Version of the document. It rises if a field changes its meaning or is removed, not if one is
/// added.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document {
    version: u32,
    tool: &'static str,
    command: Vec<String>,
    target: String,
    /// Present if the command was counted in a cgroup of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    follow: Option<Follow>,
    exact: bool,
    runs: usize,
    events: Vec<CountedEvent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Interval>,
    times: Times,
    /// How the command of each run ended.
    exits: Vec<Exit>,
    /// The run that a signal to tare cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<Interrupted>,
}

#[derive(Serialize)]
struct Follow {
    mode: &'static str,
    /// Whether the counts include the command's execve.
    counts_exec: bool,
}

#[derive(Serialize)]
struct Exit {
    /// The exit status, or 128 + the signal's number.
    status: u8,
    /// The signal that killed the command.
    signal: Option<i32>,
    /// Whether tare ended the command, for example after `--timeout`.
    ended_by_tare: bool,
}

#[derive(Serialize)]
struct Interrupted {
    /// Its number, from 1.
    run: usize,
    /// Whether its counts are in the document.
    counted: bool,
}

#[derive(Serialize)]
struct Times {
    elapsed_seconds: Vec<f64>,
    user_seconds: Vec<f64>,
    system_seconds: Vec<f64>,
    /// `null` where the kernel refused to leave tare's own memory out.
    peak_memory_bytes: Vec<Option<u64>>,
}

#[derive(Debug, Serialize)]
struct CountedEvent {
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    unit: String,
    /// The count of the only run, or the mean of several; `null` without a count.
    value: Option<f64>,
    /// The reason for a missing count.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    runs: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_deviation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_95: Option<[f64; 2]>,
    running_ns: u64,
    running_share: f64,
    /// Whether the value is scaled up from a part of the time.
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
    events: Vec<CountedEvent>,
}

/// The intervals so far.
#[derive(Debug, Default)]
pub struct Intervals(Vec<Interval>);

impl Intervals {
    /// Adds the lines of an interval that ended `at` after the start.
    pub fn add(&mut self, at: Duration, lines: &[StatLine]) {
        self.0.push(Interval {
            at_seconds: at.as_secs_f64(),
            events: lines.iter().map(CountedEvent::from_line).collect(),
        });
    }
}

/// Writes the document.
///
/// # Errors
/// Fails if writing to `out` fails.
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
        runs: results.runs().number(),
        events: results.lines().iter().map(CountedEvent::from_line).collect(),
        intervals: intervals.0,
        times: Times {
            elapsed_seconds: times.elapsed,
            user_seconds: times.user,
            system_seconds: times.system,
            peak_memory_bytes: times.peak_memory,
        },
        exits: results.runs().ended().iter().map(Exit::from_end).collect(),
        interrupted: results
            .runs()
            .interrupted()
            .map(|run| Interrupted { run: run.number, counted: run.is_counted }),
    };
    writeln!(out, "{}", plain_json(&tare_format::json::to_string_pretty(&document)?))
}

impl Exit {
    fn from_end(end: &RunEnd) -> Self {
        Self { status: end.exit.status, signal: end.exit.signal, ended_by_tare: end.by_tare }
    }
}

impl CountedEvent {
    fn from_line(line: &StatLine) -> Self {
        let (value, reason) = match line.value {
            Value::Counted(value) => (Some(value), None),
            Value::NotCounted(None) => (None, Some("it was never on a counter".to_owned())),
            Value::NotCounted(Some(reason)) | Value::NotSupported(reason) => {
                (None, Some(reason.to_string()))
            }
        };
        let spread = line.spread.as_ref();
        Self {
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
}
