//! `-x`: CSV with the columns of `perf stat`, in its order (perf-stat(1), "CSV FORMAT"; compared
//! with the output of perf 6.1).
//!
//! ```text
//! [time | summary] [key [locations]] value unit event [cgroup] [deviation%]
//!     running-ns running-% metric metric-unit
//! ```

use std::io::{self, Write};

use tare_format::printable;

use super::line::{StatLine, Value};
use super::{Columns, Span, group_by_key};
use crate::count::Key;

/// Writes lines with this separator between columns.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_lines(
    out: &mut dyn Write,
    separator: &str,
    columns: Columns,
    span: Span,
    lines: &[StatLine],
) -> io::Result<()> {
    let rows = if columns.metric_only {
        metric_rows(columns, span, lines)
    } else {
        lines.iter().map(|line| line_fields(columns, span, line)).collect()
    };
    let rows = rows.into_iter().map(|mut fields: Vec<String>| {
        // Padding would be columns.
        if let Some(first) = fields.first_mut().filter(|_| separator == " ") {
            *first = first.trim_start().to_owned();
        }
        fields
    });
    rows.into_iter().try_for_each(|fields| writeln!(out, "{}", join_fields(&fields, separator)))
}

fn line_fields(columns: Columns, span: Span, line: &StatLine) -> Vec<String> {
    let mut fields = Vec::new();
    push_prefix(&mut fields, columns, span, line);
    fields.push(format_value(line));
    fields.push(line.unit.clone());
    fields.push(line.event.clone());
    fields.extend(line.cgroup.clone());
    fields.extend(line.deviation_percent().map(|percent| format!("{percent:.2}%")));
    fields.push(line.running_ns.to_string());
    fields.push(format!("{:.2}", line.perf_running_percent()));
    let metric = line.metric.as_ref();
    let value = metric.map(|metric| format_metric(metric.value, metric.percent));
    fields.push(value.unwrap_or_default());
    fields.push(metric.map_or_else(String::new, |metric| metric.unit.clone()));
    fields
}

/// Returns only the values of the derived figures: a row for each key, with a column for each
/// figure. As in perf, each column ends with a separator.
fn metric_rows(columns: Columns, span: Span, lines: &[StatLine]) -> Vec<Vec<String>> {
    let row = |same_key: Vec<&StatLine>| {
        let mut fields = Vec::new();
        push_prefix(&mut fields, columns, span, same_key[0]);
        for metric in same_key.iter().filter_map(|line| line.metric.as_ref()) {
            fields.push(match &metric.named {
                Some(figure) => format!("{:.3}", figure.value),
                None => format_metric(metric.value, metric.percent),
            });
        }
        fields.push(String::new());
        fields
    };
    group_by_key(lines).into_iter().map(row).collect()
}

/// Writes the names of the columns of [`Columns::metric_only`], with the units of the figures.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_metric_heading(
    out: &mut dyn Write,
    separator: &str,
    columns: Columns,
    span: Span,
    lines: &[StatLine],
) -> io::Result<()> {
    let Some(same_key) = group_by_key(lines).into_iter().next() else { return Ok(()) };
    let mut fields = Vec::new();
    push_prefix(&mut fields, columns, span, same_key[0]);
    // The columns of time and key have no names in perf either.
    fields.iter_mut().for_each(String::clear);
    for line in same_key {
        let Some(metric) = &line.metric else { continue };
        fields.push(match &metric.named {
            Some(figure) => figure.heading(),
            None => format!("{} {}", line.event, metric.unit),
        });
    }
    fields.push(String::new());
    writeln!(out, "{}", join_fields(&fields, separator))
}

fn push_prefix(fields: &mut Vec<String>, columns: Columns, span: Span, line: &StatLine) {
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

fn format_value(line: &StatLine) -> String {
    match line.value {
        Value::Counted(value) if line.scaled_unit => format!("{value:.2}"),
        Value::Counted(value) => format!("{value:.0}"),
        Value::NotCounted(_) | Value::NotSupported(_) => line.missing().unwrap_or_default().into(),
    }
}

fn format_metric(value: f64, percent: bool) -> String {
    if percent { format!("{value:.2}") } else { format!("{value:.3}") }
}

/// Joins fields without quotes, like perf. Names of threads and events may contain anything:
/// separators in them are replaced, and control characters escaped.
fn join_fields(fields: &[String], separator: &str) -> String {
    let stand_in = [' ', '_', '-'].into_iter().find(|c| !separator.contains(*c)).unwrap_or('?');
    let clean = |field: &String| {
        let mut text = printable(field).replace(separator, stand_in.encode_utf8(&mut [0; 4]));
        // After a field `a:`, the separator `::` would be found one character too early.
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
    fn separators_in_fields_are_replaced() {
        let joined = |separator, fields: [&str; 3]| {
            let text = join_fields(&fields.map(str::to_owned), separator);
            assert_eq!(text.split(separator).count(), 3, "{text}");
            text
        };
        assert_eq!(joined(",", ["a,b", "", "c"]), "a b,,c");
        assert_eq!(joined("::", ["a:", ":b", "c::"]), "a :::b::c ");
        assert_eq!(joined(" ", ["a b", "", " "]), "a_b  _");
    }
}
