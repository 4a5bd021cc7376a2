//! A test of paired differences that may be read after every pair.

use super::{TrimmedMean, t_quantile};

/// Smallest stake of the test. The others are twice the one before.
const SMALLEST_STAKE: f64 = 0.05;

/// Number of stakes on each sign, 0.05 to 6.4: from differences that take thousands of pairs to
/// differences that always have the same sign.
const STAKES: usize = 8;

/// Maximum number of pairs for which [`detectable`] inverts the test itself.
const EXACT_UP_TO: usize = 400;

/// The evidence against equal commands, pair after pair.
///
/// Under the null hypothesis the sign of each difference is a fair coin, whatever its size: the
/// order within a pair is drawn at random. The test bets on the signs. The stake of pair i grows
/// with the rank of |dᵢ| among |d₁| … |dᵢ|, so that a stall counts no more than any other large
/// difference:
///
/// ```text
/// xᵢ     = sign(dᵢ) · rank(|dᵢ| among |d₁| … |dᵢ|) / i        (ties share their mean rank)
/// wealth = mean over stakes s of Π (1 + tanh(s · xᵢ))         (s = ±0.05, ±0.1, … ±6.4)
/// p      = 1 / the largest wealth so far
/// ```
///
/// No bet on a fair coin gains on average, so the wealth ever reaches 1 / α with a probability of at
/// most α (Ville 1939), however often p is read and for whatever reason the runs end. Betting
/// 1 + tanh(s · x) is the likelihood ratio of a sign that prefers x (Ramdas, Grünwald, Vovk and
/// Shafer, Game-theoretic statistics and safe anytime-valid inference, 2023).
#[derive(Clone, Debug)]
pub struct SequentialTest {
    /// |d| of all pairs, ascending.
    sizes: Vec<f64>,
    /// Logarithm of the wealth of each stake: positive ones, then negative ones.
    log_wealth: [f64; 2 * STAKES],
    /// Logarithm of the largest mean wealth so far.
    best: f64,
}

impl Default for SequentialTest {
    fn default() -> Self {
        Self { sizes: Vec::new(), log_wealth: [0.0; 2 * STAKES], best: 0.0 }
    }
}

impl SequentialTest {
    /// Tests all of these differences, in the order of the pairs.
    #[must_use]
    pub fn from_differences(differences: &[f64]) -> Self {
        let mut test = Self::default();
        differences.iter().for_each(|difference| test.add(*difference));
        test
    }

    /// Takes in the difference of the next pair. NaN is left out.
    pub fn add(&mut self, difference: f64) {
        if difference.is_nan() {
            return;
        }
        let size = difference.abs();
        let below = self.sizes.partition_point(|other| *other < size);
        let up_to = self.sizes.partition_point(|other| *other <= size);
        self.sizes.insert(up_to, size);
        if difference == 0.0 {
            return;
        }
        // The mean rank of the ties, with this difference as one of them.
        let rank = (below + up_to) as f64 / 2.0 + 1.0;
        let place = (rank - 0.5).max(0.5) / self.sizes.len() as f64;
        let mut stake = SMALLEST_STAKE;
        for at in 0..STAKES {
            // ln(1 ± tanh(y)) = ±y - ln cosh(y), without loss of digits for a large y.
            let y = stake * place * difference.signum();
            let log_cosh = y.abs() + (-2.0 * y.abs()).exp().ln_1p() - std::f64::consts::LN_2;
            self.log_wealth[at] += y - log_cosh;
            self.log_wealth[at + STAKES] -= y + log_cosh;
            stake *= 2.0;
        }
        self.best = self.best.max(self.log_mean());
    }

    /// The logarithm of the mean wealth.
    fn log_mean(&self) -> f64 {
        let most = self.log_wealth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.log_wealth.iter().map(|log| (log - most).exp()).sum();
        most + (sum / self.log_wealth.len() as f64).ln()
    }

    /// The probability that equal commands look at least this different at any time: valid now, and
    /// whenever it is read.
    #[must_use]
    pub fn p(&self) -> f64 {
        (-self.best).exp()
    }
}

/// Returns the fewest pairs with which differences of one sign can reach this level.
#[must_use]
pub fn fewest_pairs(level: f64) -> usize {
    let mut test = SequentialTest::default();
    let mut pairs = 0;
    while test.p() > level && pairs < 1000 {
        // Sizes in an order without a trend, so that ranks are spread evenly.
        pairs += 1;
        test.add(1.0 + (pairs as f64 * 0.618_033_988_75).fract());
    }
    pairs
}

/// Returns the smallest true effect that pairs with differences like these (in their order) find in
/// 4 of 5 comparisons, in the unit of the differences. `None` if the pairs are too few to find any.
///
/// An effect is found if its p is at most `level`, and its estimate is at least `relevant`:
///
/// ```text
/// reject = the shift of these differences, centred, at which p falls to the level
/// result = the larger of reject and relevant, + t(0.8) · the trimmed mean's standard error
/// ```
#[must_use]
pub fn detectable(differences: &[f64], level: f64, relevant: f64) -> Option<f64> {
    let mut sorted = differences.to_vec();
    sorted.sort_by(f64::total_cmp);
    let spread = TrimmedMean::from_sorted(&sorted).filter(|spread| spread.freedom > 0)?;
    if differences.len() < fewest_pairs(level) {
        return None;
    }
    let rejected = if differences.len() <= EXACT_UP_TO {
        rejection_limit(differences, spread.mean, level)?
    } else {
        // ln wealth is about 0.9 · z² / 2 - ln(number of stakes).
        (2.0 / 0.9 * (2.0 * STAKES as f64 / level).ln()).sqrt() * spread.error
    };
    Some(rejected.max(relevant) + t_quantile(0.8, spread.freedom as f64) * spread.error)
}

/// Finds the shift of the centred differences at which p falls to the level, by bisection.
fn rejection_limit(differences: &[f64], centre: f64, level: f64) -> Option<f64> {
    let p = |shift: f64| {
        let shifted: Vec<f64> = differences.iter().map(|d| d - centre + shift).collect();
        SequentialTest::from_differences(&shifted).p()
    };
    let most = differences.iter().map(|d| (d - centre).abs()).fold(0.0, f64::max);
    if most == 0.0 {
        return Some(0.0);
    }
    let mut accepted = 0.0;
    let mut rejected = 2.0 * most;
    if p(rejected) > level {
        return None;
    }
    for _ in 0..24 {
        let middle = f64::midpoint(accepted, rejected);
        if p(middle) <= level { rejected = middle } else { accepted = middle }
    }
    Some(rejected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.f64()).cos()
    }

    /// The wealth after each pair, averaged over all signs of given sizes, is exactly 1.
    #[test]
    fn no_bet_gains_on_fair_signs() {
        let sizes = [3.0, 1.0, 2.0, 2.0, 0.5, 7.0, 4.0, 4.0];
        let mut sum = 0.0;
        for signs in 0..256u32 {
            let signed =
                |(at, size): (usize, &f64)| if signs >> at & 1 == 1 { *size } else { -*size };
            let differences: Vec<f64> = sizes.iter().enumerate().map(signed).collect();
            sum += SequentialTest::from_differences(&differences).log_mean().exp();
        }
        assert!((sum / 256.0 - 1.0).abs() < 1e-9, "{sum}");
    }

    /// Reading p after every one of 300 pairs raises no more false alarms than the level.
    #[test]
    fn the_error_rate_holds_at_every_look() {
        let mut alarms = 0;
        for seed in 0..1000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut test = SequentialTest::default();
            for _ in 0..300 {
                // Heavy tails: one pair in ten has a stall.
                let stall = if rng.u8(..10) == 0 { 20.0 } else { 1.0 };
                test.add(stall * normal(&mut rng));
            }
            alarms += usize::from(test.p() <= 0.05);
        }
        assert!(alarms <= 60, "{alarms} of 1000 at 5%");
        assert!(alarms > 2, "{alarms}: the test has no power");
    }

    /// A shift of 4.5 standard errors is found in most series, and of 6 in nearly all.
    #[test]
    fn finds_shifts_of_a_few_standard_errors() {
        for (errors, pairs, at_least) in
            [(4.5, 100, 50), (6.0, 30, 75), (6.0, 100, 95), (6.0, 400, 95)]
        {
            let found = (0..100).filter(|seed| {
                let mut rng = fastrand::Rng::with_seed(*seed);
                let shift = errors / f64::from(pairs).sqrt();
                let differences: Vec<f64> = (0..pairs).map(|_| shift + normal(&mut rng)).collect();
                SequentialTest::from_differences(&differences).p() <= 0.01
            });
            let found = found.count();
            assert!(found >= at_least, "{errors} standard errors, {pairs} pairs: {found}");
        }
    }

    #[test]
    fn a_size_counts_by_its_rank_and_zeros_count_nothing() {
        let p = |differences: &[f64]| SequentialTest::from_differences(differences).p();
        assert_eq!(p(&[1.0, 2.0, 3.0, 4.0]), p(&[1.0, 20.0, 300.0, 4000.0]));
        assert_eq!(p(&[0.0; 50]), 1.0);
        assert_eq!(p(&[]), 1.0);
        assert_eq!(p(&[1.0, -2.0, 4.0, 5.0]), p(&[-1.0, 2.0, -4.0, -5.0]));
        assert_eq!(p(&[f64::NAN, 1.0]), p(&[1.0]));
    }

    #[test]
    fn fewest_pairs_grow_with_the_demand() {
        let few = [0.05, 0.01, 0.001, 0.0001].map(fewest_pairs);
        assert!(few.is_sorted() && few[0] >= 7 && few[3] <= 20, "{few:?}");
    }

    #[test]
    fn the_detectable_shift_is_found_in_about_four_of_five() {
        for pairs in [30, 100, 600] {
            let differences: Vec<f64> = {
                let mut rng = fastrand::Rng::with_seed(77);
                (0..pairs).map(|_| normal(&mut rng)).collect()
            };
            let shift = detectable(&differences, 0.01, 0.0).unwrap();
            let found = (0..100).filter(|seed| {
                let mut rng = fastrand::Rng::with_seed(*seed);
                let shifted: Vec<f64> = (0..pairs).map(|_| shift + normal(&mut rng)).collect();
                SequentialTest::from_differences(&shifted).p() <= 0.01
            });
            let found = found.count();
            assert!((55..=99).contains(&found), "{pairs} pairs, {shift}: {found}");
        }
        assert_eq!(detectable(&[1.0; 5], 0.01, 0.0), None);
        assert_eq!(detectable(&[0.0; 40], 0.01, 0.01), Some(0.01));
    }
}
