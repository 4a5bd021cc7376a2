//! Takes the place of `pusher` in a build without the feature `push`, where no target is valid.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tare_store::Segment;

use super::target::PushTarget;
use super::totals::PushTotals;

/// Has no value.
#[derive(Debug)]
pub enum Pusher {}

impl Pusher {
    /// Returns `None`.
    ///
    /// # Errors
    /// Never.
    pub fn start(_targets: &[PushTarget], _folder: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Is never called.
    pub fn push(&self, _window: Arc<Segment>) {
        match *self {}
    }

    /// Is never called.
    #[must_use]
    pub fn totals(&self) -> Vec<PushTotals> {
        match *self {}
    }

    /// Is never called.
    #[must_use]
    pub fn finish(self) -> Vec<PushTotals> {
        match self {}
    }
}
