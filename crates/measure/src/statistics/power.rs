//! The smallest effect that a comparison can find.

use super::signed_rank::rejection_limit;
use super::{TrimmedMean, t_quantile};

/// Maximum number of pairs for which the rejection limit is computed from the test, with n (n + 1)
/// / 2 averages in memory. For more pairs it is approximated by Student's t.
const EXACT_UP_TO: usize = 500;

/// Returns the smallest true effect that runs with differences like these (sorted) find in 4 of 5
/// comparisons, in the unit of the differences. `None` if the runs are too few to find any effect.
///
/// An effect is found if its signed-rank p is below `level` (5% divided by the number of metrics,
/// Holm's limit for the smallest p), and its estimate is at least `relevant`:
///
/// ```text
/// reject = the centre at which the test begins to reject
/// error  = the larger of the trimmed mean's error and the test's: reject / t(1 - level / 2)
/// result = the larger of reject and relevant, + t(0.8) · error
/// ```
#[must_use]
pub fn smallest_detectable(sorted: &[f64], level: f64, relevant: f64) -> Option<f64> {
    let spread = TrimmedMean::from_sorted(sorted).filter(|spread| spread.freedom > 0)?;
    let t = |probability| t_quantile(probability, spread.freedom as f64);
    let away = t(1.0 - level / 2.0);
    let rejected = if sorted.len() <= EXACT_UP_TO {
        rejection_limit(sorted, level)?
    } else {
        away * spread.error
    };
    Some(rejected.max(relevant) + t(0.8) * spread.error.max(rejected / away))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns n values that are quantiles of a standard normal.
    fn normal(n: u32) -> Vec<f64> {
        use statrs::distribution::{ContinuousCDF, Normal};
        (0..n)
            .map(|i| Normal::standard().inverse_cdf((f64::from(i) + 0.5) / f64::from(n)))
            .collect()
    }

    #[test]
    fn is_near_the_textbook_value_for_normal_differences() {
        // A mean needs (z(0.975) + z(0.8)) / √n; a signed rank or a trimmed mean a few percent
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
    fn too_few_runs_find_no_effect() {
        assert_eq!(smallest_detectable(&normal(5), 0.05, 0.01), None);
        assert_eq!(smallest_detectable(&[], 0.05, 0.01), None);
    }
}
