//! Fits a line through cost against rate, and predicts with it.

use serde::{Deserialize, Serialize};

use tare_format::ledger::Estimate;

/// The cost at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Delivered samples per second.
    pub hz: f64,
    /// The cost as a share of CPU time.
    pub cost: Estimate,
}

/// A point's distance from the line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// Delivered samples per second.
    pub hz: f64,
    /// Measured minus fitted cost, a share of CPU time.
    pub share: f64,
}

/// The line cost = intercept + slope · rate, by least squares weighted with 1 / variance of each
/// point.
///
/// The variances are known (each point is a mean of many slices), so intervals are normal. If the
/// points scatter more than their variances allow (χ² above its degrees of freedom), all errors are
/// widened by √(χ² / freedom).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The cost of a sample in microseconds.
    pub slope_us: Estimate,
    /// The cost at 0 Hz, a share of CPU time.
    pub intercept: Estimate,
    /// Residuals of the fitted points, by rate.
    pub residuals: Vec<Residual>,
    /// χ² / degrees of freedom; `None` for two points, which a line always fits, and for one rate.
    pub chi2_per_freedom: Option<f64>,
    /// Covariance of the intercept (a share) and the slope (seconds).
    covariance: f64,
}

/// The highest rates within a budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The budget, a share of CPU time.
    pub share: f64,
    /// The rate at which the line reaches the budget.
    pub hz: f64,
    /// The rate at which the upper bound of the prediction reaches the budget.
    pub safe_hz: f64,
}

/// The budgets for which a study shows rates, as shares of CPU time.
pub const BUDGETS: [f64; 4] = [0.005, 0.01, 0.02, 0.05];

/// Maximum rate of a budget, in Hz. At higher rates the kernel would spend all its time on samples.
const HIGHEST_HZ: f64 = 1e6;

impl Fit {
    /// Fits a line. `zero` is the method's result at 0 Hz, which is subtracted from the intercept.
    /// Returns `None` for fewer than two rates.
    #[must_use]
    pub fn from_points(points: &[Point], zero: Option<&Estimate>) -> Option<Self> {
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.hz.total_cmp(&b.hz));
        let first = points.first()?;
        let last = points.last()?;
        if last.hz <= first.hz {
            return None;
        }
        // The relative error of a point is at least 0.1%: otherwise a point with a tiny error by
        // chance would determine the line alone.
        let weight = |point: &Point| {
            point.cost.error().max(point.cost.value.abs() * 1e-3).max(1e-9).powi(-2)
        };
        let sum = |value: &dyn Fn(&Point) -> f64| {
            points.iter().map(|point| weight(point) * value(point)).sum::<f64>()
        };
        let w = sum(&|_| 1.0);
        let wx = sum(&|p| p.hz);
        let wy = sum(&|p| p.cost.value);
        let mean_x = wx / w;
        let mean_y = wy / w;
        let spread = sum(&|p| (p.hz - mean_x).powi(2));
        let slope = sum(&|p| (p.hz - mean_x) * (p.cost.value - mean_y)) / spread;
        let intercept = mean_y - slope * mean_x;
        let residual = |p: &Point| p.cost.value - intercept - slope * p.hz;
        let freedom = points.len() - 2;
        let chi2_per_freedom =
            (freedom > 0).then(|| sum(&|p| residual(p).powi(2)) / freedom as f64);
        let widen = chi2_per_freedom.unwrap_or(1.0).max(1.0);
        let zero = zero.copied().unwrap_or(Estimate::exact(0.0));
        let intercept_variance = widen * (1.0 / w + mean_x.powi(2) / spread) + zero.error().powi(2);
        Some(Self {
            slope_us: Estimate::with_error(slope, (widen / spread).sqrt()).times(1e6),
            intercept: Estimate::with_error(intercept - zero.value, intercept_variance.sqrt()),
            residuals: points.iter().map(|p| Residual { hz: p.hz, share: residual(p) }).collect(),
            chi2_per_freedom,
            covariance: -widen * mean_x / spread,
        })
    }

    /// Returns the line through the origin with this cost per sample, in microseconds.
    #[must_use]
    pub fn from_one_rate(sample_us: Estimate) -> Self {
        Self {
            slope_us: sample_us,
            intercept: Estimate::exact(0.0),
            residuals: Vec::new(),
            chi2_per_freedom: None,
            covariance: 0.0,
        }
    }

    /// Predicts the cost of a rate, as a share of CPU time with its interval.
    #[must_use]
    pub fn predict(&self, hz: f64) -> Estimate {
        let slope = self.slope_us.times(1e-6);
        let variance = self.intercept.error().powi(2)
            + 2.0 * hz * self.covariance
            + (hz * slope.error()).powi(2);
        Estimate::with_error(self.intercept.value + slope.value * hz, variance.max(0.0).sqrt())
    }

    /// Finds the highest rates within a budget, up to 1 MHz; `None` if the upper bound of the cost
    /// at 0 Hz exceeds it, or the lower bound of the slope isn't above 0.
    #[must_use]
    pub fn find_budget(&self, share: f64) -> Option<Budget> {
        if self.slope_us.low <= 0.0 {
            return None;
        }
        let hz = (share - self.intercept.value) / (self.slope_us.value * 1e-6);
        let mut within = 0.0;
        let mut beyond = HIGHEST_HZ;
        if self.predict(within).high > share {
            return None;
        }
        while beyond - within > 0.5 {
            let middle = f64::midpoint(within, beyond);
            if self.predict(middle).high <= share { within = middle } else { beyond = middle }
        }
        Some(Budget { share, hz: hz.clamp(within, HIGHEST_HZ), safe_hz: within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns points of 2 us per sample plus 0.1%, with this error.
    fn points(error: f64) -> Vec<Point> {
        [100.0, 500.0, 2000.0, 4000.0]
            .map(|hz| Point { hz, cost: Estimate::with_error(0.001 + 2e-6 * hz, error) })
            .to_vec()
    }

    #[test]
    fn recovers_a_line_and_its_budgets() {
        let fit = Fit::from_points(&points(1e-5), None).unwrap();
        assert!(
            (fit.slope_us.value - 2.0).abs() < 1e-6 && (fit.intercept.value - 0.001).abs() < 1e-9,
            "{fit:?}"
        );
        assert!(fit.predict(10_000.0).contains(0.021) && fit.predict(10_000.0).half_width() < 2e-4);
        let budget = fit.find_budget(0.01).unwrap();
        assert!(
            (budget.hz - 4500.0).abs() < 1.0 && (4400.0..4500.0).contains(&budget.safe_hz),
            "{budget:?}"
        );
        assert_eq!(fit.find_budget(0.0005), None, "the intercept alone is more");
    }

    #[test]
    fn the_result_at_0_hz_is_subtracted() {
        let fit =
            Fit::from_points(&points(1e-5), Some(&Estimate::with_error(0.001, 3e-4))).unwrap();
        assert!(fit.intercept.value.abs() < 1e-9 && (fit.intercept.error() - 3e-4).abs() < 1e-5);
        assert!((fit.slope_us.value - 2.0).abs() < 1e-6);
    }

    #[test]
    fn imprecise_points_have_less_weight() {
        let mut points = points(1e-5);
        points.push(Point { hz: 5000.0, cost: Estimate::with_error(0.5, 0.3) });
        let fit = Fit::from_points(&points, None).unwrap();
        assert!((fit.slope_us.value - 2.0).abs() < 0.01, "{fit:?}");
    }

    #[test]
    fn scatter_beyond_the_errors_widens_the_intervals() {
        let mut bent = points(1e-6);
        bent[2].cost = Estimate::with_error(0.006, 1e-6);
        let straight = Fit::from_points(&points(1e-6), None).unwrap();
        let bent = Fit::from_points(&bent, None).unwrap();
        assert!(
            bent.chi2_per_freedom.unwrap() > 100.0
                && bent.slope_us.error() > 10.0 * straight.slope_us.error()
        );
        assert_eq!(bent.residuals.len(), 4);
    }

    #[test]
    fn intervals_have_their_stated_coverage() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let held = (0..1000).filter(|_| {
            let noisy: Vec<Point> = points(1e-4)
                .iter()
                .map(|p| Point {
                    hz: p.hz,
                    cost: Estimate::with_error(p.cost.value + 1e-4 * normal(), 1e-4),
                })
                .collect();
            Fit::from_points(&noisy, None).unwrap().predict(10_000.0).contains(0.021)
        });
        let held = held.count();
        assert!((930..=999).contains(&held), "{held} of 1000");
    }

    #[test]
    fn one_rate_has_no_fit() {
        assert_eq!(Fit::from_points(&points(1e-5)[..1], None), None);
        assert_eq!(Fit::from_points(&[], None), None);
    }
}
