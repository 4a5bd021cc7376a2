//! Statistics of repeated runs: pure functions, deterministic for a seed.
//!
//! docs/internals/statistics.md explains the choice of methods.

mod bootstrap;
mod estimate;
mod holm;
mod sequential;
mod signed_rank;
mod summary;
mod trimmed;

pub use bootstrap::bootstrap_interval;
pub use estimate::estimate;
pub use holm::holm;
pub use sequential::{SequentialTest, detectable, fewest_pairs};
pub use signed_rank::signed_rank;
pub use summary::{Summary, median, quantile};
pub use trimmed::{TRIM_DIVISOR, TrimmedMean};

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// A two-sided interval, in the unit of its quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Half of its width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Returns the value below which Student's t with `freedom` degrees of freedom is with this
/// probability.
#[must_use]
pub fn t_quantile(probability: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
}

/// Returns the probability that Student's t with `freedom` degrees of freedom is above `t`.
#[must_use]
pub fn t_above(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |of| of.sf(t))
}

/// Returns the probability that a standard normal variable is below `z`.
fn normal_below(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_quantiles_match_the_printed_tables() {
        for (probability, freedom, wanted) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 4.0, 2.776),
            (0.975, 9.0, 2.262),
            (0.975, 29.0, 2.045),
            (0.995, 5.0, 4.032),
            (0.8, 10.0, 0.879),
        ] {
            let t = t_quantile(probability, freedom);
            assert!(
                (t - wanted).abs() < 0.0006,
                "t({probability}, {freedom}) = {t}, {wanted} in the table"
            );
        }
        assert!((t_quantile(0.025, 7.0) + t_quantile(0.975, 7.0)).abs() < 1e-6, "symmetric");
    }

    #[test]
    fn the_normal_matches_the_printed_table() {
        assert!((normal_below(-1.959_964) - 0.025).abs() < 1e-6);
        assert!((normal_below(0.0) - 0.5).abs() < 1e-9);
    }
}
