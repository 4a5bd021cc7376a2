//! Tables of a series in hyperfine's formats: CSV, Markdown, AsciiDoc and Org mode.

use std::collections::BTreeSet;
use std::io::{self, Write};

use tare_format::csv_field;

use super::report::{SeriesReport, Spread};
use super::text::TimeUnit;
use crate::compare::Metric;
use crate::statistics::Summary;

/// A markup language of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// Markdown.
    Markdown,
    /// AsciiDoc.
    AsciiDoc,
    /// Emacs' Org mode.
    OrgMode,
}

/// A command's times, as hyperfine shows them.
struct TimeRow<'a> {
    command: usize,
    name: &'a str,
    time: Spread,
    /// Time relative to the fastest command, with the standard deviation; `None` for that command.
    relative: Option<[f64; 2]>,
}

/// The rows of all commands that have runs, in this order.
fn rows(report: &SeriesReport, order: Vec<usize>) -> Vec<TimeRow<'_>> {
    let spread = |command: usize| report.spread(command, &Metric::Time);
    let fastest = report.by_mean_time().first().copied();
    let base = fastest.and_then(spread);
    let share = |summary: Summary| summary.deviation.unwrap_or(0.0) / summary.mean;
    let row = |command: usize| {
        let time = spread(command)?;
        let relative = base.filter(|_| fastest != Some(command)).map(|base| {
            let ratio = time.summary.mean / base.summary.mean;
            [ratio, ratio * share(time.summary).hypot(share(base.summary))]
        });
        Some(TimeRow { command, name: &report.commands[command].name, time, relative })
    };
    order.into_iter().filter_map(row).collect()
}

/// Writes the columns that hyperfine's CSV has, in seconds: first the commands with failed runs.
///
/// # Errors
/// Returns errors of `out`.
pub fn csv(out: &mut dyn Write, report: &SeriesReport) -> io::Result<()> {
    let names: BTreeSet<&str> = report
        .commands
        .iter()
        .flat_map(|command| command.parameters.iter().map(|(name, _)| name.as_str()))
        .collect();
    let heading = ["command", "mean", "stddev", "median", "user", "system", "min", "max"];
    let parameters = names.iter().map(|name| csv_field(&format!("parameter_{name}")));
    let heading: Vec<String> =
        heading.iter().map(|&name| name.to_owned()).chain(parameters).collect();
    writeln!(out, "{}", heading.join(","))?;
    let failed: BTreeSet<usize> = report.failures().map(|failure| failure.command).collect();
    let mut order: Vec<usize> = (0..report.commands.len()).collect();
    order.sort_by_key(|command| !failed.contains(command));
    for row in rows(report, order) {
        let command = &report.commands[row.command];
        let mean = |index: usize| {
            let spread = report.spread(row.command, &report.metrics[index]);
            spread.map_or(0.0, |spread| spread.summary.mean)
        };
        let figures = [
            row.time.summary.mean,
            row.time.summary.deviation.unwrap_or(0.0),
            row.time.median,
            mean(2),
            mean(3),
            row.time.min,
            row.time.max,
        ];
        let value = |name: &&str| {
            let found = command.parameters.iter().find(|(known, _)| known == name);
            csv_field(found.map_or("", |(_, value)| value.as_str()))
        };
        let fields = std::iter::once(csv_field(row.name))
            .chain(figures.map(|figure| figure.to_string()))
            .chain(names.iter().map(value));
        writeln!(out, "{}", fields.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

/// Writes the failed runs, and a table of mean, extremes and relative time.
///
/// # Errors
/// Returns errors of `out`.
pub fn markup(
    out: &mut dyn Write,
    report: &SeriesReport,
    markup: Markup,
    unit: Option<TimeUnit>,
    by_mean_time: bool,
) -> io::Result<()> {
    for sentence in report.failure_sentences() {
        writeln!(out, "{sentence}\n")?;
    }
    let order =
        if by_mean_time { report.by_mean_time() } else { (0..report.commands.len()).collect() };
    let rows = rows(report, order);
    // As in hyperfine, the first row chooses the unit of all.
    let first = rows.first().map_or(1.0, |row| row.time.summary.mean);
    let unit = unit.unwrap_or_else(|| TimeUnit::suiting(first));
    let symbol = unit.symbol();
    let heading = ["Mean", "Min", "Max"].map(|name| format!("{name} [{symbol}]"));
    let [mean, min, max] = heading;
    let heading = ["Command".to_owned(), mean, min, max, "Relative".to_owned()];
    match markup {
        Markup::Markdown => {
            writeln!(out, "| {} |\n|:---|---:|---:|---:|---:|", heading.join(" | "))?;
        }
        Markup::AsciiDoc => {
            writeln!(out, "[cols=\"<,>,>,>,>\"]\n|===\n| {} ", heading.join(" \n| "))?;
        }
        Markup::OrgMode => {
            writeln!(
                out,
                "| {}  |  {} |\n|--+--+--+--+--|",
                heading[0],
                heading[1..].join(" |  ")
            )?;
        }
    }
    for row in rows {
        let cells = cells(&row, unit);
        let name = row.name.replace('|', "\\|");
        match markup {
            Markup::Markdown => writeln!(out, "| `{name}` | {} |", cells.join(" | "))?,
            Markup::AsciiDoc => writeln!(out, "\n| `{name}` \n| {} ", cells.join(" \n| "))?,
            Markup::OrgMode => writeln!(out, "| ={name}=  |  {} |", cells.join(" |  "))?,
        }
    }
    if markup == Markup::AsciiDoc { writeln!(out, "|===") } else { Ok(()) }
}

fn cells(row: &TimeRow<'_>, unit: TimeUnit) -> [String; 4] {
    let Spread { summary, min, max, .. } = row.time;
    let deviation = summary
        .deviation
        .map_or_else(String::new, |deviation| format!(" ± {}", unit.number(deviation)));
    let relative = match row.relative {
        Some([ratio, deviation]) => format!("{ratio:.2} ± {deviation:.2}"),
        None => "1.00".to_owned(),
    };
    [
        format!("{}{deviation}", unit.number(summary.mean)),
        unit.number(min),
        unit.number(max),
        relative,
    ]
}
