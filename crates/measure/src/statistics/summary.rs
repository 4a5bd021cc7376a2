//! Summarizes repeated runs: mean, deviation, interval, quantiles.

use super::{Interval, t_quantile};

/// Mean, standard deviation, and 95% interval of the mean.
///
/// `deviation` and `interval` need two runs; with one they are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of values.
    pub runs: usize,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation (divisor n - 1).
    pub deviation: Option<f64>,
    /// The 95% interval of the mean: mean ± t(0.975, n - 1) · deviation / √n.
    pub interval: Option<Interval>,
}

impl Summary {
    /// Summarizes these values; `None` if there are no values.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        // Relative to the first value, so that large counts that differ little keep their low
        // digits.
        let first = values[0];
        let mean = first + values.iter().map(|x| x - first).sum::<f64>() / n;
        if values.len() == 1 {
            return Some(Self { runs: 1, mean, deviation: None, interval: None });
        }
        let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let half = t_quantile(0.975, n - 1.0) * deviation / n.sqrt();
        Some(Self {
            runs: values.len(),
            mean,
            deviation: Some(deviation),
            interval: Some(Interval { low: mean - half, high: mean + half }),
        })
    }

    /// Like [`Summary::from_values`], for values that can't be negative, like counts and times: an
    /// interval that would begin below 0 begins at 0.
    #[must_use]
    pub fn from_amounts(values: &[f64]) -> Option<Self> {
        let mut summary = Self::from_values(values)?;
        if let Some(interval) = &mut summary.interval {
            interval.low = interval.low.max(0.0);
        }
        Some(summary)
    }

    /// Returns the standard error of the mean in percent of the mean, which `perf stat -r` prints:
    /// 0 for a mean of 0 and for fewer than two runs.
    #[must_use]
    pub fn standard_error_percent(&self) -> f64 {
        let error = self.deviation.map_or(0.0, |deviation| deviation / (self.runs as f64).sqrt());
        if self.mean == 0.0 { 0.0 } else { error / self.mean.abs() * 100.0 }
    }
}

/// Returns the value below which this share of the values lies, interpolated; `None` without
/// values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_quantile(&sorted, share)
}

/// Returns the median; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Like [`quantile`], for sorted values.
pub(super) fn sorted_quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    // In 0..=last by the clamp.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_runs_by_hand() {
        // Sum of squares 40 over 4: deviation √10; t(0.975, 4) = 2.776.
        let s = Summary::from_values(&[2.0, 4.0, 6.0, 8.0, 10.0]).unwrap();
        let deviation = s.deviation.unwrap();
        let interval = s.interval.unwrap();
        assert_eq!((s.runs, s.mean), (5, 6.0));
        assert!((deviation - 10f64.sqrt()).abs() < 1e-12);
        assert!((interval.half_width() - 2.776 * 2f64.sqrt()).abs() < 0.001);
    }

    #[test]
    fn one_run_has_no_deviation_and_no_run_has_no_summary() {
        let one = Summary::from_values(&[7.0]).unwrap();
        assert_eq!((one.mean, one.deviation, one.interval), (7.0, None, None));
        assert_eq!(Summary::from_values(&[]), None);
    }

    #[test]
    fn large_counts_keep_their_small_deviation() {
        let s = Summary::from_values(&[1e15, 1e15 + 1.0, 1e15 + 2.0]).unwrap();
        assert_eq!((s.mean, s.deviation), (1e15 + 1.0, Some(1.0)));
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(median(&[]), None);
    }
}
