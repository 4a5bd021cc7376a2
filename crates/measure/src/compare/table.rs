//! A comparison as a table for people.

use std::io::{self, Write};

use tare_format::printable;
use tare_kernel::exit::describe_failure;

use super::pairs::Stop;
use super::report::ComparisonReport;
use super::{Metric, MetricVerdict, Scale, Side, Verdict};

const HEADINGS: [&str; 8] = ["", "A", "B", "B / A", "95% interval", "p", "finds", ""];

/// Writes the two commands, how the comparison ended, the table, and notes.
///
/// # Errors
/// Returns errors of `out`.
pub fn write(
    out: &mut dyn Write,
    comparison: &ComparisonReport<'_>,
    colour: bool,
) -> io::Result<()> {
    writeln!(out, "\n A: {}", command(comparison, Side::A))?;
    writeln!(out, " B: {}", command(comparison, Side::B))?;
    writeln!(out, " {}\n", how_it_ended(comparison))?;
    write_verdicts(out, HEADINGS, &comparison.judged, colour)?;
    writeln!(out)?;
    notes(comparison).iter().try_for_each(|note| writeln!(out, " {note}"))?;
    writeln!(out)
}

/// Writes a line of headings, then a line for each metric. The headings after the first are A, B, B
/// / A, interval, p and finds, in the words of the caller.
///
/// # Errors
/// Returns errors of `out`.
pub fn write_verdicts(
    out: &mut dyn Write,
    headings: [&str; 8],
    judged: &[MetricVerdict],
    colour: bool,
) -> io::Result<()> {
    let rows: Vec<[String; 8]> = judged.iter().map(cells).collect();
    let headings = headings.map(str::to_owned);
    let widths: [usize; 8] = std::array::from_fn(|column| {
        [&headings]
            .into_iter()
            .chain(&rows)
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    writeln!(out, "{}", line(&headings, &widths, None))?;
    for (row, judged) in rows.iter().zip(judged) {
        writeln!(out, "{}", line(row, &widths, colour.then(|| paint(judged.verdict)).flatten()))?;
    }
    Ok(())
}

fn command(comparison: &ComparisonReport<'_>, side: Side) -> String {
    printable(&comparison.words(side).join(" ")).into_owned()
}

fn how_it_ended(comparison: &ComparisonReport<'_>) -> String {
    let made = format!(
        "{} pairs of runs in {:.1} s",
        comparison.pairs.len(),
        comparison.spent.as_secs_f64()
    );
    let percent = |log: f64| format!("±{:.2}%", log.exp_m1() * 100.0);
    let interval = comparison.judged.first().and_then(|time| time.effect.interval);
    let known = interval.map_or_else(
        || "too few to know the time ratio".to_owned(),
        |interval| {
            format!("time ratio known to {}", percent((interval.high / interval.low).ln() / 2.0))
        },
    );
    let wanted = percent(comparison.request.plan.precision);
    match &comparison.stop {
        Stop::Precise => format!("{made}; {known}"),
        Stop::Decided => format!("{made}; {known}, which is enough for this difference"),
        Stop::MaxPairs => format!("{made} (--max-runs); {known}, {wanted} was wanted"),
        Stop::MaxTime => format!("{made} (--max-time); {known}, {wanted} was wanted"),
        Stop::Failed(why) => format!("{made}, then {why}"),
    }
}

fn cells(judged: &MetricVerdict) -> [String; 8] {
    let effect = &judged.effect;
    let ratio = |x: f64| format!("{x:.4}");
    let difference =
        |x: f64| format!("{}{}", if x < 0.0 { "-" } else { "+" }, amount(x.abs(), &judged.metric));
    let shown = |x: f64| if effect.scale == Scale::Ratio { ratio(x) } else { difference(x) };
    [
        printable(judged.metric.name()).into_owned(),
        amount(judged.median_a, &judged.metric),
        amount(judged.median_b, &judged.metric),
        shown(effect.estimate),
        effect.interval.map_or_else(
            || "-".to_owned(),
            |interval| format!("[{}, {}]", shown(interval.low), shown(interval.high)),
        ),
        if judged.p_holm < 0.001 { "<0.001".to_owned() } else { format!("{:.3}", judged.p_holm) },
        effect.detectable.map_or_else(|| "-".to_owned(), shown),
        judged.verdict.words(&judged.metric).to_owned(),
    ]
}

/// A value in a unit that suits its size.
#[must_use]
pub fn amount(value: f64, metric: &Metric) -> String {
    match (metric, value.abs()) {
        (_, size) if metric.unit() == "s" && size < 1e-3 => format!("{:.1} us", value * 1e6),
        (_, size) if metric.unit() == "s" && size < 1.0 => format!("{:.3} ms", value * 1e3),
        _ if metric.unit() == "s" => format!("{value:.4} s"),
        (Metric::PeakMemory, size) if size < 10.0 * 1024.0 * 1024.0 => {
            format!("{:.0} KiB", value / 1024.0)
        }
        (Metric::PeakMemory, _) => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        (Metric::Event { unit, .. }, size) if unit.is_empty() => {
            if size.fract() == 0.0 || size >= 1000.0 {
                format!("{value:.0}")
            } else {
                format!("{value:.1}")
            }
        }
        _ => format!("{value:.3} {}", printable(metric.unit())),
    }
}

/// Formats a line: the first and last columns are aligned to the left, the numbers to the right.
fn line(cells: &[String; 8], widths: &[usize; 8], colour: Option<&str>) -> String {
    let last = widths.len() - 1;
    let mut text = format!(" {:<width$}", cells[0], width = widths[0]);
    for column in 1..last {
        text += &format!("  {:>width$}", cells[column], width = widths[column]);
    }
    match colour {
        Some(colour) => format!("{text}  {colour}{}\x1b[0m", cells[last]),
        None => format!("{text}  {}", cells[last]).trim_end().to_owned(),
    }
}

/// The ANSI sequence of a verdict's colour.
fn paint(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Less => Some("\x1b[32m"),
        Verdict::More => Some("\x1b[31m"),
        Verdict::Undecided => Some("\x1b[33m"),
        Verdict::NoDifference => None,
    }
}

/// Describes the failed runs of a command, which are compared too.
fn failures(comparison: &ComparisonReport<'_>, side: Side) -> Option<String> {
    let mut failed = comparison.failed_runs().filter(|(_, failed_side, _)| *failed_side == side);
    let (number, _, first) = failed.next()?;
    Some(format!(
        "{} of {} runs of {side:?} failed and are compared too: the one of pair {number} {}.",
        1 + failed.count(),
        comparison.pairs.len(),
        describe_failure(first.status, first.signal)?
    ))
}

fn notes(comparison: &ComparisonReport<'_>) -> Vec<String> {
    let min_effect = comparison.request.min_effect * 100.0;
    let mut notes = vec![
        "A, B: medians. B / A: trimmed mean over the pairs; with a sign, B - A: a run had 0."
            .to_owned(),
        format!(
            "p: valid at every look, corrected for {} metrics; a verdict takes 0.01. finds: what these runs find in 4 of 5 comparisons.",
            comparison.judged.len()
        ),
        format!("Differences below {min_effect}% or one count don't matter (--min-effect)."),
    ];
    if let Some(share) = comparison.notes.least_share {
        notes.push(format!(
            "Counts are scaled: an event was on a counter for only {:.0}% of the time.",
            share * 100.0
        ));
    }
    notes.extend([Side::A, Side::B].into_iter().filter_map(|side| failures(comparison, side)));
    for narrowed in &comparison.notes.narrowed {
        notes.push(format!(
            "{}: counted as {}, this user may not count the kernel.",
            printable(&narrowed.requested),
            printable(&narrowed.opened)
        ));
    }
    for same in comparison.notes.missing.chunk_by(|a, b| a.reason == b.reason) {
        let events: Vec<String> =
            same.iter().map(|one| printable(&one.event).into_owned()).collect();
        notes.push(format!("Not counted: {}: {}.", events.join(", "), same[0].reason));
    }
    notes
}
