//! `-j`: the JSON lines of `perf stat`, with its keys, in its order (checked against perf 6.1's
//! output).

use std::io::{self, Write};

use serde_json::Value as Json;
use tare_kernel::host::CpuGroup;

use super::line::{Line, Value};
use super::plain_json::plain_json;
use super::{Columns, Span};
use crate::count::Key;

/// Writes a JSON object a line.
///
/// # Errors
/// The writer's own.
pub fn lines(out: &mut dyn Write, columns: Columns, span: Span, lines: &[Line]) -> io::Result<()> {
    for line in lines.iter().filter(|line| !columns.metric_only || line.metric.is_some()) {
        let mut fields: Vec<(&str, String)> = Vec::new();
        if let Span::Interval(at) = span {
            fields.push(("interval", format!("{:.9}", at.as_secs_f64())));
        }
        if columns.keys {
            key(&mut fields, line);
        }
        if !columns.metric_only {
            fields.push(("counter-value", text(&value(line))));
            fields.push(("unit", text(&line.unit)));
        }
        fields.push(("event", text(&line.event)));
        fields.extend(line.cgroup.iter().map(|cgroup| ("cgroup", text(cgroup))));
        if !columns.metric_only {
            fields.extend(
                line.deviation_percent().map(|percent| ("variance", format!("{percent:.2}"))),
            );
            fields.push(("event-runtime", line.running_ns.to_string()));
            fields.push(("pcnt-running", format!("{:.2}", line.perf_running_percent())));
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
        Key::Topology(CpuGroup::Package { .. }) => "socket",
        Key::Topology(CpuGroup::Die { .. }) => "die",
        Key::Topology(CpuGroup::Core { .. }) => "core",
        Key::Topology(CpuGroup::Cluster { .. }) => "cluster",
        Key::Topology(CpuGroup::Cache { .. }) => "cache",
        Key::Topology(CpuGroup::Node { .. }) => "node",
    };
    let Key::Topology(place) = line.key else { return };
    fields.push((name, text(&place.to_string())));
    fields.push(("aggregate-number", line.locations.to_string()));
}

fn value(line: &Line) -> String {
    match line.value {
        Value::Counted(value) => format!("{value:.6}"),
        Value::NotCounted(_) | Value::NotSupported(_) => line.missing().unwrap_or_default().into(),
    }
}

/// A JSON string, quoted and escaped.
fn text(value: &str) -> String {
    plain_json(&Json::from(value).to_string())
}
