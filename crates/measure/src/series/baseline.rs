//! A series compared with an earlier one, which a file holds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::report::{Comparison, SeriesReport};
use crate::compare::{Effect, LEVEL, Metric, MetricVerdict, Rules, Scale, Verdict};
use crate::statistics::{Interval, TrimmedMean, holm, median, t_above, t_quantile};

/// Fewest runs on each side for an interval.
const FEWEST: usize = 5;

/// The runs of an earlier series: those that `--export-json` wrote, or hyperfine.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The machine that made them, if the file says.
    pub host: Option<String>,
    /// Values of each metric, by the name of the command.
    commands: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
}

impl Baseline {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Fails with what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let results = document["results"].as_array().ok_or("there is no list 'results'")?;
        let numbers = |value: &Value| -> Vec<f64> {
            value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let mut commands = BTreeMap::new();
        for result in results {
            let name = result["command"].as_str().ok_or("a result has no 'command'")?;
            let mut metrics = BTreeMap::from([("time".to_owned(), numbers(&result["times"]))]);
            for (metric, figures) in result["tare"]["metrics"].as_object().into_iter().flatten() {
                metrics.insert(metric.clone(), numbers(&figures["values"]));
            }
            commands.insert(name.to_owned(), metrics);
        }
        let host = document["tare"]["host"].as_str().map(ToOwned::to_owned);
        Ok(Self { host, commands })
    }

    /// Compares each command of the report that the baseline has, by name.
    #[must_use]
    pub fn compare(&self, report: &SeriesReport) -> Vec<Comparison> {
        let known = |command: &usize| self.commands.contains_key(&report.commands[*command].name);
        let commands: Vec<usize> = (0..report.commands.len()).filter(known).collect();
        let rules = Rules {
            min_effect: report.min_effect,
            seed: report.plan.seed,
            comparisons: commands.len(),
        };
        let compare = |command: usize| {
            let before = &self.commands[&report.commands[command].name];
            let sides: Vec<Sides> = report
                .metrics
                .iter()
                .filter_map(|metric| {
                    let before = before.get(metric.name())?;
                    Sides::new(metric, before, &report.runs[command].values(metric))
                })
                .collect();
            Comparison { command, judged: judge(&sides, &rules), is_identical: false }
        };
        commands.into_iter().map(compare).collect()
    }
}

/// A metric's values on two sides that were not interleaved.
struct Sides {
    metric: Metric,
    scale: Scale,
    medians: [f64; 2],
    /// The trimmed means; of logarithms for a ratio.
    means: [TrimmedMean; 2],
    enough: bool,
}

impl Sides {
    fn new(metric: &Metric, before: &[f64], after: &[f64]) -> Option<Self> {
        let positive = before.iter().chain(after).all(|x| *x > 0.0);
        let scale = if positive { Scale::Ratio } else { Scale::Difference };
        let mean = |values: &[f64]| {
            let mut sorted: Vec<f64> =
                values.iter().map(|x| if positive { x.ln() } else { *x }).collect();
            sorted.sort_by(f64::total_cmp);
            TrimmedMean::from_sorted(&sorted)
        };
        Some(Self {
            metric: metric.clone(),
            scale,
            medians: [median(before)?, median(after)?],
            means: [mean(before)?, mean(after)?],
            enough: before.len().min(after.len()) >= FEWEST,
        })
    }

    fn difference(&self) -> f64 {
        self.means[1].mean - self.means[0].mean
    }

    /// The standard error of the difference, and its degrees of freedom (Yuen 1974, with those of
    /// the smaller side).
    fn error(&self) -> (f64, f64) {
        let [a, b] = self.means;
        (a.error.hypot(b.error), a.freedom.min(b.freedom).max(1) as f64)
    }

    fn p(&self) -> f64 {
        let (error, freedom) = self.error();
        match (self.difference(), error) {
            _ if !self.enough => 1.0,
            (0.0, _) => 1.0,
            (_, 0.0) => 0.0,
            (difference, error) => (2.0 * t_above(difference.abs() / error, freedom)).min(1.0),
        }
    }

    fn judge(&self, p: f64, p_holm: f64, level: f64, min_effect: f64) -> MetricVerdict {
        let [before, after] = self.medians;
        let relevant = match self.scale {
            Scale::Ratio => min_effect.max(self.metric.step() / before).ln_1p(),
            Scale::Difference => (min_effect * before.abs()).max(self.metric.step()),
        };
        let (error, freedom) = self.error();
        let centre = self.difference();
        let half = t_quantile(0.975, freedom) * error;
        let verdict = if p_holm < LEVEL && centre.abs() >= relevant {
            if centre < 0.0 { Verdict::Less } else { Verdict::More }
        } else if self.enough && half <= relevant && centre.abs() < relevant {
            Verdict::NoDifference
        } else {
            Verdict::Undecided
        };
        let shown = |x: f64| if self.scale == Scale::Ratio { x.exp() } else { x };
        let rejected = t_quantile(1.0 - level / 2.0, freedom) * error;
        let found = rejected.max(relevant) + t_quantile(0.8, freedom) * error;
        MetricVerdict {
            metric: self.metric.clone(),
            pairs: 0,
            median_a: before,
            median_b: after,
            effect: Effect {
                scale: self.scale,
                estimate: shown(centre),
                interval: self
                    .enough
                    .then(|| Interval { low: shown(centre - half), high: shown(centre + half) }),
                detectable: self.enough.then(|| shown(found)),
            },
            p,
            p_holm,
            verdict,
        }
    }
}

fn judge(sides: &[Sides], rules: &Rules) -> Vec<MetricVerdict> {
    let compared = rules.comparisons.max(1) as f64;
    let level = LEVEL / (compared * sides.len().max(1) as f64);
    let p: Vec<f64> = sides.iter().map(Sides::p).collect();
    let corrected = holm(&p).into_iter().map(|p| (p * compared).min(1.0));
    sides
        .iter()
        .zip(p.iter().zip(corrected))
        .map(|(side, (&p, p_holm))| side.judge(p, p_holm, level, rules.min_effect))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(before: &[f64], after: &[f64]) -> MetricVerdict {
        let rules = Rules { min_effect: 0.01, seed: 1, comparisons: 1 };
        judge(&[Sides::new(&Metric::Time, before, after).unwrap()], &rules).remove(0)
    }

    fn times(mean: f64, spread: f64) -> Vec<f64> {
        (0..30).map(|i| mean * (1.0 + spread * (f64::from(i * 7 % 30) / 30.0 - 0.5))).collect()
    }

    #[test]
    fn slower_equal_and_unclear_runs_are_told_apart() {
        let slower = verdict(&times(1.0, 0.02), &times(1.05, 0.02));
        assert_eq!(slower.verdict, Verdict::More);
        assert!((slower.effect.estimate - 1.05).abs() < 0.001, "{slower:?}");
        assert_eq!(verdict(&times(1.0, 0.02), &times(1.0, 0.02)).verdict, Verdict::NoDifference);
        assert_eq!(verdict(&times(1.0, 1.0), &times(1.03, 1.0)).verdict, Verdict::Undecided);
        let few = verdict(&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]);
        assert_eq!((few.verdict, few.effect.interval), (Verdict::Undecided, None));
    }

    #[test]
    fn files_of_hyperfine_have_times_only_and_other_files_are_refused() {
        let text = r#"{"results": [{"command": "a b", "times": [0.1, 0.2]}]}"#;
        let baseline = Baseline::parse(text).unwrap();
        assert_eq!(baseline.host, None);
        assert_eq!(baseline.commands["a b"]["time"], [0.1, 0.2]);
        assert!(Baseline::parse("[]").unwrap_err().contains("results"));
        assert!(Baseline::parse("{").is_err());
        assert!(Baseline::parse(r#"{"results": [{}]}"#).unwrap_err().contains("command"));
    }
}
