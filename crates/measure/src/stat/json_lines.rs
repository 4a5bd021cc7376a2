//! `-j`: the JSON lines of `perf stat`, with its keys in its order (compared with the output of
//! perf 6.1).

use std::io::{self, Write};

use serde_json::Value as Json;
use tare_kernel::host::CpuGroup;

use super::line::{StatLine, Value};
use super::plain_json::plain_json;
use super::{Columns, Span};
use crate::count::Key;

/// Writes each line as a JSON object on a line of its own. With [`Columns::metric_only`], lines
/// without a derived figure are left out.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_lines(
    out: &mut dyn Write,
    columns: Columns,
    span: Span,
    lines: &[StatLine],
) -> io::Result<()> {
    for line in lines.iter().filter(|line| !columns.metric_only || line.metric.is_some()) {
        let mut fields: Vec<(&str, String)> = Vec::new();
        if let Span::Interval(at) = span {
            fields.push(("interval", format!("{:.9}", at.as_secs_f64())));
        }
        if columns.keys {
            push_key(&mut fields, line);
        }
        if !columns.metric_only {
            fields.push(("counter-value", json_string(&format_value(line))));
            fields.push(("unit", json_string(&line.unit)));
        }
        fields.push(("event", json_string(&line.event)));
        fields.extend(line.cgroup.iter().map(|cgroup| ("cgroup", json_string(cgroup))));
        if !columns.metric_only {
            fields.extend(
                line.deviation_percent().map(|percent| ("variance", format!("{percent:.2}"))),
            );
            fields.push(("event-runtime", line.running_ns.to_string()));
            fields.push(("pcnt-running", format!("{:.2}", line.perf_running_percent())));
        }
        let metric = line.metric.as_ref();
        fields.push(("metric-value", format!("{:.6}", metric.map_or(0.0, |metric| metric.value))));
        fields.push(("metric-unit", json_string(metric.map_or("", |metric| &metric.unit))));
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
        writeln!(out, "{{{}}}", body.join(", "))?;
    }
    Ok(())
}

fn push_key(fields: &mut Vec<(&str, String)>, line: &StatLine) {
    let name = match line.key {
        Key::All => return,
        Key::Cpu(cpu) => return fields.push(("cpu", json_string(&cpu.to_string()))),
        Key::Thread(_) => {
            return fields
                .push(("thread", json_string(line.thread.as_deref().unwrap_or_default())));
        }
        Key::Topology(CpuGroup::Package { .. }) => "socket",
        Key::Topology(CpuGroup::Die { .. }) => "die",
        Key::Topology(CpuGroup::Core { .. }) => "core",
        Key::Topology(CpuGroup::Cluster { .. }) => "cluster",
        Key::Topology(CpuGroup::Cache { .. }) => "cache",
        Key::Topology(CpuGroup::Node { .. }) => "node",
    };
    let Key::Topology(place) = line.key else { return };
    fields.push((name, json_string(&place.to_string())));
    fields.push(("counters", line.locations.to_string()));
}

fn format_value(line: &StatLine) -> String {
    match line.value {
        Value::Counted(value) => format!("{value:.6}"),
        Value::NotCounted(_) | Value::NotSupported(_) => line.missing().unwrap_or_default().into(),
    }
}

/// Returns a JSON string, quoted and escaped.
fn json_string(value: &str) -> String {
    plain_json(&Json::from(value).to_string())
}
