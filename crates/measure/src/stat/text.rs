//! Writes the table, in the style of `perf stat`.

use std::io::{self, Write};
use std::time::Duration;

use tare_format::printable;

use super::Columns;
use super::line::{StatLine, Value};
use super::results::Results;
use super::spread::{count_decimals, format_spread};
use crate::count::{Key, Metric};
use crate::statistics::Summary;

/// Number of interval lines after which the heading is repeated.
const HEADING_EVERY: usize = 25;
/// Width of a count, in columns.
const VALUE: usize = 18;

/// Writes the totals of all runs and their times, under perf's title.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_totals(out: &mut dyn Write, columns: Columns, results: &Results) -> io::Result<()> {
    let runs = results.runs().number();
    let lines = results.lines();
    let description = results.description();
    let repeated = description.repeated;
    writeln!(
        out,
        "\n Performance counter stats for {}{}:\n",
        printable(&description.target),
        if runs > 1 { format!(" ({runs} runs)") } else { String::new() }
    )?;
    let table = Table::layout(&lines, columns);
    if columns.metric_only {
        write_metrics(out, &lines, &table, None)?;
    } else {
        lines.iter().try_for_each(|line| writeln!(out, "{}", table.format_line(line)))?;
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    let times = results.times();
    if columns.each_run && runs > 1 {
        write_each_run(out, &times.elapsed)?;
    }
    for (values, what) in [
        (&times.elapsed, "seconds time elapsed"),
        (&times.user, "seconds user"),
        (&times.system, "seconds sys"),
    ] {
        let Some(summary) = Summary::from_amounts(values) else { continue };
        writeln!(
            out,
            "{:>VALUE$.6} {what}{}",
            summary.mean,
            if repeated { format_spread(&summary, 6) } else { String::new() }
        )?;
    }
    for note in results.notes() {
        writeln!(out, "\n ({note})")?;
    }
    if description.in_cgroup {
        writeln!(
            out,
            "\n (counted in a cgroup of its own, so the counts include the command's execve; with --follow=inherit they begin after it)"
        )?;
    }
    if repeated && runs > 1 {
        writeln!(
            out,
            "\n (mean ± standard deviation, [95% interval of the mean], +- standard error of the mean)"
        )?;
    }
    writeln!(out)
}

/// Writes each run's time, its difference from the mean, and a bar: one mark, plus one for each 5%
/// of the run's time that it differs by, up to 80.
fn write_each_run(out: &mut dyn Write, elapsed: &[f64]) -> io::Result<()> {
    let Some(summary) = Summary::from_amounts(elapsed) else { return Ok(()) };
    writeln!(out, "{:>VALUE$} each run", "#")?;
    for run in elapsed {
        let off = run - summary.mean;
        // The limit of 80 also covers a run of 0 seconds, whose percentage is infinite.
        let percent = (100.0 * off / run).abs();
        let more = (1..=80).take_while(|mark| f64::from(5 * mark) <= percent).count();
        writeln!(out, "{run:>VALUE$.6} ({off:+.6}) {}", "#".repeat(1 + more))?;
    }
    writeln!(out)
}

/// Writes the lines of an interval that ended `at` after the start. `since_heading` is the number
/// of lines since the last heading, or 0 if a heading is due; it is updated.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_interval(
    out: &mut dyn Write,
    columns: Columns,
    at: Duration,
    lines: &[StatLine],
    since_heading: &mut usize,
) -> io::Result<()> {
    let table = Table::layout(lines, columns);
    if *since_heading == 0 {
        writeln!(out, "#{:>12} {:>VALUE$} event", "seconds", "count")?;
    }
    *since_heading = if *since_heading + lines.len() >= HEADING_EVERY {
        0
    } else {
        *since_heading + lines.len()
    };
    if columns.metric_only {
        return write_metrics(out, lines, &table, Some(at));
    }
    lines.iter().try_for_each(|line| {
        writeln!(out, "{:13.6} {}", at.as_secs_f64(), table.format_line(line).trim_end())
    })
}

/// Writes only the derived figures, those of lines with the same key on one line.
fn write_metrics(
    out: &mut dyn Write,
    lines: &[StatLine],
    table: &Table,
    at: Option<Duration>,
) -> io::Result<()> {
    for same in super::group_by_key(lines) {
        let at = at.map_or_else(String::new, |at| format!("{:13.6} ", at.as_secs_f64()));
        let figures: Vec<String> = same
            .iter()
            .filter_map(|line| {
                line.metric.as_ref().map(|metric| {
                    format!("{} {}", printable(&line.event), format_metric(metric).trim_start())
                })
            })
            .collect();
        writeln!(out, "{at}{}{}", table.format_key(same[0]), figures.join("   "))?;
    }
    Ok(())
}

/// The columns of a table, and the widths of those that depend on its lines.
struct Table {
    columns: Columns,
    key: usize,
    unit: usize,
    event: usize,
}

impl Table {
    fn layout(lines: &[StatLine], columns: Columns) -> Self {
        let widest =
            |width: &dyn Fn(&StatLine) -> usize| lines.iter().map(width).max().unwrap_or(0);
        Self {
            columns,
            key: widest(&|line| format_key(line).chars().count()),
            unit: widest(&|line| line.unit.chars().count()),
            event: widest(&|line| format_name(line).chars().count()).max(24),
        }
    }

    fn format_key(&self, line: &StatLine) -> String {
        if self.columns.keys {
            format!("{:<width$} ", format_key(line), width = self.key)
        } else {
            String::new()
        }
    }

    fn format_line(&self, line: &StatLine) -> String {
        let digits = |value: f64| match &line.spread {
            Some(summary) => count_decimals(summary, usual_decimals(line, value)),
            None => usual_decimals(line, value),
        };
        let value = match line.value {
            Value::Counted(value) => format_number(value, digits(value), self.columns.big_numbers),
            Value::NotCounted(_) | Value::NotSupported(_) => {
                line.missing().unwrap_or_default().to_owned()
            }
        };
        let metric = line.metric.as_ref().map(|metric| format!("# {}", format_metric(metric)));
        let metric = metric.unwrap_or_default();
        let spread = line
            .spread
            .as_ref()
            .map_or_else(String::new, |summary| format_spread(summary, digits(summary.mean)));
        let share = if line.is_scaled() {
            format!("  ({:.2}% running, scaled)", line.running_share * 100.0)
        } else {
            String::new()
        };
        let unit = if self.unit > 0 {
            format!("{:<width$} ", line.unit, width = self.unit)
        } else {
            String::new()
        };
        let text = format!(
            "{}{value:>VALUE$} {unit}{:<event$} {metric:<34}{spread}{share}",
            self.format_key(line),
            format_name(line),
            event = self.event
        );
        text.trim_end().to_owned()
    }
}

fn format_key(line: &StatLine) -> String {
    match line.key {
        Key::All => String::new(),
        Key::Cpu(cpu) => format!("CPU{cpu}"),
        Key::Thread(_) => printable(line.thread.as_deref().unwrap_or_default()).into_owned(),
        Key::Topology(place) => format!("{place} {:>4}", line.locations),
    }
}

fn format_name(line: &StatLine) -> String {
    printable(
        &line
            .cgroup
            .as_ref()
            .map_or_else(|| line.event.clone(), |cgroup| format!("{} {cgroup}", line.event)),
    )
    .into_owned()
}

fn format_metric(metric: &Metric) -> String {
    if let Some(figure) = &metric.named {
        let value = figure.value;
        let value = match figure.unit {
            "%" => format!("{value:.2}"),
            _ if value < 1000.0 => format!("{value:.3}"),
            _ => format!("{value:.1}"),
        };
        let percent = if figure.unit == "%" { "%" } else { "" };
        return format!("{value:>9}{percent} {}", figure.label());
    }
    let (value, percent) = if metric.percent {
        (format!("{:.2}", metric.value), "%")
    } else {
        (format!("{:.3}", metric.value), "")
    };
    format!("{value:>9}{percent} {}", metric.unit)
}

/// Returns the number of decimals of a count without a spread: two if it was multiplied by a scale
/// with a fraction, one if it is below 1000 and has a fraction, like means and estimates.
fn usual_decimals(line: &StatLine, value: f64) -> usize {
    match (line.scaled_unit, value.fract() != 0.0 && value.abs() < 1000.0) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

/// Formats a number, if `grouped` with its digits in groups of three: 1,234,567.
fn format_number(value: f64, decimals: usize, grouped: bool) -> String {
    let plain = format!("{value:.decimals$}");
    if !grouped {
        return plain;
    }
    let (whole, fraction) =
        plain.split_once('.').map_or((plain.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{}{fraction}", if fraction.is_empty() { "" } else { "." })
}

#[cfg(test)]
mod tests {
    use super::format_number;

    #[test]
    fn digits_are_grouped_in_threes() {
        let grouped = |value, decimals| format_number(value, decimals, true);
        assert_eq!(
            [grouped(0.0, 0), grouped(999.0, 0), grouped(1000.0, 0), grouped(-1_234_567.5, 1)],
            ["0", "999", "1,000", "-1,234,567.5"]
        );
        assert_eq!(format_number(1234.0, 2, false), "1234.00");
    }
}
