//! The cost of profilers for a program: the result of `tare overhead --with` as text, JSON and CSV.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use tare_format::printable;
use tare_kernel::exit::describe_failure;

use super::rounds::{ProfiledRound, Stop};
use crate::compare::{Measurement, Metric, MetricVerdict, Pair, Rules, Scale, Verdict, judge};

/// Version of the document. It rises if a field changes its meaning or is removed.
const VERSION: u32 = 1;

/// The measurements of a program, bare and under profilers.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledProgram {
    /// The bare command.
    pub command: String,
    /// The cost of each profiler.
    pub profilers: Vec<ProfilerCost>,
    /// The rounds.
    pub rounds: Vec<ProfiledRound>,
    /// The reason why no more rounds were made, as named by [`stop_name`].
    pub stop: &'static str,
    /// Seconds that all rounds took.
    pub seconds: f64,
    /// Seed of the order within rounds.
    pub seed: u64,
    /// The minimum relevant effect, a share.
    pub min_effect: f64,
}

/// The cost of one profiler for the program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilerCost {
    /// Its command.
    pub profiler: String,
    /// Verdicts on the program's metrics with the profiler against those without.
    pub judged: Vec<MetricVerdict>,
}

impl ProfilerCost {
    /// Judges the profiler at this index (from 0) by all rounds.
    #[must_use]
    pub fn judge(profiler: String, index: usize, rounds: &[ProfiledRound], rules: &Rules) -> Self {
        let pairs: Vec<Pair> = rounds.iter().filter_map(|round| round.pair(index)).collect();
        Self { profiler, judged: judge(&pairs, &metrics(), rules) }
    }
}

/// Returns the name of a reason to stop in machine-readable formats.
#[must_use]
pub fn stop_name<E>(stop: &Stop<E>) -> &'static str {
    match stop {
        Stop::Precise => "precise",
        Stop::MaxRounds => "max-runs",
        Stop::MaxTime => "max-time",
        Stop::Failed(_) => "failed",
    }
}

/// Lists the compared metrics. Each includes the profiler, the command, and the processes that they
/// waited for.
fn metrics() -> [Metric; 4] {
    let event = |index, name: &str| Metric::Event {
        index,
        name: name.to_owned(),
        unit: String::new(),
        step: 1.0,
    };
    [Metric::Time, Metric::CpuTime, event(0, "page-faults"), event(1, "context-switches")]
}

/// What a profiler adds to a metric.
#[derive(Serialize)]
struct AddedCost {
    metric: String,
    unit: String,
    rounds: usize,
    bare: f64,
    profiled: f64,
    added: f64,
    added_low: Option<f64>,
    added_high: Option<f64>,
    /// The added amount as a share of the bare command's; `None` if a run's value isn't positive.
    share: Option<f64>,
    share_low: Option<f64>,
    share_high: Option<f64>,
    p_holm: f64,
    verdict: &'static str,
}

impl AddedCost {
    fn from_verdict(judged: &MetricVerdict) -> Self {
        let effect = &judged.effect;
        let bare = judged.median_a;
        let is_ratio = effect.scale == Scale::Ratio;
        let added = |x: f64| if is_ratio { (x - 1.0) * bare } else { x };
        let share = |x: f64| is_ratio.then_some(x - 1.0);
        Self {
            metric: judged.metric.name().to_owned(),
            unit: judged.metric.unit().to_owned(),
            rounds: judged.pairs,
            bare,
            profiled: judged.median_b,
            added: added(effect.estimate),
            added_low: effect.interval.map(|interval| added(interval.low)),
            added_high: effect.interval.map(|interval| added(interval.high)),
            share: share(effect.estimate),
            share_low: effect.interval.and_then(|interval| share(interval.low)),
            share_high: effect.interval.and_then(|interval| share(interval.high)),
            p_holm: judged.p_holm,
            verdict: judged.verdict.words(&judged.metric),
        }
    }
}

impl ProfiledProgram {
    /// Writes a versioned JSON document, with every round.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let run = |run: &Measurement| json!({ "time": run.elapsed.as_secs_f64(), "cpu-time": run.cpu.as_secs_f64(), "page-faults": run.counts[0], "context-switches": run.counts[1], "status": run.status });
        let cost = |cost: &ProfilerCost| json!({ "profiler": cost.profiler, "metrics": cost.judged.iter().map(AddedCost::from_verdict).collect::<Vec<_>>() });
        let document = json!({
            "version": VERSION,
            "tool": "tare overhead --with",
            "command": self.command,
            "stop": self.stop,
            "seconds": self.seconds,
            "seed": self.seed,
            "min_effect": self.min_effect,
            "profilers": self.profilers.iter().map(cost).collect::<Vec<_>>(),
            "rounds": self.rounds.iter().map(|round| json!({ "order": round.order, "runs": round.runs.iter().map(run).collect::<Vec<_>>() })).collect::<Vec<_>>(),
        });
        tare_format::json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }

    /// Writes a CSV line for each profiler and metric.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "profiler,metric,unit,rounds,bare,profiled,added,added_low,added_high,share,share_low,share_high,p_holm,verdict"
        )?;
        let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
        for ProfilerCost { profiler, judged } in &self.profilers {
            let profiler = printable(profiler).replace([',', '"'], " ");
            for added in judged.iter().map(AddedCost::from_verdict) {
                let numbers = [
                    added.added_low,
                    added.added_high,
                    added.share,
                    added.share_low,
                    added.share_high,
                ]
                .map(number)
                .join(",");
                let AddedCost {
                    metric, unit, rounds, bare, profiled, added, p_holm, verdict, ..
                } = added;
                writeln!(
                    out,
                    "{profiler},{metric},{unit},{rounds},{bare},{profiled},{added},{numbers},{p_holm},{verdict}"
                )?;
            }
        }
        Ok(())
    }

    /// Writes a table for each profiler.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let shown = |text: &str| printable(text).into_owned();
        writeln!(out, "\n What profilers add to '{}'", shown(&self.command))?;
        writeln!(
            out,
            " {} rounds of {} runs in {:.1} s\n",
            self.rounds.len(),
            self.profilers.len() + 1,
            self.seconds
        )?;
        for ProfilerCost { profiler, judged } in &self.profilers {
            writeln!(out, " {}", shown(profiler))?;
            writeln!(
                out,
                "   {:<17}{:>12}{:>12}{:>12}  {:<24}{:>9}  verdict",
                "", "bare", "profiled", "added", "95% interval", "share"
            )?;
            for judged in judged {
                let added = AddedCost::from_verdict(judged);
                let amount = |x: f64| format_amount(x, &judged.metric);
                let interval = match (added.added_low, added.added_high) {
                    (Some(low), Some(high)) => format!("[{}, {}]", amount(low), amount(high)),
                    _ => "-".to_owned(),
                };
                let share = added
                    .share
                    .map_or_else(|| "-".to_owned(), |share| format!("{:+.2}%", share * 100.0));
                let bare = amount(added.bare);
                let profiled = amount(added.profiled);
                let more = amount(added.added);
                writeln!(
                    out,
                    "   {:<17}{bare:>12}{profiled:>12}{more:>12}  {interval:<24}{share:>9}  {}",
                    added.metric,
                    word_verdict(judged)
                )?;
            }
            writeln!(out)?;
        }
        writeln!(
            out,
            " bare, profiled: medians. added: trimmed mean over the rounds, including the profiler's start and exit."
        )?;
        writeln!(
            out,
            " Differences below {}% or one count are not relevant (--min-effect).",
            self.min_effect * 100.0
        )?;
        if let Some(failures) = self.describe_failures() {
            writeln!(out, " {failures}")?;
        }
        writeln!(out)
    }

    /// Describes the failed runs, which are compared too (`--ignore-failure`).
    fn describe_failures(&self) -> Option<String> {
        let runs = self.rounds.iter().flat_map(|round| &round.runs);
        let mut failed = runs.clone().filter(|run| run.status != 0);
        let first = failed.next()?;
        Some(format!(
            "{} of {} runs failed and are compared too: the first {}.",
            1 + failed.count(),
            runs.count(),
            describe_failure(first.status, first.signal)?
        ))
    }
}

/// Returns the verdict in words.
fn word_verdict(judged: &MetricVerdict) -> &'static str {
    match judged.verdict {
        Verdict::More => "costs",
        Verdict::Less => "less than bare: check that both run the same",
        Verdict::NoDifference => "no cost seen",
        Verdict::Undecided => "undecided: needs more runs or a quieter machine",
    }
}

fn format_amount(value: f64, metric: &Metric) -> String {
    match (metric, value.abs()) {
        (Metric::Time | Metric::CpuTime, size) if size < 1.0 => format!("{:.2} ms", value * 1e3),
        (Metric::Time | Metric::CpuTime, _) => format!("{value:.3} s"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ratios_become_added_amounts_and_shares() {
        let run = |seconds: f64, faults: f64| Measurement {
            elapsed: Duration::from_secs_f64(seconds),
            counts: vec![Some(faults), Some(0.0)],
            ..Measurement::default()
        };
        let pairs: Vec<Pair> = (0..12)
            .map(|_| Pair {
                first: crate::compare::Side::A,
                a: run(2.0, 100.0),
                b: run(2.2, 150.0),
            })
            .collect();
        let judged =
            judge(&pairs, &metrics(), &Rules { min_effect: 0.01, seed: 1, comparisons: 1 });
        let added: Vec<AddedCost> = judged.iter().map(AddedCost::from_verdict).collect();
        assert!(
            (added[0].added - 0.2).abs() < 1e-9 && (added[0].share.unwrap() - 0.1).abs() < 1e-9
        );
        assert_eq!(added[2].added.round(), 50.0);
        assert_eq!((word_verdict(&judged[0]), word_verdict(&judged[3])), ("costs", "no cost seen"));
    }

    #[test]
    fn text_counts_the_failed_runs() {
        let run = |status| Measurement {
            counts: vec![Some(1.0), Some(0.0)],
            status,
            ..Measurement::default()
        };
        let round = ProfiledRound { order: vec![0, 1], runs: vec![run(0), run(7)] };
        let program = ProfiledProgram {
            command: "true".to_owned(),
            profilers: Vec::new(),
            rounds: vec![round; 3],
            stop: "max-runs",
            seconds: 1.0,
            seed: 1,
            min_effect: 0.01,
        };
        let mut text = Vec::new();
        program.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let note = "\n 3 of 6 runs failed and are compared too: the first exited with status 7.\n";
        assert!(text.contains(note), "{text}");
    }
}
