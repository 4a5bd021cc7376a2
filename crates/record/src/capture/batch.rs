//! What lies in the ring of a CPU, until the output has it.

use tare_kernel::ring::{Batch, Ring};

use super::exec::FilteredRecords;
use super::scanner::Scanner;

/// The ring of a CPU and what it brought.
#[derive(Debug)]
pub(crate) struct CpuRing {
    /// What the output knows it by: see [`super::reader::Shared::register`].
    pub(crate) number: usize,
    pub(crate) ring: Ring,
    pub(crate) scanner: Scanner,
    /// Whether it has no record any more from before the command's execve.
    is_past_exec: bool,
}

impl CpuRing {
    pub(crate) fn new(number: usize, ring: Ring, scanner: Scanner) -> Self {
        Self { number, ring, scanner, is_past_exec: false }
    }

    /// Has what lies in the ring, up to so many bytes of it, looked through, and what is rare among
    /// its records noted; `None` where nothing lies in it. `filter` is asked as long as there may be
    /// records from before the command's execve.
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

/// What lies in a ring, and was looked through.
pub(super) struct PendingBatch<'a> {
    /// What the output knows the ring by.
    pub(super) ring: usize,
    pub(super) batch: Batch<'a>,
    /// What is appended of its beginning, where some is left out.
    passed: FilteredRecords,
    pub(super) scanner: &'a Scanner,
}

impl PendingBatch<'_> {
    /// What is appended: whole records, and those of a batch.
    pub(super) fn slices(&self) -> [&[u8]; 3] {
        self.passed.with(self.batch.slices())
    }
}
