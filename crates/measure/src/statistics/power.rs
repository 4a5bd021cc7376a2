//! What a comparison could have found.

use super::{Trimmed, t_quantile};

/// The smallest true effect that runs with this spread find in 4 of 5 comparisons, in the unit of the differences.
///
/// Found means: a p below `level` (5% divided by the number of metrics, which is what Holm asks of the smallest p), and an estimate of at
/// least `relevant`. With t at the error's degrees of freedom:
///
/// ```text
/// the larger of  (t(1 - level / 2) + t(0.8)) · error  and  relevant + t(0.8) · error
/// ```
#[must_use]
pub fn smallest_detectable(spread: &Trimmed, level: f64, relevant: f64) -> f64 {
    if spread.freedom == 0 {
        return f64::INFINITY;
    }
    let freedom = spread.freedom as f64;
    let found = t_quantile(1.0 - level / 2.0, freedom) * spread.error;
    found.max(relevant) + t_quantile(0.8, freedom) * spread.error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_samples_match_the_textbook() {
        // z(0.975) + z(0.8) = 1.960 + 0.842.
        let spread = Trimmed { mean: 0.0, error: 0.01, freedom: 100_000 };
        assert!((smallest_detectable(&spread, 0.05, 0.0) - 0.02802).abs() < 0.0001);
        assert!((smallest_detectable(&spread, 0.05, 0.03) - 0.03842).abs() < 0.0001, "the estimate must reach the relevant effect");
        assert_eq!(smallest_detectable(&Trimmed { error: 0.0, ..spread }, 0.05, 0.01), 0.01);
    }

    #[test]
    fn one_value_finds_nothing() {
        assert_eq!(smallest_detectable(&Trimmed { mean: 1.0, error: 0.0, freedom: 0 }, 0.05, 0.01), f64::INFINITY);
    }
}
