//! What a comparison could have found.

use super::signed_rank::rejects_beyond;
use super::{TrimmedMean, t_quantile};

/// Up to this many pairs the test itself is asked (its n² / 2 averages take memory); beyond,
/// Student's t says the same.
const ASKED_UP_TO: usize = 500;

/// The smallest true effect that runs with differences like these (sorted) find in 4 of 5
/// comparisons, in their unit; none where so few can find nothing.
///
/// Found means: a signed-rank p below `level` (5% divided by the number of metrics, which is what
/// Holm asks of the smallest p), and an estimate of at least `relevant`:
///
/// ```text
/// reject = where the test begins to reject
/// error  = the larger of the trimmed mean's error and reject / t(1 - level / 2), what the test's own spread amounts to
/// the larger of reject and relevant, + t(0.8) · error
/// ```
#[must_use]
pub fn smallest_detectable(sorted: &[f64], level: f64, relevant: f64) -> Option<f64> {
    let spread = TrimmedMean::of_sorted(sorted).filter(|spread| spread.freedom > 0)?;
    let t = |probability| t_quantile(probability, spread.freedom as f64);
    let away = t(1.0 - level / 2.0);
    let rejected = if sorted.len() <= ASKED_UP_TO {
        rejects_beyond(sorted, level)?
    } else {
        away * spread.error
    };
    Some(rejected.max(relevant) + t(0.8) * spread.error.max(rejected / away))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// n values with the quantiles of a standard normal.
    fn normal(n: u32) -> Vec<f64> {
        use statrs::distribution::{ContinuousCDF, Normal};
        (0..n)
            .map(|i| Normal::standard().inverse_cdf((f64::from(i) + 0.5) / f64::from(n)))
            .collect()
    }

    #[test]
    fn is_near_the_textbook_for_normal_differences() {
        // (z(0.975) + z(0.8)) / √n for a mean; a signed rank or a trimmed mean needs a few percent
        // more.
        for n in [100, 500, 501, 2000] {
            let needed =
                smallest_detectable(&normal(n), 0.05, 0.0).unwrap() / (2.802 / f64::from(n).sqrt());
            assert!((1.0..1.1).contains(&needed), "{n}: {needed}");
        }
    }

    #[test]
    fn the_estimate_must_reach_the_relevant_effect() {
        assert_eq!(smallest_detectable(&[0.0; 20], 0.05, 0.01), Some(0.01));
        assert!(smallest_detectable(&normal(100), 0.05, 5.0).unwrap() > 5.0);
    }

    #[test]
    fn too_few_find_nothing() {
        assert_eq!(smallest_detectable(&normal(5), 0.05, 0.01), None);
        assert_eq!(smallest_detectable(&[], 0.05, 0.01), None);
    }
}
