//! `-x`: the CSV columns of `perf stat` in its order (perf-stat(1), "CSV FORMAT"; checked against
//! perf 6.1's output).
//!
//! ```text
//! [time | summary] [key [locations]] value unit event [cgroup] [deviation%] running-ns running-% metric metric-unit
//! ```

use std::io::{self, Write};

use tare_format::printable;

use super::line::{Line, Value};
use super::{Columns, Span};
use crate::count::Key;

/// Writes lines with this separator between columns.
///
/// # Errors
/// The writer's own.
pub fn lines(
    out: &mut dyn Write,
    separator: &str,
    columns: Columns,
    span: Span,
    lines: &[Line],
) -> io::Result<()> {
    let rows = if columns.metric_only {
        metrics(columns, span, lines)
    } else {
        lines.iter().map(|line| fields(columns, span, line)).collect()
    };
    rows.iter().try_for_each(|fields| writeln!(out, "{}", join(fields, separator)))
}

fn fields(columns: Columns, span: Span, line: &Line) -> Vec<String> {
    let mut fields = Vec::new();
    prefix(&mut fields, columns, span, line);
    fields.push(value(line));
    fields.push(line.unit.clone());
    fields.push(line.event.clone());
    fields.extend(line.cgroup.clone());
    fields.extend(line.deviation_percent().map(|percent| format!("{percent:.2}%")));
    fields.push(line.running_ns.to_string());
    fields.push(format!("{:.2}", line.perf_running_percent()));
    let metric = line.metric.as_ref();
    fields
        .push(metric.map_or_else(String::new, |metric| metric_value(metric.value, metric.percent)));
    fields.push(metric.map_or_else(String::new, |metric| metric.unit.clone()));
    fields
}

/// Only the derived figures: a line for each key, a column for each event that has one.
fn metrics(columns: Columns, span: Span, lines: &[Line]) -> Vec<Vec<String>> {
    let mut order: Vec<Key> = Vec::new();
    lines.iter().for_each(|line| {
        if !order.contains(&line.key) {
            order.push(line.key);
        }
    });
    let row = |key: Key| {
        let of_key: Vec<&Line> = lines.iter().filter(|line| line.key == key).collect();
        let mut fields = Vec::new();
        if let Some(first) = of_key.first() {
            prefix(&mut fields, columns, span, first);
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
        fields
    };
    order.into_iter().map(row).collect()
}

fn prefix(fields: &mut Vec<String>, columns: Columns, span: Span, line: &Line) {
    match span {
        Span::Interval(at) => fields.push(format!("{:6}.{:09}", at.as_secs(), at.subsec_nanos())),
        Span::Summary => fields.push(format!("{:>16}", "summary")),
        Span::Total => {}
    }
    if !columns.keys {
        return;
    }
    match line.key {
        Key::All => {}
        Key::Cpu(cpu) => fields.push(format!("CPU{cpu}")),
        Key::Thread(_) => fields.push(line.thread.clone().unwrap_or_default()),
        Key::Topology(place) => fields.extend([place.to_string(), line.locations.to_string()]),
    }
}

fn value(line: &Line) -> String {
    match line.value {
        Value::Counted(value) if line.scaled_unit => format!("{value:.2}"),
        Value::Counted(value) => format!("{value:.0}"),
        Value::NotCounted(_) | Value::NotSupported(_) => line.missing().unwrap_or_default().into(),
    }
}

fn metric_value(value: f64, percent: bool) -> String {
    if percent { format!("{value:.2}") } else { format!("{value:.3}") }
}

/// Fields as they are, as perf writes them; only what would break a line (names of threads and
/// events may hold anything) is escaped.
fn join(fields: &[String], separator: &str) -> String {
    let stand_in = [' ', '_', '-'].into_iter().find(|c| !separator.contains(*c)).unwrap_or('?');
    let clean = |field: &String| {
        let mut text = printable(field).replace(separator, stand_in.encode_utf8(&mut [0; 4]));
        // Behind `a:` the separator `::` would be found one character too early.
        if format!("{text}{separator}").find(separator) != Some(text.len()) {
            text.pop();
            text.push(stand_in);
        }
        text
    };
    fields.iter().map(clean).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_moves_the_next_one() {
        let joined = |separator, fields: [&str; 3]| {
            let text = join(&fields.map(str::to_owned), separator);
            assert_eq!(text.split(separator).count(), 3, "{text}");
            text
        };
        assert_eq!(joined(",", ["a,b", "", "c"]), "a b,,c");
        assert_eq!(joined("::", ["a:", ":b", "c::"]), "a :::b::c ");
        assert_eq!(joined(" ", ["a b", "", " "]), "a_b  _");
    }
}
