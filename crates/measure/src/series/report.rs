//! The results of a series.

use std::time::Duration;

use super::runs::CommandRuns;
use super::schedule::{SeriesPlan, SeriesStop};
use crate::compare::{
    Condition, Judgement, Metric, MetricVerdict, PairedValues, Rules, judge_values,
};
use crate::statistics::{Summary, median, quantile};

/// A run this many interquartile ranges from the quartiles is an outlier. Normal times have one in
/// 400,000 runs.
const OUTLYING: f64 = 3.0;

/// Ashman's D of two groups of runs that are reported as two modes. Halves of a normal distribution
/// reach 2.7, those of a uniform one 3.5.
const SEPARATION: f64 = 6.0;

/// Smallest share of the runs in the smaller mode.
const SMALLER_MODE: f64 = 0.1;

/// A command of the series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandInfo {
    /// Its name in results.
    pub name: String,
    /// The line that is executed, with its parameters filled in.
    pub line: String,
    /// Its parameters, by name.
    pub parameters: Vec<(String, String)>,
    /// Whether a shell runs it.
    pub in_shell: bool,
}

/// The start-up time of the shell that runs commands, in seconds: medians of runs of an empty command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShellTime {
    /// Elapsed time.
    pub elapsed: f64,
    /// User time.
    pub user: f64,
    /// System time.
    pub system: f64,
}

/// A failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the command.
    pub command: usize,
    /// Number of the run, from 1.
    pub run: usize,
    /// Exit status, or 128 + the signal.
    pub status: u8,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// A command compared with the reference, the first command.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Index of the command.
    pub command: usize,
    /// The verdict on each metric.
    pub judged: Vec<MetricVerdict>,
    /// Whether the program files of both commands have the same bytes.
    pub is_identical: bool,
}

/// The spread of a metric over all runs of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean, deviation and interval.
    pub summary: Summary,
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// Computes the spread; `None` without values.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        Some(Self {
            summary: Summary::from_amounts(values)?,
            median: median(values)?,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// What stands out in the times of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeShape {
    /// Number of runs far from the others.
    pub outliers: usize,
    /// Whether the first run is one of them, and slow: caches were cold.
    pub is_first_slow: bool,
    /// The medians of two separate groups of runs, and the share of the runs in the slower one.
    pub modes: Option<[f64; 3]>,
}

impl TimeShape {
    /// Looks at the times of a command in the order of its runs.
    #[must_use]
    pub fn from_times(times: &[f64]) -> Self {
        let Some(low) = quantile(times, 0.25) else { return Self::default() };
        let Some(high) = quantile(times, 0.75) else { return Self::default() };
        let far = OUTLYING * (high - low);
        // Fewer runs have no meaningful quartiles; equal times have no spread.
        let is_outlier = |time: &&f64| {
            times.len() >= 8 && far > 0.0 && (**time > high + far || **time < low - far)
        };
        Self {
            outliers: times.iter().filter(is_outlier).count(),
            is_first_slow: times.first().is_some_and(|first| is_outlier(&first) && *first > high),
            modes: modes(times),
        }
    }
}

/// Splits times where the two parts differ most from each other relative to their own spread.
fn modes(times: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n < 20 {
        return None;
    }
    let gap = |at: usize| sorted[at] - sorted[at - 1];
    // At most n.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let least = ((n as f64 * SMALLER_MODE).ceil() as usize).max(3);
    let at = (least..=n - least).max_by(|a, b| gap(*a).total_cmp(&gap(*b)))?;
    let parts = [&sorted[..at], &sorted[at..]];
    let low = Summary::from_values(parts[0])?;
    let high = Summary::from_values(parts[1])?;
    let spread = low.deviation?.powi(2) + high.deviation?.powi(2);
    let is_apart = (high.mean - low.mean) * 2f64.sqrt() > SEPARATION * spread.sqrt();
    // Equal values in both parts are steps of a coarse clock, or nothing.
    let matters = high.mean > 1.02 * low.mean;
    let slower = (n - at) as f64 / n as f64;
    (is_apart && matters).then_some([median(parts[0])?, median(parts[1])?, slower])
}

/// The results of a series.
#[derive(Debug)]
pub struct SeriesReport {
    /// The commands; the first is the reference.
    pub commands: Vec<CommandInfo>,
    /// The runs of each command.
    pub runs: Vec<CommandRuns>,
    /// The metrics.
    pub metrics: Vec<Metric>,
    /// Each other command, compared with the reference.
    pub comparisons: Vec<Comparison>,
    /// Commands compared with an earlier series.
    pub baseline: Vec<Comparison>,
    /// How the runs were made.
    pub plan: SeriesPlan,
    /// Smallest relevant difference, as a share.
    pub min_effect: f64,
    /// Conditions under which the series fails.
    pub conditions: Vec<Condition>,
    /// How the series ended, and what it says besides its figures.
    pub notes: SeriesNotes,
}

/// How a series ended, and facts about it.
#[derive(Debug)]
pub struct SeriesNotes {
    /// Why no more runs were made.
    pub stop: SeriesStop<String>,
    /// Whether each command ran in one piece.
    pub is_sequential: bool,
    /// The time that all runs took, with the work between them.
    pub spent: Duration,
    /// The shell's start-up time, which is subtracted; `None` if no shell ran.
    pub shell: Option<ShellTime>,
    /// What the machine did meanwhile, in sentences.
    pub machine: Vec<String>,
}

impl SeriesReport {
    /// Compares each command with the first one.
    pub fn judge(&mut self) {
        let others = 1..self.commands.len();
        let rules =
            Rules { min_effect: self.min_effect, seed: self.plan.seed, comparisons: others.len() };
        let compare = |command: usize| Comparison {
            command,
            judged: judge_values(
                self.metrics.iter().map(|metric| self.paired(command, metric)),
                &rules,
            ),
            is_identical: false,
        };
        self.comparisons = others.map(compare).collect();
    }

    /// A metric's values of the reference and of a command, in the rounds that have both.
    fn paired(&self, command: usize, metric: &Metric) -> PairedValues {
        let mut others = self.runs[command].by_round(metric).into_iter().peekable();
        let mut values = PairedValues { metric: metric.clone(), a: Vec::new(), b: Vec::new() };
        for (round, value) in self.runs[0].by_round(metric) {
            while others.next_if(|other| other.0 < round).is_some() {}
            if let Some(other) = others.next_if(|other| other.0 == round) {
                values.a.push(value);
                values.b.push(other.1);
            }
        }
        values
    }

    /// The judgement of a condition on a comparison. The same programs pass.
    #[must_use]
    pub fn judgement(&self, condition: &Condition, comparison: &Comparison) -> Judgement {
        if comparison.is_identical {
            return Judgement::Passes;
        }
        condition.judge(&comparison.judged)
    }

    /// The failed runs, by command.
    pub fn failures(&self) -> impl Iterator<Item = Failure> {
        self.runs.iter().enumerate().flat_map(|(command, runs)| {
            let ending = move |(run, (status, signal)): (usize, (Option<u8>, Option<i32>))| {
                let number = signal.and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0);
                let status = status.unwrap_or(128 + number);
                (status != 0).then_some(Failure { command, run: run + 1, status, signal })
            };
            (0..).zip(runs.endings()).filter_map(ending)
        })
    }

    /// The failed runs in sentences, one for each command that has some.
    #[must_use]
    pub fn failure_sentences(&self) -> Vec<String> {
        let failures: Vec<Failure> = self.failures().collect();
        let sentence = |same: &[Failure]| {
            let first = same[0];
            let how = tare_kernel::exit::describe_failure(first.status, first.signal);
            format!(
                "{} of {} runs of '{}' failed: run {} {}",
                same.len(),
                self.runs[first.command].len(),
                self.commands[first.command].name,
                first.run,
                how.unwrap_or_default(),
            )
        };
        failures.chunk_by(|a, b| a.command == b.command).map(sentence).collect()
    }

    /// The spread of a command's metric.
    #[must_use]
    pub fn spread(&self, command: usize, metric: &Metric) -> Option<Spread> {
        Spread::from_values(&self.runs[command].values(metric))
    }

    /// The commands that have runs, by mean time.
    #[must_use]
    pub fn by_mean_time(&self) -> Vec<usize> {
        let mean = |command: usize| {
            self.spread(command, &Metric::Time).map_or(f64::INFINITY, |spread| spread.summary.mean)
        };
        let mut order: Vec<usize> =
            (0..self.commands.len()).filter(|command| !self.runs[*command].is_empty()).collect();
        order.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_and_a_slow_first_run_are_counted() {
        let mut times: Vec<f64> = (0..30).map(|i| 1.0 + f64::from(i % 5) / 100.0).collect();
        assert_eq!(TimeShape::from_times(&times), TimeShape::default());
        times[0] = 3.0;
        times[9] = 2.0;
        let shape = TimeShape::from_times(&times);
        assert_eq!((shape.outliers, shape.is_first_slow), (2, true));
    }

    #[test]
    fn two_modes_are_named_and_one_wide_mode_is_not() {
        let two: Vec<f64> =
            (0..60).map(|i| f64::from(1 + i % 3 / 2) + f64::from(i * 7 % 11) / 200.0).collect();
        let [low, high, share] = TimeShape::from_times(&two).modes.unwrap();
        assert!((1.0..1.1).contains(&low) && (2.0..2.1).contains(&high), "{low} {high}");
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let wide: Vec<f64> = (0..60).map(|_| 1.0 + rng.f64()).collect();
            assert_eq!(TimeShape::from_times(&wide).modes, None);
        }
    }
}
