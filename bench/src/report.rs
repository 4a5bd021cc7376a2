//! What a benchmark found: as a table, and with all raw figures as a file.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use tare_measure::statistics::{Interval, Trimmed, bootstrap_interval};

use crate::machine::Machine;
use crate::rounds::{Round, Variant};
use crate::run::Usage;

/// The 20% trimmed mean of paired figures with its 95% bootstrap interval; no interval for fewer than five rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

impl Estimate {
    /// A number that was counted, not estimated.
    pub(crate) fn exact(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// Of one figure a round.
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let value = Trimmed::of_sorted(&figures).map_or(f64::NAN, |trimmed| trimmed.mean);
        let interval = bootstrap_interval(&figures, &mut fastrand::Rng::with_seed(1));
        Self { value, low: interval.map(|Interval { low, .. }| low), high: interval.map(|Interval { high, .. }| high) }
    }

    /// Of one ratio a round: the geometric mean, as twice as much and half as much are equally far from the same.
    pub(crate) fn of_ratios(ratios: impl Iterator<Item = f64>) -> Self {
        let logs = Self::of(ratios.map(f64::ln).collect());
        Self { value: logs.value.exp(), low: logs.low.map(f64::exp), high: logs.high.map(f64::exp) }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low, self.high) {
            (Some(low), Some(high)) => write!(f, "{:.4} [{low:.4}, {high:.4}]", self.value),
            _ => write!(f, "{}", self.value),
        }
    }
}

/// A figure that has a bound.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// What was measured, with its unit.
    pub(crate) what: String,
    pub(crate) measured: Estimate,
    pub(crate) at_most: f64,
}

impl Finding {
    /// Met only where the whole interval lies within the bound.
    pub(crate) fn met(&self) -> bool {
        self.measured.high.unwrap_or(self.measured.value) <= self.at_most
    }
}

/// What a benchmark found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// What is shown above the findings.
    #[serde(skip)]
    pub(crate) table: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    /// All figures of all runs.
    pub(crate) raw: serde_json::Value,
}

impl Report {
    /// Of rounds of commands: the table has a line a command.
    pub(crate) fn of_rounds(variants: &[Variant], rounds: &[Round], findings: Vec<Finding>) -> Self {
        let mut table = vec![format!("{:<24} {:>12} {:>12} {:>12}   (trimmed means of {})", "", "elapsed ms", "CPU ms", "peak KiB", rounds.len())];
        for (at, variant) in variants.iter().enumerate() {
            let mean = |of: fn(&Usage) -> u64| Estimate::of(rounds.iter().map(|round| of(&round.usage[at]) as f64).collect()).value;
            let (elapsed, cpu, peak) = (mean(|usage| usage.elapsed_ns), mean(|usage| usage.cpu_ns), mean(|usage| usage.peak_bytes));
            table.push(format!("{:<24} {:>12.3} {:>12.3} {:>12.0}", variant.name, elapsed / 1e6, cpu / 1e6, peak / 1024.0));
        }
        Self { table, findings, raw: serde_json::json!({ "variants": variants, "rounds": rounds }) }
    }

    /// Writes everything to bench/runs/ and returns the file's path.
    ///
    /// # Errors
    /// The file system's own.
    pub(crate) fn save(&self, name: &str, machine: &Machine) -> anyhow::Result<PathBuf> {
        #[derive(Serialize)]
        struct Saved<'a> {
            version: u32,
            benchmark: &'a str,
            machine: &'a Machine,
            #[serde(flatten)]
            report: &'a Report,
        }
        let folder = PathBuf::from("bench/runs");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{name}-{}.json", machine.label()));
        let text = serde_json::to_string(&Saved { version: 1, benchmark: name, machine, report: self })?;
        std::fs::write(&file, text + "\n")?;
        Ok(file)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.table {
            writeln!(f, "  {line}")?;
        }
        for finding in &self.findings {
            let verdict = if finding.met() { "met" } else { "missed" };
            writeln!(f, "  {}: target at most {:.4}, measured {}: {verdict}", finding.what, finding.at_most, finding.measured)?;
        }
        Ok(())
    }
}
