//! A trimmed mean with its interval.

use fastrand::Rng;
use tare_format::ledger::Estimate;

use super::{Interval, TrimmedMean, bootstrap_interval};

/// Computes the 20% trimmed mean of the finite values with its 95% bootstrap interval; `None` for
/// fewer than five.
#[must_use]
pub fn estimate(values: impl IntoIterator<Item = f64>, rng: &mut Rng) -> Option<Estimate> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let Interval { low, high } = bootstrap_interval(&sorted, rng)?;
    Some(Estimate { value: TrimmedMean::from_sorted(&sorted)?.mean, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_five_values_have_no_interval() {
        assert_eq!(estimate([1.0; 4], &mut Rng::with_seed(1)), None);
        assert_eq!(
            estimate([2.0, 2.0, 2.0, 2.0, 2.0, f64::NAN], &mut Rng::with_seed(1)),
            Some(Estimate::exact(2.0))
        );
    }
}
