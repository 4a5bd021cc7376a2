//! The bootstrap interval of a trimmed mean.

use fastrand::Rng;

use super::summary::sorted_quantile;
use super::{Interval, TRIM_DIVISOR, TrimmedMean};

/// Number of resamples. The ends of an interval vary by about 3% of its half width from seed to
/// seed.
const RESAMPLES: usize = 4000;

/// Minimum number of values: resamples of four have too few different outcomes to estimate a tail.
const FEWEST: usize = 5;

/// Computes the 95% bootstrap interval of the 20% trimmed mean of sorted values; `None` for fewer
/// than five.
///
/// It is the percentile interval with a correction for small n: instead of 2.5% it cuts
/// Φ(-√(n / (n - 1)) · t(0.975, h - 1)) at each end, with h values left after trimming, so that
/// the interval of normal data is about as wide as that of Student's t (Hesterberg, What teachers
/// should know about the bootstrap, 2015, section 5.3).
#[must_use]
pub fn bootstrap_interval(sorted: &[f64], rng: &mut Rng) -> Option<Interval> {
    let n = sorted.len();
    if n < FEWEST {
        return None;
    }
    if sorted[0] == sorted[n - 1] {
        return Some(Interval { low: sorted[0], high: sorted[0] });
    }
    let tail = TrimmedMean::from_sorted(sorted)?.tail(n);
    let mut times_drawn = vec![0; n];
    let mut means: Vec<f64> =
        (0..RESAMPLES).map(|_| draw_mean(sorted, &mut times_drawn, rng)).collect();
    means.sort_by(f64::total_cmp);
    Some(Interval {
        low: sorted_quantile(&means, tail)?,
        high: sorted_quantile(&means, 1.0 - tail)?,
    })
}

/// Draws a resample and returns its trimmed mean. It draws ranks of sorted values, so resamples
/// needn't be sorted.
fn draw_mean(sorted: &[f64], times_drawn: &mut [usize], rng: &mut Rng) -> f64 {
    let n = sorted.len();
    times_drawn.fill(0);
    for _ in 0..n {
        times_drawn[rng.usize(..n)] += 1;
    }
    let cut = n / TRIM_DIVISOR;
    let mut seen = 0;
    let mut sum = 0.0;
    for (value, &times) in sorted.iter().zip(times_drawn.iter()) {
        // Of the draws seen..seen + times, those within cut..n - cut.
        let kept = (seen + times).min(n - cut).saturating_sub(seen.max(cut));
        sum += value * kept as f64;
        seen += times;
    }
    sum / (n - 2 * cut) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval_around_the_mean() {
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        let interval = |seed| bootstrap_interval(&values, &mut Rng::with_seed(seed)).unwrap();
        assert_eq!(interval(1), interval(1));
        assert!(interval(1) != interval(2));
        assert!(interval(1).low < 19.5 && 19.5 < interval(1).high);
    }

    #[test]
    fn agrees_with_students_t_for_many_values() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        let t = TrimmedMean::from_sorted(&values).unwrap();
        let interval = bootstrap_interval(&values, &mut Rng::with_seed(3)).unwrap();
        let ratio = interval.half_width() / t.half_width().unwrap();
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn outliers_have_little_effect_and_constants_have_no_width() {
        let mut values: Vec<f64> = (0..40).map(f64::from).collect();
        values[38] = 1e6;
        values[39] = 1e6;
        assert!(bootstrap_interval(&values, &mut Rng::with_seed(4)).unwrap().high < 40.0);
        assert_eq!(
            bootstrap_interval(&[3.0; 9], &mut Rng::with_seed(5)),
            Some(Interval { low: 3.0, high: 3.0 })
        );
    }

    #[test]
    fn four_values_have_no_interval() {
        assert_eq!(bootstrap_interval(&[1.0, 2.0, 3.0, 4.0], &mut Rng::with_seed(6)), None);
    }
}
