//! A figure with its 95% interval.

use serde::{Deserialize, Serialize};

/// Half width of a 95% interval in standard errors, for a normal distribution.
const Z95: f64 = 1.959_964;

/// A figure with its 95% interval, in its own unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Estimate {
    /// Creates a figure without uncertainty.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Creates a figure from its standard error.
    #[must_use]
    pub fn with_error(value: f64, error: f64) -> Self {
        Self { value, low: value - Z95 * error, high: value + Z95 * error }
    }

    /// Returns its standard error, computed from the interval's width.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.high - self.low) / (2.0 * Z95)
    }

    /// Returns half of the interval's width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Multiplies the figure and its interval, for example to convert the unit.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let a = self.low * factor;
        let b = self.high * factor;
        Self { value: self.value * factor, low: a.min(b), high: a.max(b) }
    }

    /// Returns the difference to a figure that was measured independently.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            value: self.value - other.value,
            low: self.value - other.value - (self.value - self.low).hypot(other.high - other.value),
            high: self.value - other.value
                + (self.high - self.value).hypot(other.value - other.low),
        }
    }

    /// Whether the interval contains a number.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_widen_and_factors_scale() {
        let a = Estimate { value: 5.0, low: 2.0, high: 8.0 };
        let b = Estimate { value: 1.0, low: -3.0, high: 5.0 };
        assert_eq!(a.minus(&b), Estimate { value: 4.0, low: -1.0, high: 9.0 });
        assert_eq!(a.times(-2.0), Estimate { value: -10.0, low: -16.0, high: -4.0 });
        assert!(a.contains(2.0) && !a.contains(8.1));
    }

    #[test]
    fn the_interval_has_the_width_of_its_standard_error() {
        assert!((Estimate::with_error(3.0, 0.5).error() - 0.5).abs() < 1e-12);
    }
}
