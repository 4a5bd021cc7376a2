//! `-j`: the JSON lines of `perf stat`, with its keys, in its order (checked against perf 6.1's
//! output).

use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value as Json;

use super::super::report::{Line, Value};
use super::csv::deviation_percent;
use super::{NOT_COUNTED, NOT_SUPPORTED};
use crate::cli::resolved::stat::Output;
use tare_kernel::host::Place;
use tare_measure::count::Key;

pub(super) fn lines(
    out: &mut dyn Write,
    output: &Output,
    at: Option<Duration>,
    lines: &[Line],
    keys: bool,
) -> io::Result<()> {
    for line in lines.iter().filter(|line| !output.metric_only || line.metric.is_some()) {
        let mut fields: Vec<(&str, String)> = Vec::new();
        if let Some(at) = at {
            fields.push(("interval", format!("{:.9}", at.as_secs_f64())));
        }
        if keys {
            key(&mut fields, line);
        }
        if !output.metric_only {
            fields.push(("counter-value", text(&value(line))));
            fields.push(("unit", text(&line.unit)));
        }
        fields.push(("event", text(&line.event)));
        fields.extend(line.cgroup.iter().map(|cgroup| ("cgroup", text(cgroup))));
        if !output.metric_only {
            fields.extend(
                deviation_percent(line).map(|percent| ("variance", format!("{percent:.2}"))),
            );
            fields.push(("event-runtime", line.running_ns.to_string()));
            fields.push(("pcnt-running", format!("{:.2}", line.running_share * 100.0)));
        }
        let metric = line.metric.as_ref();
        fields.push(("metric-value", format!("{:.6}", metric.map_or(0.0, |metric| metric.value))));
        fields.push(("metric-unit", text(metric.map_or("", |metric| &metric.unit))));
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
        writeln!(out, "{{{}}}", body.join(", "))?;
    }
    Ok(())
}

fn key(fields: &mut Vec<(&str, String)>, line: &Line) {
    let name = match line.key {
        Key::All => return,
        Key::Cpu(cpu) => return fields.push(("cpu", text(&cpu.to_string()))),
        Key::Thread(_) => {
            return fields.push(("thread", text(line.thread.as_deref().unwrap_or_default())));
        }
        Key::Place(Place::Package { .. }) => "socket",
        Key::Place(Place::Die { .. }) => "die",
        Key::Place(Place::Core { .. }) => "core",
        Key::Place(Place::Node { .. }) => "node",
    };
    let Key::Place(place) = line.key else { return };
    fields.push((name, text(&place.to_string())));
    fields.push(("aggregate-number", line.places.to_string()));
}

fn value(line: &Line) -> String {
    match line.value {
        Value::Counted(value) => format!("{value:.6}"),
        Value::NotCounted(_) => NOT_COUNTED.to_owned(),
        Value::NotSupported(_) => NOT_SUPPORTED.to_owned(),
    }
}

/// A JSON string, quoted and escaped.
fn text(value: &str) -> String {
    Json::from(value).to_string()
}
