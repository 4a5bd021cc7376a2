//! What a user sees of downloads from debuginfod servers: on a terminal how far one is that takes
//! more than a second, and why a server is of no use.

use std::sync::{Mutex, PoisonError};
use tare_tui::ProgressLine;

use crate::exit::say;

/// Shows what a client tells of its work.
pub(crate) fn shown() -> Box<dyn Fn(tare_symbols::Progress<'_>) + Send + Sync> {
    use tare_symbols::Progress as Told;
    let current: Mutex<Option<ProgressLine>> = Mutex::new(None);
    Box::new(move |told| {
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Asks { url } => {
                let progress = ProgressLine::begin();
                progress.receive(url);
                *current = Some(progress);
            }
            Told::Received { bytes, of } => {
                current.iter().for_each(|progress| progress.received(bytes, of));
            }
            Told::Ended => *current = None,
            Told::Failed { url, why } => say(&format!("{url}: {why}")),
        }
    })
}
