//! Progress of downloads from debuginfod servers: on a terminal a line for a download that takes
//! more than a second, and a message for a server that fails.

use std::sync::{Mutex, PoisonError};
use tare_symbols::DownloadProgress;
use tare_tui::ProgressLine;

use crate::exit::say;

/// Returns a callback that shows the progress of downloads.
pub(crate) fn shown() -> Box<dyn Fn(DownloadProgress<'_>) + Send + Sync> {
    let current: Mutex<Option<ProgressLine>> = Mutex::new(None);
    Box::new(move |event| {
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            DownloadProgress::Asks { url } => {
                let progress = ProgressLine::begin();
                progress.receive(url);
                *current = Some(progress);
            }
            DownloadProgress::Received { bytes, of } => {
                current.iter().for_each(|progress| progress.received(bytes, of));
            }
            DownloadProgress::Ended => *current = None,
            DownloadProgress::Failed { url, why } => say(&format!("{url}: {why}")),
        }
    })
}
