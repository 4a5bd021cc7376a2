//! The table for people, in the manner of `perf stat`.

use std::io::{self, Write};
use std::time::Duration;

use tare_format::printable;

use super::Columns;
use super::line::{Line, Value};
use super::results::Results;
use super::spread::{self, spread};
use crate::count::{Key, Metric};
use crate::statistics::Summary;

/// Lines of intervals after which the heading is repeated.
const HEADING_EVERY: usize = 25;
/// Columns of a count, right-aligned.
const VALUE: usize = 18;

/// Writes the sums over everything, with the times, under perf's title.
///
/// # Errors
/// The writer's own.
pub fn totals(out: &mut dyn Write, columns: Columns, results: &Results) -> io::Result<()> {
    let runs = results.runs();
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
        metrics(out, &lines, &table, None)?;
    } else {
        lines.iter().try_for_each(|line| writeln!(out, "{}", table.line(line)))?;
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    let times = results.times();
    if columns.each_run && runs > 1 {
        each_run(out, &times.elapsed)?;
    }
    for (values, what) in [
        (&times.elapsed, "seconds time elapsed"),
        (&times.user, "seconds user"),
        (&times.system, "seconds sys"),
    ] {
        let Some(summary) = Summary::of_amounts(values) else { continue };
        writeln!(
            out,
            "{:>VALUE$.6} {what}{}",
            summary.mean,
            if repeated { spread(&summary, 6) } else { String::new() }
        )?;
    }
    if description.in_cgroup {
        writeln!(
            out,
            "\n (counted in a cgroup of its own, so that the command's execve is in the counts; --follow=inherit begins after it)"
        )?;
    }
    if repeated && runs > 1 {
        writeln!(out, "\n (mean ± standard deviation, [95% interval of the mean])")?;
    }
    writeln!(out)
}

/// Writes how long each run took, how far that is from the mean, and a bar: a mark, and one more for
/// each 5% of the run's own time.
fn each_run(out: &mut dyn Write, elapsed: &[f64]) -> io::Result<()> {
    let Some(summary) = Summary::of_amounts(elapsed) else { return Ok(()) };
    writeln!(out, "{:>VALUE$} each run", "#")?;
    for run in elapsed {
        let off = run - summary.mean;
        // At most a line of them, also where a run took no time.
        let percent = (100.0 * off / run).abs();
        let more = (1..=80).take_while(|mark| f64::from(5 * mark) <= percent).count();
        writeln!(out, "{run:>VALUE$.6} ({off:+.6}) {}", "#".repeat(1 + more))?;
    }
    writeln!(out)
}

/// Writes what was counted in an interval that ended `at` after the start. `since_heading` is the
/// number of lines since the last heading, 0 at first.
///
/// # Errors
/// The writer's own.
pub fn interval(
    out: &mut dyn Write,
    columns: Columns,
    at: Duration,
    lines: &[Line],
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
        return metrics(out, lines, &table, Some(at));
    }
    lines.iter().try_for_each(|line| {
        writeln!(out, "{:13.6} {}", at.as_secs_f64(), table.line(line).trim_end())
    })
}

/// Only the derived figures: one line for each key.
fn metrics(
    out: &mut dyn Write,
    lines: &[Line],
    table: &Table,
    at: Option<Duration>,
) -> io::Result<()> {
    for same in lines.chunk_by(|a, b| a.key == b.key) {
        let at = at.map_or_else(String::new, |at| format!("{:13.6} ", at.as_secs_f64()));
        let figures: Vec<String> = same
            .iter()
            .filter_map(|line| {
                line.metric.as_ref().map(|metric| {
                    format!("{} {}", printable(&line.event), figure(metric).trim_start())
                })
            })
            .collect();
        writeln!(out, "{at}{}{}", table.key(&same[0]), figures.join("   "))?;
    }
    Ok(())
}

/// The widths of a table.
struct Table {
    columns: Columns,
    key: usize,
    unit: usize,
    event: usize,
}

impl Table {
    fn layout(lines: &[Line], columns: Columns) -> Self {
        let widest = |of: &dyn Fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or(0);
        Self {
            columns,
            key: widest(&|line| key(line).chars().count()),
            unit: widest(&|line| line.unit.chars().count()),
            event: widest(&|line| name(line).chars().count()).max(24),
        }
    }

    fn key(&self, line: &Line) -> String {
        if self.columns.keys {
            format!("{:<width$} ", key(line), width = self.key)
        } else {
            String::new()
        }
    }

    fn line(&self, line: &Line) -> String {
        let digits = |value: f64| match &line.spread {
            Some(summary) => spread::decimals(summary, decimals(line, value)),
            None => decimals(line, value),
        };
        let value = match line.value {
            Value::Counted(value) => number(value, digits(value), self.columns.big_numbers),
            Value::NotCounted(_) | Value::NotSupported(_) => {
                line.missing().unwrap_or_default().to_owned()
            }
        };
        let metric =
            line.metric.as_ref().map_or_else(String::new, |metric| format!("# {}", figure(metric)));
        let spread = line
            .spread
            .as_ref()
            .map_or_else(String::new, |summary| spread(summary, digits(summary.mean)));
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
            self.key(line),
            name(line),
            event = self.event
        );
        text.trim_end().to_owned()
    }
}

fn key(line: &Line) -> String {
    match line.key {
        Key::All => String::new(),
        Key::Cpu(cpu) => format!("CPU{cpu}"),
        Key::Thread(_) => printable(line.thread.as_deref().unwrap_or_default()).into_owned(),
        Key::Topology(place) => format!("{place} {:>4}", line.locations),
    }
}

fn name(line: &Line) -> String {
    printable(
        &line
            .cgroup
            .as_ref()
            .map_or_else(|| line.event.clone(), |cgroup| format!("{} {cgroup}", line.event)),
    )
    .into_owned()
}

fn figure(metric: &Metric) -> String {
    let (value, percent) = if metric.percent {
        (format!("{:.2}", metric.value), "%")
    } else {
        (format!("{:.3}", metric.value), "")
    };
    format!("{value:>9}{percent} {}", metric.unit)
}

/// A count has decimals where its unit isn't the kernel's, or where it is a small mean.
fn decimals(line: &Line, value: f64) -> usize {
    match (line.scaled_unit, value.fract() != 0.0 && value.abs() < 1000.0) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

/// A number with its digits in groups of three: 1,234,567.
fn number(value: f64, decimals: usize, grouped: bool) -> String {
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
    use super::number;

    #[test]
    fn digits_are_grouped_in_threes() {
        let of = |value, decimals| number(value, decimals, true);
        assert_eq!(
            [of(0.0, 0), of(999.0, 0), of(1000.0, 0), of(-1_234_567.5, 1)],
            ["0", "999", "1,000", "-1,234,567.5"]
        );
        assert_eq!(number(1234.0, 2, false), "1234.00");
    }
}
