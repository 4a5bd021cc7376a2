//! `-x`: the CSV columns of `perf stat` in its order (perf-stat(1), "CSV FORMAT"; checked against
//! perf 6.1's output).
//!
//! ```text
//! [time] [key [places]] value unit event [cgroup] [deviation%] running-ns running-% metric metric-unit
//! ```

use std::io::{self, Write};
use std::time::Duration;

use super::super::report::{Line, Value};
use super::{NOT_COUNTED, NOT_SUPPORTED};
use crate::cli::resolved::stat::Output;
use tare_format::printable;
use tare_measure::count::Key;
use tare_measure::statistics::Summary;

pub(super) fn lines(
    out: &mut dyn Write,
    separator: &str,
    output: &Output,
    at: Option<Duration>,
    lines: &[Line],
    keys: bool,
) -> io::Result<()> {
    if output.metric_only {
        return metrics(out, separator, at, lines, keys);
    }
    for line in lines {
        let mut fields = Vec::new();
        prefix(&mut fields, at, line, keys);
        fields.push(value(line));
        fields.push(line.unit.clone());
        fields.push(line.event.clone());
        fields.extend(line.cgroup.clone());
        fields.extend(deviation(line));
        fields.push(line.running_ns.to_string());
        fields.push(format!("{:.2}", line.running_share * 100.0));
        let metric = line.metric.as_ref();
        fields.push(
            metric.map_or_else(String::new, |metric| metric_value(metric.value, metric.percent)),
        );
        fields.push(metric.map_or_else(String::new, |metric| metric.unit.clone()));
        writeln!(out, "{}", join(&fields, separator))?;
    }
    Ok(())
}

/// Only the derived figures: a line for each key, a column for each event that has one.
fn metrics(
    out: &mut dyn Write,
    separator: &str,
    at: Option<Duration>,
    lines: &[Line],
    keys: bool,
) -> io::Result<()> {
    let mut order: Vec<Key> = Vec::new();
    lines.iter().for_each(|line| {
        if !order.contains(&line.key) {
            order.push(line.key);
        }
    });
    for key in order {
        let of_key: Vec<&Line> = lines.iter().filter(|line| line.key == key).collect();
        let mut fields = Vec::new();
        if let Some(first) = of_key.first() {
            prefix(&mut fields, at, first, keys);
        }
        for line in of_key {
            if let Some(metric) = &line.metric {
                fields.extend([
                    line.event.clone(),
                    metric_value(metric.value, metric.percent),
                    metric.unit.clone(),
                ]);
            }
        }
        writeln!(out, "{}", join(&fields, separator))?;
    }
    Ok(())
}

fn prefix(fields: &mut Vec<String>, at: Option<Duration>, line: &Line, keys: bool) {
    if let Some(at) = at {
        fields.push(format!("{:6}.{:09}", at.as_secs(), at.subsec_nanos()));
    }
    if !keys {
        return;
    }
    match line.key {
        Key::All => {}
        Key::Cpu(cpu) => fields.push(format!("CPU{cpu}")),
        Key::Thread(_) => fields.push(line.thread.clone().unwrap_or_default()),
        Key::Place(place) => fields.extend([place.to_string(), line.places.to_string()]),
    }
}

fn value(line: &Line) -> String {
    match line.value {
        Value::Counted(value) if line.scaled_unit => format!("{value:.2}"),
        Value::Counted(value) => format!("{value:.0}"),
        Value::NotCounted(_) => NOT_COUNTED.to_owned(),
        Value::NotSupported(_) => NOT_SUPPORTED.to_owned(),
    }
}

/// The standard deviation of the mean in percent of it, as perf has it: 0 where there is none;
/// `None` for a single run.
pub(super) fn deviation_percent(line: &Line) -> Option<f64> {
    let percent = |spread: &Summary| {
        let of_mean = spread.deviation? / (spread.runs as f64).sqrt();
        (spread.mean != 0.0).then(|| of_mean / spread.mean.abs() * 100.0)
    };
    line.repeated.then(|| line.spread.as_ref().and_then(percent).unwrap_or(0.0))
}

fn deviation(line: &Line) -> Option<String> {
    deviation_percent(line).map(|percent| format!("{percent:.2}%"))
}

fn metric_value(value: f64, percent: bool) -> String {
    if percent { format!("{value:.2}") } else { format!("{value:.3}") }
}

/// Fields as they are, as perf writes them; only what would break a line (names of threads and
/// events may hold anything) is escaped.
fn join(fields: &[String], separator: &str) -> String {
    let clean = |field: &String| printable(field).replace(separator, " ");
    fields.iter().map(clean).collect::<Vec<_>>().join(separator)
}
