//! Judges pairs of runs: a verdict for every metric that was measured.

use fastrand::Rng;

use super::metric::{Metric, Pair};
use crate::statistics::{
    Interval, SequentialTest, TrimmedMean, bootstrap_interval, detectable, holm, median,
};

/// The limit for the p of a difference, after its correction for all metrics and commands: the
/// chance that equal commands get any verdict of a difference is at most 1%.
pub const LEVEL: f64 = 0.01;

/// The rules for a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The minimum relevant effect, a share: 0.01 for 1%.
    pub min_effect: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Number of commands that are compared with the same reference in this series; 1 for a pair of
    /// commands.
    pub comparisons: usize,
}

/// How the two sides of a metric are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// B / A.
    Ratio,
    /// B - A, in the metric's unit. Used if the value of any run isn't positive, as zero has no
    /// ratio.
    Difference,
}

/// The difference between the two commands in one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Scale of the other figures.
    pub scale: Scale,
    /// The 20% trimmed mean of the pairs' differences; for a ratio, the exponential of the trimmed
    /// mean of log-ratios.
    pub estimate: f64,
    /// Its 95% bootstrap interval; `None` for fewer than five pairs.
    pub interval: Option<Interval>,
    /// The smallest effect (a ratio above 1, or a difference above 0) found with 80% power; `None`
    /// if the pairs are too few to find any.
    pub detectable: Option<f64>,
}

/// The verdict on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B takes less: a significant difference of at least the relevant effect.
    Less,
    /// B takes more, likewise.
    More,
    /// The interval is narrow enough to show a relevant difference, and the estimate isn't relevant.
    NoDifference,
    /// The interval is too wide to tell, or there are too few pairs for one.
    Undecided,
}

impl Verdict {
    /// Returns the verdict in words; for time `faster` and `slower`.
    #[must_use]
    pub fn words(self, metric: &Metric) -> &'static str {
        match (self, metric) {
            (Self::Less, Metric::Time) => "faster",
            (Self::More, Metric::Time) => "slower",
            (Self::Less, _) => "less",
            (Self::More, _) => "more",
            (Self::NoDifference, _) => "no difference seen",
            (Self::Undecided, _) => "undecided",
        }
    }
}

/// The verdict on a metric, with the figures behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricVerdict {
    /// The metric.
    pub metric: Metric,
    /// Number of pairs in which both runs have the metric.
    pub pairs: usize,
    /// Median of A's runs in these pairs.
    pub median_a: f64,
    /// Median of B's runs in these pairs.
    pub median_b: f64,
    /// The difference.
    pub effect: Effect,
    /// The p of this metric alone, by the [sequential test](SequentialTest).
    pub p: f64,
    /// The same after Holm's correction over all metrics, times the number of compared commands.
    pub p_holm: f64,
    /// The verdict.
    pub verdict: Verdict,
}

impl MetricVerdict {
    /// The interval of B relative to A, as a share: 0.02 for 2% more. If A's median is zero, every
    /// difference except 0 is infinite. `None` for fewer than five pairs.
    #[must_use]
    pub fn relative(&self) -> Option<Interval> {
        let Interval { low, high } = self.effect.interval?;
        let relative = |x: f64| match self.effect.scale {
            Scale::Ratio => x - 1.0,
            Scale::Difference if x == 0.0 => 0.0,
            Scale::Difference => x / self.median_a.abs(),
        };
        Some(Interval { low: relative(low), high: relative(high) })
    }
}

/// Judges every metric that both runs of at least one pair have.
///
/// ```text
/// d = ln B - ln A for each pair (B - A where any run had zero),  centre = 20% trimmed mean of d
/// relevant = ln(1 + max(min_effect, step / median A))
///            (max(min_effect · median A, step) for differences)
///
/// p after Holm < 0.01 and |centre| ≥ relevant   faster / slower, less / more
/// |centre| < relevant, and half the interval's
/// width ≤ relevant                              no difference seen
/// else                                          undecided
/// ```
///
/// `step` is [`Metric::step`], for example one count or one page: an average difference of less
/// than that is not relevant, however precisely it is known.
#[must_use]
pub fn judge(pairs: &[Pair], metrics: &[Metric], rules: &Rules) -> Vec<MetricVerdict> {
    let values = |metric: &Metric| {
        let both = |pair: &Pair| Some((metric.value_in(&pair.a)?, metric.value_in(&pair.b)?));
        let (a, b) = pairs.iter().filter_map(both).unzip();
        PairedValues { metric: metric.clone(), a, b }
    };
    judge_values(metrics.iter().map(values), rules)
}

/// Judges every metric that has at least one pair, like [`judge`].
#[must_use]
pub fn judge_values(
    metrics: impl IntoIterator<Item = PairedValues>,
    rules: &Rules,
) -> Vec<MetricVerdict> {
    let columns: Vec<Column> = metrics.into_iter().filter_map(Column::new).collect();
    let p: Vec<f64> = columns
        .iter()
        .map(|column| SequentialTest::from_differences(&column.in_order).p())
        .collect();
    let compared = rules.comparisons.max(1) as f64;
    let level = LEVEL / (compared * columns.len().max(1) as f64);
    columns
        .into_iter()
        .zip(p.iter().zip(holm(&p)))
        .map(|(column, (&p, p_holm))| column.judge(p, (p_holm * compared).min(1.0), level, rules))
        .collect()
}

/// A metric's values in the pairs in which both runs have one, in the order of the pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedValues {
    /// The metric.
    pub metric: Metric,
    /// Values of A.
    pub a: Vec<f64>,
    /// Values of B.
    pub b: Vec<f64>,
}

/// The differences of one metric.
struct Column {
    metric: Metric,
    scale: Scale,
    median_a: f64,
    median_b: f64,
    /// B - A for each pair, in the order of the pairs; for a ratio, ln B - ln A.
    in_order: Vec<f64>,
    /// The same, ascending.
    sorted: Vec<f64>,
}

impl Column {
    fn new(values: PairedValues) -> Option<Self> {
        let PairedValues { metric, a, b } = values;
        let positive = a.iter().chain(&b).all(|x| *x > 0.0);
        let scale = if positive { Scale::Ratio } else { Scale::Difference };
        // Not ln(b / a): swapping A and B has to change nothing but the sign, or ties break.
        let difference = |(a, b): (&f64, &f64)| if positive { b.ln() - a.ln() } else { b - a };
        let in_order: Vec<f64> = a.iter().zip(&b).map(difference).collect();
        let mut sorted = in_order.clone();
        sorted.sort_by(f64::total_cmp);
        Some(Self { metric, scale, median_a: median(&a)?, median_b: median(&b)?, in_order, sorted })
    }

    /// The smallest relevant effect, in the unit of the differences.
    fn relevant(&self, min_effect: f64) -> f64 {
        match self.scale {
            Scale::Ratio => min_effect.max(self.metric.step() / self.median_a).ln_1p(),
            Scale::Difference => (min_effect * self.median_a.abs()).max(self.metric.step()),
        }
    }

    fn judge(self, p: f64, p_holm: f64, level: f64, rules: &Rules) -> MetricVerdict {
        let relevant = self.relevant(rules.min_effect);
        let centre = TrimmedMean::from_sorted(&self.sorted).map_or(0.0, |trimmed| trimmed.mean);
        let interval = bootstrap_interval(&self.sorted, &mut Rng::with_seed(rules.seed));
        let verdict = if p_holm < LEVEL && centre.abs() >= relevant {
            if centre < 0.0 { Verdict::Less } else { Verdict::More }
        } else if centre.abs() < relevant
            && interval.is_some_and(|interval| interval.half_width() <= relevant)
        {
            Verdict::NoDifference
        } else {
            Verdict::Undecided
        };
        let shown = |x: f64| if self.scale == Scale::Ratio { x.exp() } else { x };
        let effect = Effect {
            scale: self.scale,
            estimate: shown(centre),
            interval: interval.map(|i| Interval { low: shown(i.low), high: shown(i.high) }),
            detectable: detectable(&self.in_order, level, relevant).map(shown),
        };
        let median_a = self.median_a;
        let median_b = self.median_b;
        MetricVerdict {
            metric: self.metric,
            pairs: self.in_order.len(),
            median_a,
            median_b,
            effect,
            p,
            p_holm,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::{Measurement, Side};

    const RULES: Rules = Rules { min_effect: 0.01, seed: 1, comparisons: 1 };

    fn pairs_of_counts(a: &[f64], b: &[f64]) -> Vec<Pair> {
        let run = |x: f64| Measurement {
            counts: vec![Some(x)],
            peak_memory: Some(0),
            ..Measurement::default()
        };
        a.iter().zip(b).map(|(&a, &b)| Pair { first: Side::A, a: run(a), b: run(b) }).collect()
    }

    fn judged_counts(a: &[f64], b: &[f64]) -> MetricVerdict {
        let event = Metric::Event { index: 0, name: "e".into(), unit: String::new(), step: 1.0 };
        judge(&pairs_of_counts(a, b), &[event], &RULES).remove(0)
    }

    #[test]
    fn finds_a_clear_difference_with_its_size() {
        let a: Vec<f64> = (0..30).map(|i| 10_000.0 + f64::from(i % 7)).collect();
        let b: Vec<f64> = a.iter().enumerate().map(|(i, x)| x * 1.05 + (i % 3) as f64).collect();
        let judged = judged_counts(&a, &b);
        assert_eq!((judged.verdict, judged.effect.scale), (Verdict::More, Scale::Ratio));
        assert!((judged.effect.estimate - 1.05).abs() < 0.001);
        let interval = judged.effect.interval.unwrap();
        assert!(
            interval.low <= judged.effect.estimate
                && judged.effect.estimate <= interval.high
                && interval.half_width() < 0.001
        );
        assert_eq!(judged_counts(&b, &a).verdict, Verdict::Less);
    }

    #[test]
    fn a_small_but_certain_difference_is_not_relevant() {
        let a = [100_000.0; 20];
        let judged = judged_counts(&a, &[100_500.0; 20]);
        assert!(judged.p_holm < 0.001);
        assert_eq!(judged.verdict, Verdict::NoDifference);
    }

    #[test]
    fn constants_and_zeros_are_no_difference() {
        for value in [0.0, 1.0, 12345.0] {
            let judged = judged_counts(&[value; 12], &[value; 12]);
            assert_eq!((judged.verdict, judged.p), (Verdict::NoDifference, 1.0), "{value}");
        }
        assert_eq!(judged_counts(&[0.0; 12], &[0.0; 12]).effect.scale, Scale::Difference);
    }

    #[test]
    fn zeros_are_compared_by_difference_and_fractions_of_a_count_are_not_relevant() {
        let a: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
        let half_more: Vec<f64> =
            a.iter().enumerate().map(|(i, x)| x + (i / 2 % 2) as f64).collect();
        let judged = judged_counts(&a, &half_more);
        assert_eq!(
            (judged.effect.scale, judged.verdict),
            (Scale::Difference, Verdict::NoDifference)
        );
        let three_more: Vec<f64> = a.iter().map(|x| x + 3.0).collect();
        let judged = judged_counts(&a, &three_more);
        assert_eq!((judged.verdict, judged.effect.estimate), (Verdict::More, 3.0));
    }

    #[test]
    fn one_page_fault_more_or_less_is_no_difference_but_five_are() {
        let a: Vec<f64> = (0..40).map(|i| 26.0 + f64::from(i % 3)).collect();
        let b: Vec<f64> = (0..40).map(|i| 26.0 + f64::from(i / 3 % 3)).collect();
        assert_eq!(judged_counts(&a, &b).verdict, Verdict::NoDifference);
        let b: Vec<f64> = b.iter().map(|x| x + 5.0).collect();
        assert_eq!(judged_counts(&a, &b).verdict, Verdict::More);
    }

    #[test]
    fn a_wide_interval_and_too_few_pairs_are_undecided() {
        let a: Vec<f64> = (0..12).map(|i| 1e6 * (1.0 + f64::from(i * 5 % 12) / 4.0)).collect();
        let b: Vec<f64> = (0..12).map(|i| 1e6 * (1.0 + f64::from(i * 7 % 12) / 4.0)).collect();
        assert_eq!(judged_counts(&a, &b).verdict, Verdict::Undecided);
        let few = judged_counts(&[1e6; 3], &[2e6; 3]);
        assert_eq!((few.verdict, few.effect.interval), (Verdict::Undecided, None));
    }

    #[test]
    fn pairs_with_a_missing_count_are_left_out() {
        let mut pairs = pairs_of_counts(&[5.0; 8], &[5.0; 8]);
        pairs[3].b.counts[0] = None;
        let metrics = Metric::all(["e", "never"].map(|name| (name.to_owned(), String::new(), 1.0)));
        let judged = judge(&pairs, &metrics, &RULES);
        let names: Vec<_> = judged.iter().map(|j| (j.metric.name(), j.pairs)).collect();
        assert_eq!(names, [("time", 8), ("cpu-time", 8), ("peak-memory", 8), ("e", 7)]);
        assert!(judge(&[], &metrics, &RULES).is_empty());
    }

    #[test]
    fn more_metrics_require_a_smaller_p() {
        let run = |seconds: f64, i: u32| Measurement {
            elapsed: Duration::from_secs_f64(seconds * (1.0 + f64::from(i) / 1e5)),
            counts: vec![Some(1e6); 40],
            ..Measurement::default()
        };
        // Twelve pairs of one direction.
        let pairs: Vec<Pair> = (0..12)
            .map(|i| Pair { first: Side::A, a: run(1.0, i), b: run(1.1, i * 5 % 12) })
            .collect();
        assert_eq!(judge(&pairs, &[Metric::Time], &RULES)[0].verdict, Verdict::More);
        let many = judge(
            &pairs,
            &Metric::all((0..40).map(|i| (format!("e{i}"), String::new(), 1.0))),
            &RULES,
        );
        assert!(many[0].p < 0.01 && many[0].p_holm > 0.01);
        let rules = Rules { comparisons: 20, ..RULES };
        assert_eq!(judge(&pairs, &[Metric::Time], &rules)[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn intervals_of_ratios_and_differences_become_relative_to_a() {
        let judged = judged_counts(&[100.0; 10], &[110.0; 10]);
        assert!((judged.relative().unwrap().low - 0.1).abs() < 1e-9);
        assert_eq!(judged_counts(&[0.0; 10], &[3.0; 10]).relative().unwrap().low, f64::INFINITY);
        assert_eq!(
            judged_counts(&[0.0; 10], &[0.0; 10]).relative().unwrap(),
            Interval { low: 0.0, high: 0.0 }
        );
    }
}
