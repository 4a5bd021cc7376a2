//! Reports of a series for CI: Markdown, JUnit and the annotations of GitHub.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::report::{Comparison, SeriesReport};
use crate::compare::{Judgement, Metric, MetricVerdict, Scale, Verdict};

/// A comparison with what its other side is called.
struct Row<'a> {
    comparison: &'a Comparison,
    against: &'a str,
}

/// All comparisons: with the reference, and with the baseline.
fn rows(report: &SeriesReport) -> impl Iterator<Item = Row<'_>> {
    let reference = report.commands.first().map_or("", |command| command.name.as_str());
    let interleaved =
        report.comparisons.iter().map(move |comparison| Row { comparison, against: reference });
    let earlier =
        report.baseline.iter().map(|comparison| Row { comparison, against: "the baseline" });
    interleaved.chain(earlier)
}

impl Row<'_> {
    fn name<'a>(&self, report: &'a SeriesReport) -> &'a str {
        &report.commands[self.comparison.command].name
    }

    fn time(&self) -> Option<&MetricVerdict> {
        self.comparison.judged.first().filter(|judged| judged.metric == Metric::Time)
    }

    /// The conditions that are met or can't be judged, in sentences.
    fn failures(&self, report: &SeriesReport) -> Vec<String> {
        let name = self.name(report);
        let sentence = |condition: &crate::compare::Condition| match report
            .judgement(condition, self.comparison)
        {
            Judgement::Passes => None,
            Judgement::Fails => Some(format!(
                "{condition}: '{name}' is beyond it against {}, with all of the 95% interval",
                self.against
            )),
            Judgement::Unknown => {
                Some(format!("{condition}: '{name}' has too few counts to judge it"))
            }
        };
        report.conditions.iter().filter_map(sentence).collect()
    }

    /// The ratio of the times and its interval in percent, and the verdict.
    fn sentence(&self) -> String {
        if self.comparison.is_identical {
            return "identical programs".to_owned();
        }
        self.time().map_or_else(|| "not measured".to_owned(), describe)
    }
}

/// `+3.1% [+2.7%, +3.6%], slower`, or a difference in the metric's unit.
fn describe(judged: &MetricVerdict) -> String {
    let shown = |x: f64| match judged.effect.scale {
        Scale::Ratio => format!("{:+.2}%", (x - 1.0) * 100.0),
        Scale::Difference => format!("{x:+} {}", judged.metric.unit()),
    };
    let interval = judged.effect.interval.map_or_else(String::new, |interval| {
        format!(" [{}, {}]", shown(interval.low), shown(interval.high))
    });
    format!("{}{interval}, {}", shown(judged.effect.estimate), judged.verdict.words(&judged.metric))
}

/// Writes failed runs and conditions, a table of the times, and other metrics that changed.
///
/// # Errors
/// Returns errors of `out`.
pub fn markdown(out: &mut dyn Write, report: &SeriesReport) -> io::Result<()> {
    let failed: Vec<String> = rows(report).flat_map(|row| row.failures(report)).collect();
    for sentence in report.failure_sentences().into_iter().chain(failed) {
        writeln!(out, "- ❌ {}", in_markdown(&sentence))?;
    }
    writeln!(out, "\n| command | against | time | finds |\n|:---|:---|:---|---:|")?;
    for row in rows(report) {
        let finds = row.time().and_then(|time| Some((time.effect.scale, time.effect.detectable?)));
        let finds = match finds {
            Some((Scale::Ratio, ratio)) => format!("{:+.2}%", (ratio - 1.0) * 100.0),
            Some((Scale::Difference, seconds)) => format!("{seconds:+} s"),
            None => String::new(),
        };
        writeln!(
            out,
            "| {} | {} | {} | {finds} |",
            in_markdown(row.name(report)),
            in_markdown(row.against),
            row.sentence()
        )?;
    }
    let mut heading = "\nOther metrics that differ:\n\n";
    for row in rows(report) {
        for judged in row.comparison.judged.iter().skip(1) {
            if matches!(judged.verdict, Verdict::Less | Verdict::More) {
                let name = in_markdown(row.name(report));
                writeln!(out, "{heading}- {name}: {} {}", judged.metric.name(), describe(judged))?;
                heading = "";
            }
        }
    }
    writeln!(out)?;
    for sentence in &report.notes.machine {
        writeln!(out, "{sentence}")?;
    }
    Ok(())
}

/// Escapes what would end a cell or start markup.
fn in_markdown(text: &str) -> String {
    let text = tare_format::printable(text).replace('|', "\\|").replace('<', "&lt;");
    format!("`{}`", text.replace('`', "'"))
}

/// Writes JUnit's XML: a test case for each comparison. A failed condition is a failure, failed
/// runs are an error.
///
/// # Errors
/// Returns errors of `out`.
pub fn junit(out: &mut dyn Write, report: &SeriesReport) -> io::Result<()> {
    let cases: Vec<Row<'_>> = rows(report).collect();
    let failures = cases.iter().filter(|row| !row.failures(report).is_empty()).count();
    let errors = report.failure_sentences();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuite name=\"tare bench\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\" time=\"{:.3}\">",
        cases.len() + usize::from(!errors.is_empty()),
        usize::from(!errors.is_empty()),
        report.notes.spent.as_secs_f64()
    )?;
    if !errors.is_empty() {
        let text = in_xml(&errors.join("; "));
        writeln!(
            out,
            "  <testcase classname=\"tare bench\" name=\"runs\"><error message=\"{text}\"/></testcase>"
        )?;
    }
    for row in cases {
        let name = in_xml(&format!("{} against {}", row.name(report), row.against));
        writeln!(out, "  <testcase classname=\"tare bench\" name=\"{name}\">")?;
        for failure in row.failures(report) {
            writeln!(out, "    <failure message=\"{}\"/>", in_xml(&failure))?;
        }
        let mut text = format!("time {}\n", row.sentence());
        for judged in row.comparison.judged.iter().skip(1) {
            let _ = writeln!(text, "{} {}", judged.metric.name(), describe(judged));
        }
        writeln!(out, "    <system-out>{}</system-out>\n  </testcase>", in_xml(&text))?;
    }
    writeln!(out, "</testsuite>")
}

/// Escapes text for an attribute or an element. XML has no control characters.
fn in_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            letter if letter.is_control() || letter == '\u{fffe}' || letter == '\u{ffff}' => {
                escaped.push('\u{fffd}');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Writes the workflow commands of GitHub Actions: an error for each failed condition or failing
/// command, a warning for an undecided time, a notice for each other comparison.
///
/// # Errors
/// Returns errors of `out`.
pub fn github(out: &mut dyn Write, report: &SeriesReport) -> io::Result<()> {
    for sentence in report.failure_sentences() {
        writeln!(out, "::error title=tare bench::{}", in_command(&sentence))?;
    }
    for row in rows(report) {
        let failures = row.failures(report);
        for failure in &failures {
            writeln!(out, "::error title=tare bench::{}", in_command(failure))?;
        }
        let is_open = row.time().is_some_and(|time| time.verdict == Verdict::Undecided);
        let kind = if is_open { "warning" } else { "notice" };
        if failures.is_empty() {
            let text =
                format!("'{}' against {}: {}", row.name(report), row.against, row.sentence());
            writeln!(out, "::{kind} title=tare bench::{}", in_command(&text))?;
        }
    }
    Ok(())
}

/// Escapes the text of a workflow command, as GitHub's documentation asks.
fn in_command(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}
