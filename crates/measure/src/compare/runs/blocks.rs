//! Judges one run per side, by the variation of shares between blocks of time.

use fastrand::Rng;

use super::{Change, FAMILYWISE, Method};
use crate::statistics::{Interval, quantile, t_quantile};

/// Minimum number of blocks of each run: merging stops before fewer remain, and a series with fewer
/// isn't judged.
const FEWEST: usize = 20;

/// Number of bootstrap draws.
const DRAWS: usize = 4_000;

/// A series' weight in each time slice of the two runs. The slices of a run have equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slices {
    /// In A, in order of time.
    pub a: Vec<f64>,
    /// In B.
    pub b: Vec<f64>,
}

/// A series, with the total that its shares refer to.
#[derive(Clone, Debug)]
pub struct SlicedSeries<'a> {
    /// The weights of the series.
    pub weights: Slices,
    /// The weights of all samples.
    pub all: &'a Slices,
    /// Weight of one sample in A and in B.
    pub steps: [f64; 2],
}

/// Judges the shares of all series in two runs.
///
/// ```text
/// share s = Σ w / Σ W          residual of a block  e = w - s · W
/// variance of s = Σ e² / (Σ W)² · k / (k - 1)
/// ```
///
/// Consecutive samples of a thread fall into one phase of a program, and phases alternate, so
/// neighbouring slices are correlated, positively or negatively. Slices are merged into k blocks,
/// as long as at least 20 remain, and these count as independent; if the variance still grows with
/// the block length, as v∞ · (1 - τ / length), v∞ is used. The p is corrected by a wild bootstrap:
/// a sign is drawn for the residuals of all series in a block together, and the p of a series is
/// the share of draws in which the largest statistic among it and all less significant series
/// reaches its own (Liu 1988; Chernozhukov, Chetverikov and Kato 2013).
///
/// Variation between runs isn't included. Series with too few blocks aren't judged.
#[must_use]
pub fn judge_slices(series: &[SlicedSeries<'_>], seed: u64) -> (Method, Vec<Change>) {
    let pair = |one: &SlicedSeries<'_>| {
        let SlicedSeries { weights, all, steps } = one;
        let sides = [
            Side::from_blocks(&weights.a, &all.a, steps[0]),
            Side::from_blocks(&weights.b, &all.b, steps[1]),
        ];
        let blocks = [count_blocks(&all.a), count_blocks(&all.b)];
        SeriesSides { sides, blocks }
    };
    let pairs: Vec<SeriesSides> = series.iter().map(pair).collect();
    let judged: Vec<&SeriesSides> = pairs.iter().filter(|pair| pair.is_judged()).collect();
    let fewest = |side: usize| judged.iter().map(|pair| pair.blocks[side]).min().unwrap_or(0);
    let blocks = [fewest(0), fewest(1)];
    let freedom = (blocks[0] + blocks[1]).saturating_sub(2).max(1) as f64;
    let (p, critical) = bootstrap(&judged, freedom, seed);
    let mut p = p.into_iter();
    let changes = pairs.iter().map(|pair| {
        let is_judged = pair.is_judged();
        let error = pair.error();
        let difference = pair.difference();
        let half = t_quantile(0.975, freedom) * error;
        let interval = Interval { low: difference - half, high: difference + half };
        Change {
            mean_a: pair.sides[0].share,
            mean_b: pair.sides[1].share,
            interval: is_judged.then_some(interval),
            ratio: None,
            p: if is_judged { p.next() } else { None },
            detectable: is_judged.then(|| (critical + t_quantile(0.8, freedom)) * error),
        }
    });
    let changes = changes.collect();
    let is_any = !judged.is_empty();
    (if is_any { Method::Blocks(blocks[0], blocks[1]) } else { Method::Nothing }, changes)
}

/// Both sides' estimates for a series.
struct SeriesSides {
    sides: [Side; 2],
    /// Number of blocks on each side.
    blocks: [usize; 2],
}

impl SeriesSides {
    fn is_judged(&self) -> bool {
        self.blocks.iter().all(|blocks| *blocks >= FEWEST)
    }

    fn difference(&self) -> f64 {
        self.sides[1].share - self.sides[0].share
    }

    fn error(&self) -> f64 {
        self.sides[0].error.hypot(self.sides[1].error)
    }

    fn statistic(&self) -> f64 {
        let difference = self.difference().abs();
        if difference == 0.0 { 0.0 } else { difference / self.error() }
    }
}

/// One side's estimate for a series.
struct Side {
    share: f64,
    /// The standard error of the share.
    error: f64,
    /// Residuals of the longest blocks, scaled so that their squares add up to 1 (less if half the
    /// weight of a sample limits the error).
    residuals: Vec<f64>,
}

impl Side {
    fn from_blocks(weights: &[f64], all: &[f64], step: f64) -> Self {
        let whole: f64 = all.iter().sum();
        let share = if whole > 0.0 { weights.iter().sum::<f64>() / whole } else { 0.0 };
        // Slices without samples are skipped: a thread that waits for a CPU is in no phase.
        let sampled = weights.iter().zip(all).filter(|(_, all)| **all > 0.0);
        let mut residuals: Vec<f64> =
            sampled.map(|(weight, all)| (weight - share * all) / whole.max(1.0)).collect();
        let least = if whole > 0.0 { (step / 2.0 / whole).powi(2) } else { 0.0 };
        let mut before = f64::INFINITY;
        loop {
            let k = residuals.len() as f64;
            let squares: f64 = residuals.iter().map(|residual| residual.powi(2)).sum();
            let variance = squares * k / (k - 1.0).max(1.0);
            if residuals.len() < 2 * FEWEST {
                let own = squares.max(least).sqrt();
                let scale = if own > 0.0 { 1.0 / own } else { 0.0 };
                residuals.iter_mut().for_each(|residual| *residual *= scale);
                // The bias of v is proportional to 1 / length, so
                // v∞ = 2 · v(length) - v(length / 2).
                let variance = variance.max(2.0 * variance - before).max(least);
                return Self { share, error: variance.sqrt(), residuals };
            }
            before = variance;
            residuals = merge_twos(&residuals);
        }
    }
}

/// Sums values in twos; the last of an odd number stays alone.
fn merge_twos(values: &[f64]) -> Vec<f64> {
    values.chunks(2).map(|two| two.iter().sum()).collect()
}

/// Counts the blocks that the slices with samples are merged into.
fn count_blocks(all: &[f64]) -> usize {
    let mut blocks = all.iter().filter(|slice| **slice > 0.0).count();
    while blocks >= 2 * FEWEST {
        blocks = blocks.div_ceil(2);
    }
    blocks
}

/// Returns the corrected p of each series, and the value that the largest statistic exceeds in 1%
/// of the draws.
fn bootstrap(pairs: &[&SeriesSides], freedom: f64, seed: u64) -> (Vec<f64>, f64) {
    let mut rng = Rng::with_seed(seed);
    let observed: Vec<f64> = pairs.iter().map(|pair| pair.statistic()).collect();
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|a, b| observed[*a].total_cmp(&observed[*b]));
    let longest =
        |side: usize| pairs.iter().map(|pair| pair.sides[side].residuals.len()).max().unwrap_or(0);
    let lengths = [longest(0), longest(1)];
    let mut reached = vec![0_u32; pairs.len()];
    let mut largest = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut draw =
            |length| (0..length).map(|_| if rng.bool() { 1.0 } else { -1.0 }).collect::<Vec<f64>>();
        let signs = lengths.map(&mut draw);
        // The errors are estimates: scale as in Student's t.
        let scale = (freedom / draw_chi_squared(freedom, &mut rng)).sqrt();
        let mut most = 0.0_f64;
        for at in &order {
            most = most.max(signed_statistic(pairs[*at], &signs).abs() * scale);
            reached[*at] += u32::from(most >= observed[*at]);
        }
        largest.push(most);
    }
    let mut p = vec![1.0; pairs.len()];
    let mut so_far = 0.0_f64;
    for at in order.iter().rev() {
        so_far = so_far.max(f64::from(reached[*at] + 1) / (DRAWS + 1) as f64);
        p[*at] = so_far;
    }
    (p, quantile(&largest, 1.0 - FAMILYWISE).unwrap_or(0.0))
}

/// Returns the statistic of a series with these signs of its residuals.
fn signed_statistic(pair: &SeriesSides, signs: &[Vec<f64>; 2]) -> f64 {
    let both = pair.error().max(f64::MIN_POSITIVE);
    let part = |(side, signs): (&Side, &Vec<f64>)| {
        let residuals = side.residuals.iter().zip(signs);
        residuals.map(|(residual, sign)| residual * sign).sum::<f64>() * side.error / both
    };
    pair.sides.iter().zip(signs).map(part).sum()
}

/// Draws from a chi-squared distribution with these degrees of freedom, rounded to an even number.
fn draw_chi_squared(freedom: f64, rng: &mut Rng) -> f64 {
    // The sum of two squared normal variables is exponential.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some tens")]
    let pairs = (freedom / 2.0).round().max(1.0) as usize;
    let exponentials: f64 = (0..pairs).map(|_| -(1.0 - rng.f64()).ln()).sum();
    (2.0 * exponentials).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a thread with 10 samples a slice, which before each sample stays in its function
    /// with probability `stay`, and else draws one of four. Returns the weight of each function by
    /// slice.
    fn simulate_phases(shares: [f64; 4], stay: f64, slices: usize, rng: &mut Rng) -> [Vec<f64>; 4] {
        let mut by_function: [Vec<f64>; 4] = Default::default();
        let mut now = 0;
        for _ in 0..slices {
            let mut slice = [0.0; 4];
            for _ in 0..10 {
                if rng.f64() > stay {
                    let at = rng.f64();
                    let mut sum = 0.0;
                    now = shares
                        .iter()
                        .position(|share| {
                            sum += share;
                            at < sum
                        })
                        .unwrap_or(3);
                }
                slice[now] += 1.0;
            }
            by_function.iter_mut().zip(slice).for_each(|(all, weight)| all.push(weight));
        }
        by_function
    }

    fn simulate_changes(a: [f64; 4], b: [f64; 4], stay: f64, rng: &mut Rng) -> Vec<Change> {
        let a = simulate_phases(a, stay, 512, rng);
        let b = simulate_phases(b, stay, 512, rng);
        let all = Slices { a: vec![10.0; 512], b: vec![10.0; 512] };
        let functions = a.into_iter().zip(b).map(|(a, b)| Slices { a, b });
        let series: Vec<_> =
            functions.map(|weights| SlicedSeries { weights, all: &all, steps: [1.0; 2] }).collect();
        judge_slices(&series, rng.u64(..)).1
    }

    #[test]
    fn correlated_samples_cause_no_false_alarms() {
        let equal = [0.4, 0.3, 0.2, 0.1];
        for stay in [0.0, 0.98] {
            let mut rng = Rng::with_seed(7);
            let alarms = (0..60).filter(|_| {
                simulate_changes(equal, equal, stay, &mut rng)
                    .iter()
                    .any(|one| one.shown().is_some())
            });
            let alarms = alarms.count();
            assert!(alarms <= 3, "{stay}: {alarms} of 60");
        }
    }

    #[test]
    fn finds_a_clear_change_with_its_size() {
        let mut rng = Rng::with_seed(8);
        let mut shown = 0;
        let mut held = 0;
        for _ in 0..20 {
            let changes =
                simulate_changes([0.4, 0.3, 0.2, 0.1], [0.5, 0.2, 0.2, 0.1], 0.3, &mut rng);
            shown += usize::from(changes[0].shown().is_some() && changes[1].shown().is_some());
            let interval = changes[0].interval.unwrap();
            held += usize::from((interval.low..=interval.high).contains(&0.1));
        }
        assert!(shown >= 18 && held >= 17, "{shown} and {held} of 20");
    }

    #[test]
    fn too_few_slices_are_not_judged() {
        let weights = Slices { a: vec![1.0; 19], b: vec![1.0; 500] };
        let all = Slices { a: vec![2.0; 19], b: vec![2.0; 500] };
        let series = SlicedSeries { weights, all: &all, steps: [1.0; 2] };
        let (method, changes) = judge_slices(&[series], 1);
        assert_eq!((method, changes[0].p, changes[0].interval), (Method::Nothing, None, None));
        assert_eq!(changes[0].difference(), 0.0);
    }
}
