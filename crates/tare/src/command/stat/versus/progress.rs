//! The progress bar, on a terminal and once a comparison takes longer than a second.

use indicatif::ProgressBar;
use tare_measure::compare::pairs::Progress;

use tare_tui::{PROGRESS_AFTER, progress_bar};

/// Steps of the whole bar.
const STEPS: u64 = 1000;

/// A progress bar that appears once a comparison takes longer than a second.
#[derive(Default)]
pub(super) struct Bar {
    shown: Option<ProgressBar>,
}

impl Bar {
    /// Shows the progress of a comparison. Drawn between runs only, from this thread: nothing
    /// ticks while a command runs.
    pub(super) fn update(&mut self, progress: &Progress<'_>) {
        if progress.spent < PROGRESS_AFTER {
            return;
        }
        let bar =
            self.shown.get_or_insert_with(|| progress_bar(STEPS, "{bar:24} {percent:>3}% {msg}"));
        let known = progress.half_width.map_or_else(String::new, |half| {
            format!(", time ratio known to ±{:.2}%", half.exp_m1() * 100.0)
        });
        bar.set_message(format!(
            "{} pairs{known} (wanted: ±{:.2}%)",
            progress.pairs,
            progress.plan.precision.exp_m1() * 100.0
        ));
        // A share of 0 to 1.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        bar.set_position((progress.share() * STEPS as f64) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
