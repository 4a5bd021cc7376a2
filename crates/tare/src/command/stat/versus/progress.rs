//! The progress bar, on a terminal and once a comparison takes longer than a second.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_measure::compare::pairs::Progress;

/// Shorter comparisons show nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Steps of the whole bar.
const STEPS: u64 = 1000;

/// A bar that appears when it is worth it.
#[derive(Default)]
pub(super) struct Bar {
    shown: Option<ProgressBar>,
}

impl Bar {
    /// Shows how far a comparison has come. Drawn between runs only, from this thread: nothing
    /// ticks while a command runs.
    pub(super) fn update(&mut self, progress: &Progress<'_>) {
        if progress.spent < PATIENCE {
            return;
        }
        let bar = self.shown.get_or_insert_with(new_bar);
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

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(
        ProgressStyle::with_template("{bar:24} {percent:>3}% {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}
