//! What a user sees of downloads from debuginfod servers: on a terminal how far one is that takes
//! more than a second, and why a server is of no use.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_symbols::Progress;

use crate::exit::say;

/// Shorter downloads are not shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const REDRAWN_AFTER: Duration = Duration::from_millis(200);

/// Shows what a client tells of its work.
pub(crate) fn shown() -> Box<dyn Fn(Progress<'_>) + Send + Sync> {
    let current: Mutex<Option<ProgressBar>> = Mutex::new(None);
    Box::new(move |progress| {
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Asks { url } if std::io::stderr().is_terminal() => *current = Some(bar(url)),
            Progress::Asks { .. } => {}
            Progress::Received { bytes, of } => {
                if let Some(bar) = &*current {
                    of.into_iter().for_each(|of| bar.set_length(of));
                    bar.set_position(bytes);
                }
            }
            Progress::Ended => {
                current.take().into_iter().for_each(|bar| bar.finish_and_clear());
            }
            Progress::Failed { url, why } => say(&format!("{url}: {why}")),
        }
    })
}

/// A line for a download, which is drawn if that goes on.
fn bar(url: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template("tare: {msg}: {bytes}") {
        bar.set_style(style);
    }
    bar.set_message(tare_format::printable(url.as_bytes()).to_string());
    let waiting = bar.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(SHOWN_AFTER);
        if let Some(bar) = waiting.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(REDRAWN_AFTER);
        }
    });
    bar
}
