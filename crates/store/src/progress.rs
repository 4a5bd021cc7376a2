//! How far a scan has come.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How far scans have come, and whether they are still wanted. Threads share it.
#[derive(Debug, Default)]
pub struct ScanProgress {
    is_stopped: AtomicBool,
    read: AtomicUsize,
    parts: AtomicUsize,
}

impl ScanProgress {
    /// Ends scans before their next part, with [`StoreError::Stopped`](crate::StoreError::Stopped).
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether scans are to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns the number of parts of files that were begun, and of parts known so far.
    #[must_use]
    pub fn parts(&self) -> [usize; 2] {
        [&self.read, &self.parts].map(|count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn count_read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_parts(&self, parts: usize) {
        self.parts.fetch_add(parts, Ordering::Relaxed);
    }
}
