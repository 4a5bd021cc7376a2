//! Formats the spread of repeated runs.

use crate::statistics::Summary;

/// Number of decimals after which smaller figures are rounded to 0.
const MOST_DECIMALS: usize = 6;

/// Returns the number of decimals for a mean and its standard deviation: at least `at_least`, and
/// enough that neither is rounded to 0 if [`MOST_DECIMALS`] suffice.
pub(super) fn count_decimals(summary: &Summary, at_least: usize) -> usize {
    let needed = |value: f64| {
        (0..=MOST_DECIMALS)
            .find(|&decimals| value * 10f64.powi(i32::try_from(decimals).unwrap_or(0)) >= 0.95)
            .unwrap_or(MOST_DECIMALS)
    };
    let figures = [Some(summary.mean), summary.deviation];
    let shown = figures.into_iter().flatten().filter(|&value| value > 0.0);
    shown.map(needed).fold(at_least, usize::max)
}

/// Formats `± deviation (percent of the mean)  [95% interval of the mean]  ( +- error% )`; empty for
/// a single run. The last part has the form of `perf stat`, for programs that look for it. A
/// percentage of the deviation above 100% is left out: it only shows that the mean is near 0.
pub(super) fn format_spread(summary: &Summary, decimals: usize) -> String {
    let Some(deviation) = summary.deviation else { return String::new() };
    let Some(interval) = summary.interval else { return String::new() };
    let share = if deviation == 0.0 { 0.0 } else { deviation / summary.mean.abs() };
    let percent = if share <= 1.0 { format!(" ({:.1}%)", share * 100.0) } else { String::new() };
    format!(
        "  ± {deviation:.decimals$}{percent}  [{:.decimals$} .. {:.decimals$}]  ( +-{:6.2}% )",
        interval.low,
        interval.high,
        summary.standard_error_percent()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(values: &[f64], at_least: usize) -> String {
        let summary = Summary::from_amounts(values).unwrap();
        let decimals = count_decimals(&summary, at_least);
        format!("{:.decimals$}{}", summary.mean, format_spread(&summary, decimals))
    }

    #[test]
    fn formats_deviation_percentage_and_interval() {
        assert_eq!(
            format(&[100.0, 102.0, 104.0], 0),
            "102  ± 2 (2.0%)  [97 .. 107]  ( +-  1.13% )"
        );
        assert_eq!(format(&[5.0, 5.0], 0), "5  ± 0 (0.0%)  [5 .. 5]  ( +-  0.00% )");
        assert_eq!(format(&[7.0], 0), "7");
    }

    #[test]
    fn a_single_occurrence_in_thousands_of_runs_is_not_rounded_to_0() {
        let mut values = vec![0.0; 3569];
        values.push(1.0);
        assert_eq!(format(&values, 1), "0.0003  ± 0.0167  [0.0000 .. 0.0008]  ( +-100.00% )");
    }

    #[test]
    fn intervals_of_counts_do_not_go_below_0() {
        assert_eq!(
            format(&[0.0, 0.0, 0.0, 0.0, 1.0], 1),
            "0.2  ± 0.4  [0.0 .. 0.8]  ( +-100.00% )"
        );
    }
}
