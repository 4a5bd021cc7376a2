//! Rounds of a comparison.

use std::time::Duration;

use tare_measure::compare::pairs::ComparisonPlan;

use crate::cli::raw;
use crate::exit::Refusal;

/// Limits and seed of the rounds, and the smallest relevant difference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Uncounted rounds.
    pub(super) warmup: usize,
    /// Fewest counted rounds.
    pub(super) min: usize,
    /// Most counted rounds.
    pub(super) max: usize,
    /// Time after which no round starts, once `min` are counted.
    pub(super) max_time: Duration,
    /// Smallest relevant difference, as a share.
    pub(super) min_effect: f64,
    /// Seed of the order of measurements.
    pub(super) seed: u64,
}

impl Rounds {
    /// Resolves the options of a comparison of this many metrics.
    ///
    /// # Errors
    /// Fails with a usage message if a value is out of range, or the limits contradict each other.
    pub(super) fn resolve(raw: &raw::RoundArgs, metrics: usize) -> Result<Self, Refusal> {
        let max = raw.max_runs;
        if max == 0 {
            return Err(Refusal::usage("--max-runs 0 makes no run"));
        }
        let needed = ComparisonPlan::fewest_pairs(metrics).max(raw::MIN_ROUNDS);
        let min = raw.min_runs.unwrap_or(needed.min(max));
        if min > max {
            return Err(Refusal::usage(format!("--min-runs {min} is more than --max-runs {max}")));
        }
        let seconds = raw.max_time;
        let max_time = Duration::try_from_secs_f64(seconds).map_err(|_| {
            Refusal::usage(format!("--max-time: {seconds} is not a number of seconds"))
        })?;
        let min_effect = min_effect(&raw.min_effect)?;
        let seed = raw.seed.unwrap_or_else(|| fastrand::u64(..));
        Ok(Self { warmup: raw.warmup, min, max, max_time, min_effect, seed })
    }
}

pub(super) fn min_effect(text: &str) -> Result<f64, Refusal> {
    let percent: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let percent = percent.filter(|percent| (0.001..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| {
        Refusal::usage(format!("--min-effect: '{text}' is not a percentage from 0.001% to 100%"))
    })
}
