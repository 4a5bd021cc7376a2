//! Results of a benchmark: a table, findings with their bounds, and a file with all raw figures.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use tare_measure::statistics::{Interval, TrimmedMean, bootstrap_interval, median};

use crate::machine::HostInfo;
use crate::rounds::{Round, Variant};
use crate::run::Usage;

/// A figure with its interval: 95% of a bootstrap, or at least 95% of a median. Exact figures and
/// those of too few rounds have no interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

impl Estimate {
    /// A figure without an interval.
    pub(crate) fn exact(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// The 20% trimmed mean of one figure per round, with a bootstrap interval from five rounds on.
    pub(crate) fn from_figures(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let value = TrimmedMean::from_sorted(&figures).map_or(f64::NAN, |trimmed| trimmed.mean);
        let interval = bootstrap_interval(&figures, &mut fastrand::Rng::with_seed(1));
        Self {
            value,
            low: interval.map(|Interval { low, .. }| low),
            high: interval.map(|Interval { high, .. }| high),
        }
    }

    /// The median with the interval of the sign test, at least 95%, from six figures on.
    pub(crate) fn median(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let n = figures.len();
        let mut below = 0.0;
        // In n tosses of a coin, `chance` is the probability of exactly `rank` heads and `below`
        // that of fewer. Their sum may reach 2.5%.
        let mut chance = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
        let mut rank = 0;
        while rank < n && below + chance <= 0.025 {
            below += chance;
            chance *= (n - rank) as f64 / (rank + 1) as f64;
            rank += 1;
        }
        let at = |at: usize| figures.get(at).copied().filter(|_| rank > 0);
        Self {
            value: median(&figures).unwrap_or(f64::NAN),
            low: at(rank.wrapping_sub(1)),
            high: at(n.wrapping_sub(rank)),
        }
    }

    /// The geometric trimmed mean of one ratio per round: on the logarithmic scale 2 and 1/2 are
    /// equally far from 1.
    pub(crate) fn of_ratios(ratios: impl Iterator<Item = f64>) -> Self {
        let logs = Self::from_figures(ratios.map(f64::ln).collect());
        Self { value: logs.value.exp(), low: logs.low.map(f64::exp), high: logs.high.map(f64::exp) }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low, self.high) {
            (Some(low), Some(high)) => write!(f, "{:.4} [{low:.4}, {high:.4}]", self.value),
            _ => write!(f, "{}", (self.value * 1e4).round() / 1e4),
        }
    }
}

/// A figure with a bound.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// Name and unit of the figure.
    pub(crate) what: String,
    pub(crate) measured: Estimate,
    #[serde(flatten)]
    pub(crate) bound: Bound,
}

/// The bound of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// A bound for the estimate alone; its interval is only printed, because noise dominates it.
    EstimateAtMost(f64),
    /// A lower bound for the estimate alone.
    EstimateAtLeast(f64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "at most {bound:.4}"),
            Self::AtLeast(bound) => write!(f, "at least {bound:.4}"),
            Self::EstimateAtMost(bound) => {
                write!(f, "(the estimate, not its interval) at most {bound:.4}")
            }
            Self::EstimateAtLeast(bound) => {
                write!(f, "(the estimate, not its interval) at least {bound:.4}")
            }
        }
    }
}

impl Finding {
    /// Whether the whole interval lies within the bound; the estimate, if it has no interval or the
    /// bound is for the estimate alone.
    pub(crate) fn met(&self) -> bool {
        let Estimate { value, low, high } = self.measured;
        match self.bound {
            Bound::AtMost(bound) => high.unwrap_or(value) <= bound,
            Bound::AtLeast(bound) => low.unwrap_or(value) >= bound,
            Bound::EstimateAtMost(bound) => value <= bound,
            Bound::EstimateAtLeast(bound) => value >= bound,
        }
    }
}

/// Results of a benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Lines to print above the findings.
    #[serde(skip)]
    pub(crate) table: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    /// All raw figures.
    pub(crate) raw: serde_json::Value,
}

impl Report {
    /// A report of rounds with one line per variant in the table.
    pub(crate) fn of_rounds(
        variants: &[Variant],
        rounds: &[Round],
        findings: Vec<Finding>,
    ) -> Self {
        let mut table = vec![format!(
            "{:<24} {:>12} {:>12} {:>12}   (trimmed means of {})",
            "",
            "elapsed ms",
            "CPU ms",
            "peak KiB",
            rounds.len()
        )];
        for (at, variant) in variants.iter().enumerate() {
            let mean = |of: fn(&Usage) -> u64| {
                Estimate::from_figures(
                    rounds.iter().map(|round| of(&round.usage[at]) as f64).collect(),
                )
                .value
            };
            let elapsed = mean(|usage| usage.elapsed_ns);
            let cpu = mean(|usage| usage.cpu_ns);
            let peak = mean(|usage| usage.peak_bytes);
            table.push(format!(
                "{:<24} {:>12.3} {:>12.3} {:>12.0}",
                variant.name,
                elapsed / 1e6,
                cpu / 1e6,
                peak / 1024.0
            ));
        }
        Self { table, findings, raw: serde_json::json!({ "variants": variants, "rounds": rounds }) }
    }

    /// Writes all figures to bench/runs/ and returns the file's path.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn save(&self, name: &str, machine: &HostInfo) -> anyhow::Result<PathBuf> {
        #[derive(Serialize)]
        struct SavedReport<'a> {
            version: u32,
            benchmark: &'a str,
            machine: &'a HostInfo,
            #[serde(flatten)]
            report: &'a Report,
        }
        let folder = PathBuf::from("bench/runs");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{name}-{}.json", machine.label()));
        let text = serde_json::to_string(&SavedReport {
            version: 1,
            benchmark: name,
            machine,
            report: self,
        })?;
        std::fs::write(&file, text + "\n")?;
        Ok(file)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.table {
            writeln!(f, "  {line}")?;
        }
        let rows = self.findings.iter().map(|finding| {
            let verdict = if finding.met() { "met" } else { "NOT MET" };
            [
                finding.what.clone(),
                finding.bound.to_string(),
                finding.measured.to_string(),
                verdict.into(),
            ]
        });
        let heading = ["figure", "limit", "measured", ""].map(str::to_owned);
        let rows: Vec<[String; 4]> = std::iter::once(heading).chain(rows).collect();
        let width =
            |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
        let [first, second, third] = [0, 1, 2].map(width);
        for [what, bound, measured, verdict] in rows.iter().filter(|_| rows.len() > 1) {
            let line = format!("  {what:first$}  {bound:second$}  {measured:third$}  {verdict}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_the_interval_of_the_sign_test() {
        let figures = |n: u32| (1..=n).map(f64::from).collect();
        let five = Estimate::median(figures(5));
        assert_eq!((five.value, five.low, five.high), (3.0, None, None));
        let six = Estimate::median(figures(6));
        assert_eq!((six.value, six.low, six.high), (3.5, Some(1.0), Some(6.0)));
        // The tables of the sign test give the 6th of 20 from either end.
        let twenty = Estimate::median(figures(20));
        assert_eq!((twenty.low, twenty.high), (Some(6.0), Some(15.0)));
    }

    #[test]
    fn a_bound_is_met_by_the_whole_interval_unless_it_is_one_of_the_estimate() {
        let finding = |bound| Finding {
            what: String::new(),
            measured: Estimate { value: 2.0, low: Some(1.0), high: Some(3.0) },
            bound,
        };
        assert!(finding(Bound::AtMost(3.0)).met() && !finding(Bound::AtMost(2.5)).met());
        assert!(finding(Bound::AtLeast(1.0)).met() && !finding(Bound::AtLeast(1.5)).met());
        assert!(
            finding(Bound::EstimateAtMost(2.0)).met() && !finding(Bound::EstimateAtMost(1.5)).met()
        );
        assert!(
            finding(Bound::EstimateAtLeast(2.0)).met()
                && !finding(Bound::EstimateAtLeast(2.5)).met()
        );
    }
}
