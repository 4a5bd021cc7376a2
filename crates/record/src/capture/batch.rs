//! A batch of records in a CPU's ring, until the output has taken it.

use tare_kernel::ring::{Batch, Ring};

use super::exec::FilteredRecords;
use super::scanner::Scanner;

/// The ring of a CPU, with the scanner that has read its records.
#[derive(Debug)]
pub(crate) struct CpuRing {
    /// The ring's number in the output: see [`super::reader::SharedOutput::register`].
    pub(crate) number: usize,
    pub(crate) ring: Ring,
    pub(crate) scanner: Scanner,
    /// Whether the ring has passed the command's execve: it holds no older records.
    is_past_exec: bool,
}

impl CpuRing {
    pub(crate) fn new(number: usize, ring: Ring, scanner: Scanner) -> Self {
        Self { number, ring, scanner, is_past_exec: false }
    }

    /// Scans the records in the ring, at most `most` bytes of them, and moves the rare ones into
    /// `noted`. Returns `None` if the ring is empty. Calls `filter` while the ring may hold records
    /// from before the command's execve.
    pub(super) fn take(
        &mut self,
        most: Option<usize>,
        filter: impl FnOnce(&Batch<'_>) -> Option<FilteredRecords>,
        noted: &mut Vec<u8>,
    ) -> Option<PendingBatch<'_>> {
        let Self { number, ring, scanner, is_past_exec } = self;
        let mut batch = ring.batch();
        most.into_iter().for_each(|most| batch.shorten(most));
        if batch.is_empty() {
            return None;
        }
        let passed = if *is_past_exec { None } else { filter(&batch) };
        *is_past_exec |= passed.as_ref().is_some_and(|passed| passed.looked_at < batch.len());
        let passed = passed.unwrap_or_default();
        let [front, rest @ ..] = passed.with(batch.slices());
        scanner.see(front, rest);
        scanner.take_noted(noted);
        Some(PendingBatch { ring: *number, batch, passed, scanner })
    }
}

/// A batch that was scanned, and not yet appended.
pub(super) struct PendingBatch<'a> {
    /// The ring's number in the output.
    pub(super) ring: usize,
    pub(super) batch: Batch<'a>,
    /// Replaces the filtered beginning of the batch.
    passed: FilteredRecords,
    pub(super) scanner: &'a Scanner,
}

impl PendingBatch<'_> {
    /// The bytes to append: whole records in three pieces.
    pub(super) fn slices(&self) -> [&[u8]; 3] {
        self.passed.with(self.batch.slices())
    }
}
