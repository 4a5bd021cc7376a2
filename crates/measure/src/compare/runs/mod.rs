//! Compares two sides of one or more runs each, in many series at once.
//!
//! ```text
//! five runs a side, or as many splits   permutations of the runs' sides, the largest statistic of
//!                                       all series (Westfall, Young 1993)
//! fewer, but three runs in total        Student's t of the pooled spread, corrected by Holm
//! one run a side                        shares alone, by blocks of time within each run
//! ```
//! Each method corrects p for all series, so that at most 1% of the comparisons of a program with
//! itself show any change. docs/diff.md explains the choice.

mod blocks;
mod gate;
mod permutation;

use crate::statistics::{Interval, holm, t_above, t_quantile};

pub use blocks::{SlicedSeries, Slices, judge_slices};
pub use gate::{Gate, GateOf};

/// The familywise error: the limit for corrected p.
pub const FAMILYWISE: f64 = 0.01;

/// The values of a quantity in each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the runs of A.
    pub a: Vec<f64>,
    /// In the runs of B, in the same unit.
    pub b: Vec<f64>,
    /// Weight of one sample in this unit. The standard deviation between runs is taken to be at
    /// least half of it.
    pub step: f64,
}

/// The method of judging changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Permutations of the runs' sides, and their number.
    Permutations(usize),
    /// Student's t and Holm's correction: there are too few runs for permutations.
    StudentsT,
    /// Blocks of time within the two runs: the smallest number for any judged series on each side.
    Blocks(usize, usize),
    /// None: there are too few runs, and too few blocks within them.
    Nothing,
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// B has more.
    More,
    /// B has less.
    Less,
}

/// The difference between B and A in one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The mean of A's runs.
    pub mean_a: f64,
    /// The mean of B's runs.
    pub mean_b: f64,
    /// The 95% interval of the difference of the means; `None` if the change isn't judged.
    pub interval: Option<Interval>,
    /// The 95% interval of B's mean over A's; `None` if the change isn't judged, or is judged by
    /// blocks, or a mean is zero.
    pub ratio: Option<Interval>,
    /// The p, corrected for all series; `None` if the change isn't judged.
    pub p: Option<f64>,
    /// The smallest difference that such runs would find in 4 of 5 comparisons; `None` if the
    /// change isn't judged.
    pub detectable: Option<f64>,
}

impl Change {
    /// B - A.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.mean_b - self.mean_a
    }

    /// Returns the direction of a significant change.
    #[must_use]
    pub fn shown(&self) -> Option<Direction> {
        let is_shown = self.p.is_some_and(|p| p <= FAMILYWISE) && self.difference() != 0.0;
        let more = self.difference() > 0.0;
        is_shown.then_some(if more { Direction::More } else { Direction::Less })
    }
}

/// Judges all series together.
///
/// ```text
/// statistic  t = (mean B - mean A) / √(v · (1/nA + 1/nB))
/// v          the pooled variance within the sides, at least (step / 2)²
/// interval   Welch's: each side has its own variance; that of the ratio is computed on logarithms
/// ```
/// A side with one run has the pooled variance in intervals. All series must have as many runs as
/// the first. One run a side isn't judged, nor is a side without runs.
#[must_use]
pub fn judge_runs(series: &[Series], seed: u64) -> (Method, Vec<Change>) {
    let Some(first) = series.first() else { return (Method::Nothing, Vec::new()) };
    let n_a = first.a.len();
    let n_b = first.b.len();
    if n_a == 0 || n_b == 0 || n_a + n_b < 3 {
        return (Method::Nothing, series.iter().map(change_without_verdict).collect());
    }
    let spreads: Vec<Spread> = series.iter().map(Spread::from_series).collect();
    let freedom = (n_a + n_b - 2) as f64;
    let (method, p, critical) = if permutation::least_p(n_a, n_b) <= FAMILYWISE {
        let permuted = permutation::correct_p(series, seed);
        (Method::Permutations(permuted.permutations), permuted.p, permuted.critical)
    } else {
        let alone: Vec<f64> =
            spreads.iter().map(|spread| 2.0 * t_above(spread.t().abs(), freedom)).collect();
        let level = FAMILYWISE / series.len() as f64;
        (Method::StudentsT, holm(&alone), t_quantile(1.0 - level / 2.0, freedom))
    };
    let changes = spreads.iter().zip(p).map(|(spread, p)| Change {
        mean_a: spread.mean_a,
        mean_b: spread.mean_b,
        interval: Some(spread.interval()),
        ratio: spread.ratio(),
        p: Some(p),
        detectable: Some((critical + t_quantile(0.8, freedom)) * spread.error),
    });
    (method, changes.collect())
}

fn change_without_verdict(series: &Series) -> Change {
    Change {
        mean_a: mean(&series.a),
        mean_b: mean(&series.b),
        interval: None,
        ratio: None,
        p: None,
        detectable: None,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sums the squared distances from the mean.
fn sum_squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Variation of one series between runs.
struct Spread {
    mean_a: f64,
    mean_b: f64,
    /// Standard error of the difference, from the pooled spread.
    error: f64,
    /// The squared standard errors of the two means.
    errors: [f64; 2],
    /// Degrees of freedom of the interval.
    freedom: f64,
}

impl Spread {
    fn from_series(series: &Series) -> Self {
        let Series { a, b, step } = series;
        let n_a = a.len() as f64;
        let n_b = b.len() as f64;
        let least = (step / 2.0).powi(2);
        let pooled = ((sum_squares(a) + sum_squares(b)) / (n_a + n_b - 2.0)).max(least);
        let own = |values: &[f64]| match values.len() {
            // One run doesn't show the side's own spread.
            1 => pooled,
            n => (sum_squares(values) / (n as f64 - 1.0)).max(least),
        };
        let errors = [own(a) / n_a, own(b) / n_b];
        let freedom = if a.len() == 1 || b.len() == 1 {
            n_a + n_b - 2.0
        } else {
            let each = errors[0].powi(2) / (n_a - 1.0) + errors[1].powi(2) / (n_b - 1.0);
            let welch = (errors[0] + errors[1]).powi(2) / each;
            if welch.is_finite() { welch } else { n_a + n_b - 2.0 }
        };
        let error = (pooled * (1.0 / n_a + 1.0 / n_b)).sqrt();
        Self { mean_a: mean(a), mean_b: mean(b), error, errors, freedom }
    }

    fn t(&self) -> f64 {
        let difference = self.mean_b - self.mean_a;
        if difference == 0.0 { 0.0 } else { difference / self.error }
    }

    fn interval(&self) -> Interval {
        let half = t_quantile(0.975, self.freedom) * (self.errors[0] + self.errors[1]).sqrt();
        let difference = self.mean_b - self.mean_a;
        Interval { low: difference - half, high: difference + half }
    }

    fn ratio(&self) -> Option<Interval> {
        let a = self.mean_a;
        let b = self.mean_b;
        (a > 0.0 && b > 0.0).then(|| {
            let error = (self.errors[0] / a.powi(2) + self.errors[1] / b.powi(2)).sqrt();
            let log = (b / a).ln();
            let half = t_quantile(0.975, self.freedom) * error;
            Interval { low: (log - half).exp(), high: (log + half).exp() }
        })
    }
}

#[cfg(test)]
mod tests;
