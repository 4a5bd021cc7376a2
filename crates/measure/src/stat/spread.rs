//! The spread of repeated runs as text.

use crate::statistics::Summary;

/// A digit further to the right is of no use to anybody.
const MOST_DECIMALS: usize = 6;

/// How many decimals show a mean and its standard deviation, where both would have `at_least`: so
/// many that neither is rounded to 0 when it isn't.
pub(super) fn decimals(summary: &Summary, at_least: usize) -> usize {
    let needed = |value: f64| {
        (0..=MOST_DECIMALS)
            .find(|&decimals| value * 10f64.powi(i32::try_from(decimals).unwrap_or(0)) >= 0.95)
            .unwrap_or(MOST_DECIMALS)
    };
    let figures = [Some(summary.mean), summary.deviation];
    let shown = figures.into_iter().flatten().filter(|&value| value > 0.0);
    shown.map(needed).fold(at_least, usize::max)
}

/// `± deviation (percent of the mean)  [95% interval of the mean]`; empty for a single run. The
/// percentage is left out above 100%: of a mean near 0 it says nothing that the deviation doesn't.
pub(super) fn spread(summary: &Summary, decimals: usize) -> String {
    let (Some(deviation), Some(interval)) = (summary.deviation, summary.interval) else {
        return String::new();
    };
    let share = if deviation == 0.0 { 0.0 } else { deviation / summary.mean.abs() };
    let percent = if share <= 1.0 { format!(" ({:.1}%)", share * 100.0) } else { String::new() };
    format!(
        "  ± {deviation:.decimals$}{percent}  [{:.decimals$} .. {:.decimals$}]",
        interval.low, interval.high
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &[f64], at_least: usize) -> String {
        let summary = Summary::of_amounts(values).unwrap();
        let decimals = decimals(&summary, at_least);
        format!("{:.decimals$}{}", summary.mean, spread(&summary, decimals))
    }

    #[test]
    fn a_usual_spread_keeps_its_form() {
        assert_eq!(shown(&[100.0, 102.0, 104.0], 0), "102  ± 2 (2.0%)  [97 .. 107]");
        assert_eq!(shown(&[5.0, 5.0], 0), "5  ± 0 (0.0%)  [5 .. 5]");
        assert_eq!(shown(&[7.0], 0), "7");
    }

    #[test]
    fn what_occurred_once_in_thousands_of_runs_is_not_rounded_away() {
        let mut values = vec![0.0; 3569];
        values.push(1.0);
        assert_eq!(shown(&values, 1), "0.0003  ± 0.0167  [0.0000 .. 0.0008]");
    }

    #[test]
    fn no_interval_of_a_count_goes_below_zero() {
        assert_eq!(shown(&[0.0, 0.0, 0.0, 0.0, 1.0], 1), "0.2  ± 0.4  [0.0 .. 0.8]");
    }
}
