//! A series for people.

use std::io::{self, Write};

use tare_format::printable;

use super::report::{Comparison, SeriesReport, TimeShape};
use super::schedule::SeriesStop;
use crate::compare::table::{amount, write_verdicts};
use crate::compare::{Metric, Scale, Verdict};

/// Unit of times, if `--time-unit` sets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Microseconds.
    Microsecond,
    /// Milliseconds.
    Millisecond,
    /// Seconds.
    Second,
}

impl TimeUnit {
    /// The unit that suits a time in seconds.
    #[must_use]
    pub fn suiting(seconds: f64) -> Self {
        match seconds {
            small if small < 1e-3 => Self::Microsecond,
            medium if medium < 1.0 => Self::Millisecond,
            _ => Self::Second,
        }
    }

    /// Its symbol.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Microsecond => "µs",
            Self::Millisecond => "ms",
            Self::Second => "s",
        }
    }

    /// A time in this unit, without the symbol.
    #[must_use]
    pub fn number(self, seconds: f64) -> String {
        match self {
            Self::Microsecond => format!("{:.1}", seconds * 1e6),
            Self::Millisecond => format!("{:.1}", seconds * 1e3),
            Self::Second => format!("{seconds:.3}"),
        }
    }
}

/// What the text shows.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Whether verdicts have colours.
    pub colour: bool,
    /// Unit of the times, if set.
    pub unit: Option<TimeUnit>,
    /// Whether the summary is in the order of the commands, rather than by time.
    pub in_command_order: bool,
    /// Whether each command has a plot of its times.
    pub plot: bool,
}

/// Writes failed runs, then a table for each command or comparison, then a summary and notes.
///
/// # Errors
/// Returns errors of `out`.
pub fn write(out: &mut dyn Write, report: &SeriesReport, options: TextOptions) -> io::Result<()> {
    writeln!(out)?;
    for sentence in report.failure_sentences() {
        writeln!(out, " {}.", printable(&sentence))?;
    }
    for command in 0..report.commands.len() {
        write_command(out, report, command, options)?;
    }
    if report.commands.len() == 1 && !report.runs[0].is_empty() {
        writeln!(out)?;
        write_metrics(out, report, options)?;
    }
    for comparison in &report.comparisons {
        write_comparison(out, report, comparison, Some(0), options)?;
    }
    for comparison in &report.baseline {
        write_comparison(out, report, comparison, None, options)?;
    }
    if report.commands.len() > 2 {
        write_summary(out, report, options)?;
    }
    writeln!(out)?;
    notes(report).iter().try_for_each(|note| writeln!(out, " {}", printable(note)))?;
    writeln!(out)
}

/// A time in the unit that is set, or that suits it.
fn time(seconds: f64, options: TextOptions) -> String {
    let unit = options.unit.unwrap_or_else(|| TimeUnit::suiting(seconds));
    format!("{} {}", unit.number(seconds), unit.symbol())
}

fn write_command(
    out: &mut dyn Write,
    report: &SeriesReport,
    command: usize,
    options: TextOptions,
) -> io::Result<()> {
    writeln!(out, " {}: {}", command + 1, printable(&report.commands[command].name))?;
    let Some(spread) = report.spread(command, &Metric::Time) else {
        return writeln!(out, "    no runs");
    };
    let interval = spread.summary.interval.map_or_else(String::new, |interval| {
        format!("  [{}, {}]", time(interval.low, options), time(interval.high, options))
    });
    let deviation = spread
        .summary
        .deviation
        .map_or_else(String::new, |deviation| format!("  σ {}", time(deviation, options)));
    writeln!(
        out,
        "    {}{interval}{deviation}  min {}  max {}  {} run{}",
        time(spread.summary.mean, options),
        time(spread.min, options),
        time(spread.max, options),
        spread.summary.runs,
        if spread.summary.runs == 1 { "" } else { "s" },
    )?;
    let times = report.runs[command].values(&Metric::Time);
    if options.plot {
        for line in plot(&times, options) {
            writeln!(out, "    {line}")?;
        }
    }
    for sentence in shape_sentences(&TimeShape::from_times(&times), options) {
        writeln!(out, "    {sentence}")?;
    }
    Ok(())
}

/// A histogram of times, a line for each bin.
fn plot(times: &[f64], options: TextOptions) -> Vec<String> {
    const BINS: usize = 10;
    const WIDTH: f64 = 40.0;
    let low = times.iter().copied().fold(f64::INFINITY, f64::min);
    let high = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if times.len() < 2 || high <= low {
        return Vec::new();
    }
    let mut bins = [0u32; BINS];
    for value in times {
        // From 0 to BINS.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bin = ((value - low) / (high - low) * BINS as f64) as usize;
        bins[bin.min(BINS - 1)] += 1;
    }
    let most = f64::from(bins.iter().copied().max().unwrap_or(1));
    let line = |(bin, runs): (usize, &u32)| {
        // At most WIDTH.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let length = (f64::from(*runs) / most * WIDTH).ceil() as usize;
        let start = low + (high - low) * bin as f64 / BINS as f64;
        format!("{:>10} {} {runs}", time(start, options), "█".repeat(length))
    };
    bins.iter().enumerate().map(line).collect()
}

/// Describes what stands out in the times of a command.
pub(super) fn shape_sentences(shape: &TimeShape, options: TextOptions) -> Vec<String> {
    let mut sentences = Vec::new();
    if shape.is_first_slow {
        sentences.push("The first run was slow: caches were cold; see --warmup.".to_owned());
    }
    let others = shape.outliers - usize::from(shape.is_first_slow);
    if others > 0 {
        let verb = if others == 1 { "run is an outlier" } else { "runs are outliers" };
        sentences.push(format!("{others} {verb}: something else may have used the machine."));
    }
    if let Some([low, high, share]) = shape.modes {
        sentences.push(format!(
            "The times have two modes: {:.0}% of the runs take about {}, the others {}.",
            share * 100.0,
            time(high, options),
            time(low, options),
        ));
    }
    sentences
}

/// Writes every metric of a single command.
fn write_metrics(
    out: &mut dyn Write,
    report: &SeriesReport,
    options: TextOptions,
) -> io::Result<()> {
    let shown = |value: f64, metric: &Metric| match metric.unit() {
        "s" => time(value, options),
        _ => amount(value, metric),
    };
    writeln!(out, "    {:<18}{:>12}  95% interval", "", "mean")?;
    for metric in &report.metrics {
        let Some(spread) = report.spread(0, metric) else { continue };
        let interval = spread.summary.interval.map_or_else(String::new, |interval| {
            format!("[{}, {}]", shown(interval.low, metric), shown(interval.high, metric))
        });
        let mean = shown(spread.summary.mean, metric);
        writeln!(out, "    {:<18}{mean:>12}  {interval}", printable(metric.name()))?;
    }
    Ok(())
}

fn write_comparison(
    out: &mut dyn Write,
    report: &SeriesReport,
    comparison: &Comparison,
    reference: Option<usize>,
    options: TextOptions,
) -> io::Result<()> {
    let number = (comparison.command + 1).to_string();
    let other = match reference {
        Some(reference) => (reference + 1).to_string(),
        None => "before".to_owned(),
    };
    let ratio = format!("{number} / {other}");
    let against = match reference {
        Some(reference) => format!("{other}: {}", report.commands[reference].name),
        None => "the baseline".to_owned(),
    };
    writeln!(
        out,
        "\n {number}: {}\n compared with {}",
        printable(&report.commands[comparison.command].name),
        printable(&against)
    )?;
    if comparison.is_identical {
        return writeln!(
            out,
            " Both builds have the same programs, byte by byte: nothing is measured."
        );
    }
    let headings =
        ["", other.as_str(), number.as_str(), ratio.as_str(), "95% interval", "p", "finds", ""];
    write_verdicts(out, headings, &comparison.judged, options.colour)
}

/// Writes one line for each command: its time relative to the reference.
fn write_summary(
    out: &mut dyn Write,
    report: &SeriesReport,
    options: TextOptions,
) -> io::Result<()> {
    writeln!(out, "\n Times relative to 1: {}", printable(&report.commands[0].name))?;
    let order = if options.in_command_order {
        (0..report.commands.len()).collect()
    } else {
        report.by_mean_time()
    };
    for command in order {
        let judged = report
            .comparisons
            .iter()
            .find(|comparison| comparison.command == command)
            .and_then(|comparison| comparison.judged.first());
        let text = match judged {
            Some(judged) => {
                let estimate = judged.effect.estimate;
                let shown = match judged.effect.scale {
                    Scale::Ratio => format!("{estimate:.4}"),
                    Scale::Difference if estimate < 0.0 => format!("-{}", time(-estimate, options)),
                    Scale::Difference => format!("+{}", time(estimate, options)),
                };
                format!("{shown:>12}  {}", judged.verdict.words(&judged.metric))
            }
            None => format!("{:>12}  reference", "1"),
        };
        writeln!(out, "{text:<34} {}: {}", command + 1, printable(&report.commands[command].name))?;
    }
    Ok(())
}

fn notes(report: &SeriesReport) -> Vec<String> {
    let mut notes = vec![how_it_ended(report)];
    if let Some(shell) = report.notes.shell {
        notes.push(format!(
            "The shell's start-up, {:.2} ms, is subtracted from the times of commands that it ran.",
            shell.elapsed * 1e3
        ));
    }
    if !report.comparisons.is_empty() {
        notes.push(format!(
            "A verdict on a difference is false in at most 1% of series of {} comparisons. Differences below {}% don't matter (--min-effect).",
            report.comparisons.len(),
            report.min_effect * 100.0
        ));
        let is_open = |comparison: &Comparison| {
            comparison.judged.first().is_some_and(|time| time.verdict == Verdict::Undecided)
        };
        if report.comparisons.iter().any(is_open) {
            notes.push("More runs may decide what is undecided: --max-time.".to_owned());
        }
    }
    if report.notes.is_sequential {
        notes.push(
            "Setup takes long, so each command ran in one piece: drift of the machine's speed is not controlled.".to_owned(),
        );
    }
    if !report.baseline.is_empty() {
        notes.push(
            "Runs of a baseline are not interleaved with these: drift of the machine's speed between both is not controlled.".to_owned(),
        );
    }
    notes.extend(report.notes.machine.iter().cloned());
    notes
}

fn how_it_ended(report: &SeriesReport) -> String {
    let seconds = report.notes.spent.as_secs_f64();
    let runs: usize = report.runs.iter().map(super::CommandRuns::len).sum();
    let made = format!("{runs} runs in {seconds:.1} s");
    match &report.notes.stop {
        SeriesStop::Settled | SeriesStop::MaxRuns => format!("{made}."),
        SeriesStop::MaxTime => format!("{made} (--max-time)."),
        SeriesStop::Failed(why) => format!("{made}, then {why}."),
    }
}
