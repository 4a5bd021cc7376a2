//! A batch of records in a CPU's ring, until the output has taken it.

use tare_kernel::ring::{Batch, Ring};

use super::exec::FilteredRecords;
use super::scanner::Scanner;

/// The ring of a CPU, with the scanner that reads its records.
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

    /// Scans the records in the ring: at most `most` bytes of them, but at least one record. Moves
    /// the scanner's noted records into `noted`. Returns `None` if the ring is empty. Calls
    /// `filter` while the ring may hold records from before the command's execve.
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
        *is_past_exec |= passed.as_ref().is_some_and(|passed| passed.filtered_bytes < batch.len());
        let mut passed = passed.unwrap_or_default();
        let [front, rest @ ..] = passed.with(batch.slices());
        scanner.see(front, rest);
        scanner.take_noted(noted);
        if scanner.has_stale_bytes {
            let records = scanner.table().trim(&passed.with(batch.slices()).concat());
            passed = FilteredRecords { records, filtered_bytes: batch.len() };
        }
        Some(PendingBatch { ring: *number, batch, passed, scanner })
    }
}

/// A batch that was scanned, and not yet appended.
pub(super) struct PendingBatch<'a> {
    /// The ring's number in the output.
    pub(super) ring: usize,
    pub(super) batch: Batch<'a>,
    /// Replaces the beginning of the batch that was filtered or rid of stale bytes.
    passed: FilteredRecords,
    pub(super) scanner: &'a Scanner,
}

impl PendingBatch<'_> {
    /// The bytes to append: whole records in three pieces, which may be split within a record.
    pub(super) fn slices(&self) -> [&[u8]; 3] {
        self.passed.with(self.batch.slices())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tare_format::abi::bindings::{PERF_SAMPLE_IDENTIFIER, PERF_TYPE_SOFTWARE};
    use tare_format::abi::{Attr, Sampling};
    use tare_format::record::Layout;
    use tare_kernel::open::{EventTarget, Kernel};
    use tare_kernel::simulated::{Simulated, SimulatedSample};

    use super::*;
    use crate::capture::scanner::EventTable;

    /// A ring with this many samples of 16 bytes.
    fn filled(samples: usize) -> CpuRing {
        let kernel = Simulated::default();
        let attr = Attr {
            kind: PERF_TYPE_SOFTWARE,
            sampling: Sampling::Period(1),
            sample_type: PERF_SAMPLE_IDENTIFIER.into(),
            ..Attr::default()
        };
        let file = kernel.open(&attr, EventTarget::Cpu(0), None).unwrap();
        let ring = Ring::map(&*file, 4096).unwrap();
        (0..samples).for_each(|_| _ = kernel.sample(0, SimulatedSample::default()));
        let ids = [vec![file.id().unwrap()]];
        let table = EventTable::new(vec![Layout::from(&attr)], &ids, Vec::new());
        CpuRing::new(0, ring, Scanner::new(&Arc::new(table)))
    }

    #[test]
    fn a_batch_holds_whole_records_and_leaves_the_rest_in_the_ring() {
        let mut ring = filled(5);
        let mut noted = Vec::new();
        let pending = ring.take(Some(40), |_| None, &mut noted).unwrap();
        assert_eq!(pending.slices().concat().len(), 32);
        assert_eq!(pending.scanner.stats.by_event[0].samples, 2);
        pending.batch.advance();
        assert_eq!(ring.ring.available(), 48);
    }

    #[test]
    fn a_ring_is_not_filtered_after_a_batch_that_the_filter_left_in_part() {
        let mut ring = filled(3);
        let mut noted = Vec::new();
        let all = FilteredRecords { records: Vec::new(), filtered_bytes: 48 };
        assert!(ring.take(None, |_| Some(all), &mut noted).unwrap().slices().concat().is_empty());
        let one = FilteredRecords { records: vec![1; 16], filtered_bytes: 16 };
        let pending = ring.take(None, |_| Some(one), &mut noted).unwrap();
        assert_eq!(pending.slices().concat()[..16], [1; 16]);
        assert_eq!(pending.slices().concat().len(), 48);
        let unfiltered = ring.take(None, |_| panic!("filtered again"), &mut noted).unwrap();
        assert_eq!(unfiltered.slices().concat().len(), 48);
    }
}
