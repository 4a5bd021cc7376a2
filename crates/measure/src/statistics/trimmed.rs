//! The 20% trimmed mean and its standard error: the centre of paired differences.

use super::t_quantile;

/// Divisor for the number of values trimmed at each end: 5 for 20%.
pub const TRIM_DIVISOR: usize = 5;

/// The mean of the values that remain after 20% are trimmed at each end, with its standard error.
///
/// ```text
/// g  = n / 5 (rounded down) values trimmed at each end,  h = n - 2g kept
/// sw = standard deviation after the g lowest and highest are set to the nearest kept value
/// error = sw / ((h / n) · √n)
/// ```
///
/// Tukey and McLaughlin (1963); see Wilcox, Introduction to Robust Estimation and Hypothesis
/// Testing, chapter 3. If a busy neighbour slows one run of a pair down, the size of the large
/// difference changes the mean, but not the trimmed mean of five pairs or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrimmedMean {
    /// The trimmed mean.
    pub mean: f64,
    /// Its standard error; 0 for a single value, whose error is unknown.
    pub error: f64,
    /// Degrees of freedom of the error: h - 1.
    pub freedom: usize,
}

impl TrimmedMean {
    /// Computes the mean of sorted values; `None` without values.
    #[must_use]
    pub fn from_sorted(sorted: &[f64]) -> Option<Self> {
        let n = sorted.len();
        let cut = n / TRIM_DIVISOR;
        let kept = sorted.get(cut..n - cut).filter(|kept| !kept.is_empty())?;
        let low = kept[0];
        let high = kept[kept.len() - 1];
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let freedom = kept.len() - 1;
        if n == 1 {
            return Some(Self { mean, error: 0.0, freedom });
        }
        let winsorized_mean = sorted.iter().map(|x| x.clamp(low, high)).sum::<f64>() / n as f64;
        let squares: f64 =
            sorted.iter().map(|x| (x.clamp(low, high) - winsorized_mean).powi(2)).sum();
        let deviation = (squares / (n - 1) as f64).sqrt();
        Some(Self { mean, error: deviation * (n as f64).sqrt() / kept.len() as f64, freedom })
    }

    /// Returns half the width of its 95% interval by Student's t; `None` for a single value.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        (self.freedom > 0).then(|| t_quantile(0.975, self.freedom as f64) * self.error)
    }

    /// Returns the share of bootstrap replicates to cut at each end: Φ(-√(n / (n - 1)) · t(0.975,
    /// freedom)). See [`bootstrap_interval`](super::bootstrap_interval).
    pub(super) fn tail(&self, n: usize) -> f64 {
        let widen = (n as f64 / (n as f64 - 1.0)).sqrt();
        super::normal_below(-widen * t_quantile(0.975, self.freedom as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_values_by_hand() {
        // Two are trimmed at each end; 3..=8 stay. Winsorized: 3 3 3 4 5 6 7 8 8 8. The sum of
        // squares around 5.5 is 42.5, divided by 9.
        let t =
            TrimmedMean::from_sorted(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1e9]).unwrap();
        assert_eq!((t.mean, t.freedom), (5.5, 5));
        assert!((t.error - (42.5f64 / 9.0).sqrt() / (0.6 * 10f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn few_values_are_not_trimmed() {
        assert_eq!(TrimmedMean::from_sorted(&[2.0, 4.0]).unwrap().mean, 3.0);
        assert_eq!(
            TrimmedMean::from_sorted(&[2.0]).unwrap(),
            TrimmedMean { mean: 2.0, error: 0.0, freedom: 0 }
        );
        assert_eq!(TrimmedMean::from_sorted(&[]), None);
    }
}
