//! The progress bar, on a terminal and once a comparison takes longer than a second.

use tare_measure::compare::pairs::Progress;

use tare_tui::{PROGRESS_AFTER, ShareBar};

/// A progress bar that appears once a comparison takes longer than a second.
#[derive(Default)]
pub(super) struct Bar {
    shown: ShareBar,
}

impl Bar {
    /// Shows the progress of a comparison, between runs: nothing is drawn while a command runs.
    pub(super) fn update(&mut self, progress: &Progress<'_>) {
        if progress.spent < PROGRESS_AFTER {
            return;
        }
        let known = progress.half_width.map_or_else(String::new, |half| {
            format!(", time ratio known to ±{:.2}%", half.exp_m1() * 100.0)
        });
        let message = format!(
            "{} pairs{known} (wanted: ±{:.2}%)",
            progress.pairs,
            progress.plan.precision.exp_m1() * 100.0
        );
        self.shown.update(progress.share(), message);
    }
}
