//! The progress bar, once a series takes longer than a second.

use std::time::Duration;

use tare_measure::compare::Metric;
use tare_measure::series::CommandRuns;
use tare_measure::series::schedule::SeriesProgress;
use tare_tui::{PROGRESS_AFTER, ShareBar};

use super::text::TimeUnit;

/// Time between updates: computing the estimate takes longer than a short run.
const UPDATED_AFTER: Duration = Duration::from_millis(200);

/// A progress bar with the running estimate.
#[derive(Default)]
pub(super) struct Bar {
    shown: ShareBar,
    updated: Duration,
}

impl Bar {
    /// Shows the progress of a series, between rounds.
    pub(super) fn update(&mut self, progress: &SeriesProgress<'_>) {
        if progress.spent < PROGRESS_AFTER || progress.spent < self.updated + UPDATED_AFTER {
            return;
        }
        self.updated = progress.spent;
        let runs = progress.runs.iter().map(CommandRuns::len).sum::<usize>();
        let estimate = match progress.half_width {
            Some(half) if half.is_finite() => {
                format!(", time ratios known to ±{:.2}%", half.exp_m1() * 100.0)
            }
            _ => progress.runs.first().map_or_else(String::new, |runs| {
                let times = runs.values(&Metric::Time);
                let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
                let unit = TimeUnit::suiting(mean);
                format!(", mean {} {}", unit.number(mean), unit.symbol())
            }),
        };
        self.shown.update(progress.share(), format!("{runs} runs{estimate}"));
    }
}
