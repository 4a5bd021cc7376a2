//! Writes a study as text: tables, lines, a plot, notes.

use std::io::{self, Write};

use super::fit::BUDGETS;
use super::load::LoadKind;
use super::published::XEON_E5530;
use super::rates::{CostFigure, EVENTS, FittedFigure, RateRow};
use tare_format::ledger::Estimate;

use super::plot::{self, Series};
use super::study::Study;
use tare_format::printable;
use tare_kernel::calendar_time::CalendarTime;

/// The rate in Hz whose cost is shown as an example.
const EXAMPLE_HZ: f64 = 1000.0;

/// Writes a study as tables, a plot and notes, with the published figures if `overlay`.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write(out: &mut dyn Write, study: &Study, overlay: bool) -> io::Result<()> {
    let shown = |text: &str| printable(text).into_owned();
    let machine = &study.machine;
    let virtual_machine = machine
        .virtual_machine
        .as_ref()
        .map_or_else(String::new, |name| format!(", virtual machine ({})", shown(name)));
    writeln!(
        out,
        "\n Cost of samples of {}, call graph {}",
        shown(&study.conditions.event),
        study.conditions.call_graph.name()
    )?;
    let host = shown(&machine.host);
    let kernel = shown(&machine.kernel);
    let model = shown(&machine.cpu_model);
    writeln!(
        out,
        " {host}, Linux {kernel}, {} x {model}{virtual_machine}, on CPU {}; {}, {:.0} s",
        machine.cpus,
        study.cpu,
        format_date(study.time),
        study.seconds
    )?;
    write_table(
        out,
        "Cost of a sample, in microseconds and as a share of CPU time",
        &cost_table(study, overlay),
    )?;
    write_table(out, "Losses of loops: shares of their passes", &loss_table(study, overlay))?;
    if !study.profilers().is_empty() {
        write_table(
            out,
            "Profilers: shares lost beyond the event alone, and their own CPU time",
            &profiler_table(study),
        )?;
    }
    write_table(
        out,
        "Lines through the rates: cost = intercept + slope x rate",
        &fit_table(study),
    )?;
    for line in plot::draw(&plot_series(study, overlay)) {
        writeln!(out, " {line}")?;
    }
    if !study.fits.is_empty() {
        writeln!(
            out,
            "   s stolen, c counting loop, h handler, . their lines{}",
            if overlay { ", x handler and o loop of the Xeon" } else { "" }
        )?;
    }
    writeln!(out)?;
    conclude(study)
        .iter()
        .chain(&study.notes)
        .try_for_each(|note| writeln!(out, " {}", shown(note)))?;
    writeln!(out)
}

/// Formats seconds since 1970 as date and time in UTC, as a page may be read in another time zone.
pub(super) fn format_date(seconds: u64) -> String {
    match i64::try_from(seconds).ok().and_then(CalendarTime::utc) {
        Some(CalendarTime { year, month, day, hour, minute, .. }) => {
            format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
        }
        None => format!("{seconds} s after 1970"),
    }
}

/// Writes a title and right-aligned rows; the first row has the headings.
fn write_table(out: &mut dyn Write, title: &str, rows: &[Vec<String>]) -> io::Result<()> {
    writeln!(out, "\n {title}")?;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
        writeln!(out, "  {}", cells.collect::<String>().trim_end())?;
    }
    Ok(())
}

fn headings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn format_us(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(
        || "-".to_owned(),
        |us| format!("{:.2} [{:.2}, {:.2}]", us.value, us.low, us.high),
    )
}

/// Formats a share as a percentage, with more digits if it is small and precise.
pub(super) fn format_percent(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "-".to_owned() };
    let Estimate { value, low, high } = estimate.times(100.0);
    let digits = if value.abs() < 0.1 && estimate.half_width() < 0.001 { 4 } else { 2 };
    format!("{value:.digits$} [{low:.digits$}, {high:.digits$}]")
}

/// Formats the requested and the delivered rate, with a mark if it is throttled.
fn format_rate(row: &RateRow) -> [String; 2] {
    let mark = if row.is_throttled() { "*" } else { "" };
    [row.asked_hz.to_string(), format!("{:.1}{mark}", row.delivered_hz)]
}

pub(super) fn cost_table(study: &Study, overlay: bool) -> Vec<Vec<String>> {
    let mut names = vec![
        "asked Hz",
        "delivered",
        "handler us",
        "interrupt us",
        "stolen us",
        "stolen p50, p99",
        "handler %",
        "stolen %",
    ];
    let frames = study.rows.iter().any(|row| row.frames.is_some());
    if frames {
        names.push("frames");
    }
    if overlay {
        names.push("Xeon's handler %");
    }
    let mut rows = vec![headings(&names)];
    for row in &study.rows {
        let mut cells = format_rate(row).to_vec();
        let cost = &row.cost;
        cells.extend([cost.handler_us, cost.interrupt_us, cost.stolen_us].map(format_us));
        // The indices of 50% and 99% in `SHARES`.
        let quantiles = cost.stolen_quantiles_us.get(5).zip(cost.stolen_quantiles_us.get(9));
        cells.push(
            quantiles.map_or_else(|| "-".to_owned(), |(p50, p99)| format!("{p50:.2}, {p99:.2}")),
        );
        cells.extend(
            [CostFigure::Handler, CostFigure::Stolen]
                .map(|figure| format_percent(row.share(figure))),
        );
        if frames {
            cells.push(row.frames.map_or_else(|| "-".to_owned(), |frames| format!("{frames:.1}")));
        }
        if overlay {
            cells.push(format_published(row, |published| published.handler));
        }
        rows.push(cells);
    }
    rows
}

fn format_published(row: &RateRow, share: fn(&super::published::PublishedRate) -> f64) -> String {
    let found = XEON_E5530.iter().find(|published| published.hz == row.asked_hz as f64);
    found.map_or_else(|| "-".to_owned(), |published| format!("{:.4}", share(published) * 100.0))
}

pub(super) fn loss_table(study: &Study, overlay: bool) -> Vec<Vec<String>> {
    let mut names =
        vec!["asked Hz", "delivered", "counting %", "memory %", "branchy %", "ticks, steal %"];
    if overlay {
        names.push("Xeon's loop %");
    }
    let mut rows = vec![headings(&names)];
    for row in &study.rows {
        let mut cells = format_rate(row).to_vec();
        cells.extend(
            LoadKind::ALL.map(|kind| format_percent(row.loss(kind, EVENTS).map(|loss| loss.lost))),
        );
        cells.push(format_percent(row.cost.background));
        if overlay {
            cells.push(format_published(row, |published| published.counting));
        }
        rows.push(cells);
    }
    rows
}

pub(super) fn profiler_table(study: &Study) -> Vec<Vec<String>> {
    let mut rows = vec![headings(&[
        "asked Hz",
        "profiler",
        "counting %",
        "memory %",
        "branchy %",
        "its own CPU %",
    ])];
    for row in &study.rows {
        for name in study.profilers() {
            let beyond =
                LoadKind::ALL.map(|kind| row.loss(kind, name).and_then(|loss| loss.beyond_events));
            if beyond.iter().all(Option::is_none) {
                continue;
            }
            let own = row.recorders.iter().find(|recorder| recorder.profiler == name);
            let mut cells = vec![row.asked_hz.to_string(), printable(name).into_owned()];
            cells.extend(beyond.map(format_percent));
            cells.push(
                own.map_or_else(|| "-".to_owned(), |own| format!("{:.3}", own.cpu_share * 100.0)),
            );
            rows.push(cells);
        }
    }
    rows
}

pub(super) fn fit_table(study: &Study) -> Vec<Vec<String>> {
    let mut names = vec![
        "figure".to_owned(),
        "us per sample".to_owned(),
        "intercept %".to_owned(),
        format!("at {EXAMPLE_HZ} Hz %"),
    ];
    names.extend(BUDGETS.map(|share| format!("Hz within {}%", share * 100.0)));
    let mut rows = vec![names];
    for FittedFigure { figure, fit } in &study.fits {
        let mut cells = vec![
            figure.name().to_owned(),
            format_us(Some(fit.slope_us)),
            format_percent(Some(fit.intercept)),
            format_percent(Some(fit.predict(EXAMPLE_HZ))),
        ];
        cells.extend(BUDGETS.map(|share| {
            fit.find_budget(share).map_or_else(
                || "-".to_owned(),
                |budget| format!("{:.0} ({:.0})", budget.safe_hz, budget.hz),
            )
        }));
        rows.push(cells);
    }
    rows
}

fn plot_series(study: &Study, overlay: bool) -> Vec<Series> {
    let fitted = || study.rows.iter().filter(|row| !row.is_throttled());
    let mut all: Vec<Series> =
        [(CostFigure::Stolen, 's'), (CostFigure::Counting, 'c'), (CostFigure::Handler, 'h')]
            .into_iter()
            .map(|(figure, letter)| Series {
                letter,
                points: fitted()
                    .filter_map(|row| Some((row.delivered_hz, row.share(figure)?.value)))
                    .collect(),
                line: study
                    .fit(figure)
                    .map(|fitted| (fitted.fit.intercept.value, fitted.fit.slope_us.value * 1e-6)),
            })
            .collect();
    if overlay {
        let highest = fitted().map(|row| row.delivered_hz).fold(0.0, f64::max) * 1.01;
        let within = || XEON_E5530.iter().filter(|published| published.hz <= highest);
        all.push(Series {
            letter: 'x',
            points: within().map(|published| (published.hz, published.handler)).collect(),
            line: None,
        });
        all.push(Series {
            letter: 'o',
            points: within().map(|published| (published.hz, published.counting)).collect(),
            line: None,
        });
    }
    all
}

/// States the recommended rates, and explains marks and columns of the tables.
pub(super) fn conclude(study: &Study) -> Vec<String> {
    let rates = BUDGETS.map(|share| match study.recommended_hz(share) {
        Some(hz) => format!("{:.0} Hz within {}%", hz, share * 100.0),
        None => format!("no rate surely within {}%", share * 100.0),
    });
    let mut lines = Vec::new();
    if !study.fits.is_empty() {
        lines.push(format!("Recommended, at most: {}.", rates.join(", ")));
        lines.push(
            "Hz within: by the upper bound of the prediction (by the line). Recommended: by the stolen time, lower if a loop significantly loses more."
                .to_owned(),
        );
    }
    if study.rows.iter().any(RateRow::is_throttled) {
        lines.push("* throttled: not fitted.".to_owned());
    }
    if let Some(row) =
        study.rows.iter().rev().find(|row| row.cost.handler_us.is_some() && !row.is_throttled())
    {
        let event = format_us(row.cost.handler_tracing_us);
        lines.push(format!("Handler and interrupt: by the kernel's trace events, minus their own cost ({event} us each)."));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_dates() {
        for (seconds, wanted) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (32_503_680_000, "3000-01-01 00:00 UTC"),
        ] {
            assert_eq!(format_date(seconds), wanted);
        }
    }
}
