//! Counts the records of a file whose data had to end early: the output was handed more records
//! than the file holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use tare_format::file::Reader;
use tare_format::file::writer::Description;
use tare_format::record::{RecordHeader, kind};

use super::{Recording, RecordingState};
use crate::capture::scanner::{EventTable, Scanner};
use crate::capture::stats::{FileStats, Stats};
use crate::output::disk::CutFile;

/// Bytes reserved for an event in the ledger.
const EVENT_BYTES: u64 = 1 << 10;

/// Bytes reserved for the rest of a ledger.
const LEDGER_BYTES: u64 = 4 << 10;

impl Recording {
    /// If the output takes nothing more, cuts its data until the end of the file fits, and counts
    /// the rest. Returns `None` if everything appended is there, or if the output can't be cut.
    pub(super) fn recount(&mut self, description: &Description) -> Option<FileCounts> {
        let room = room_for_end(description);
        // A lack of room is a failure like any other.
        let _ = self.capture.shared.with_output(|output| output.reserve(room));
        let file = self.capture.shared.with_output(|output| output.cut_back(room))?;
        if let Err(why) = self.capture.shared.flush()
            && !self.is_stopped()
        {
            self.state = RecordingState::Stopped(why.into());
        }
        Some(count(file, &self.capture.shared.with_scanner(|scanner| scanner.shared_table())))
    }
}

/// Returns the bytes to reserve for the end of a file: its ledger and description.
pub(super) fn room_for_end(description: &Description) -> u64 {
    let tail = description.ending(&(0..0)).map_or(0, |ending| ending.tail.len() as u64);
    tail + LEDGER_BYTES + EVENT_BYTES * description.events.len() as u64
}

/// Counts of the records in a file.
pub(super) struct FileCounts {
    /// Its samples.
    pub(super) samples: Scanner,
    /// Its other records, by CPU (`None`: CPU unknown).
    others: BTreeMap<Option<u32>, Scanner>,
}

/// Replaces the figures of the records handed to the output by those of the records in the file.
pub(super) fn replace(stats: &mut FileStats, counted: &mut FileCounts) {
    stats.forgotten = Stats::default();
    stats.forgotten_losses.clear();
    for (number, ring) in stats.rings.iter_mut().enumerate() {
        let fullest = ring.stats.fullest;
        // A CPU's counts go to its first ring buffer. Counts without a CPU go to the first ring, if
        // its CPU has none.
        let mut of_cpu = |cpu| counted.others.remove(&cpu).map(|scanner| scanner.stats);
        let without_cpu = if number == 0 { of_cpu(None) } else { None };
        let Stats { lost, throttled, .. } =
            of_cpu(Some(ring.cpu)).or(without_cpu).unwrap_or_default();
        ring.stats = Stats { lost, throttled, fullest, ..Stats::default() };
    }
    if let Some(ring) = stats.rings.first_mut() {
        let Stats { by_event, bytes, first_ns, last_ns, .. } = counted.samples.stats.clone();
        ring.stats = Stats { by_event, bytes, first_ns, last_ns, ..ring.stats.clone() };
    }
}

/// Counts an unfinished recording.
fn count(file: CutFile, table: &Arc<EventTable>) -> FileCounts {
    let mut counted = FileCounts { samples: Scanner::new(table), others: BTreeMap::new() };
    let Ok(mut reader) = Reader::open(file) else { return counted };
    let mut bytes = Vec::new();
    while let Ok(Some(entry)) = reader.next_record() {
        let raw = entry.record;
        let is_kernels = raw.kind < kind::HEADER_ATTR;
        if let Some(header) =
            RecordHeader::new(raw.kind, raw.misc, raw.body.len()).ok().filter(|_| is_kernels)
        {
            bytes.clear();
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(raw.body);
            counted.samples.see(&bytes, [&[], &[]]);
            if raw.kind != kind::PERF_RECORD_SAMPLE {
                let of_cpu = counted.others.entry(table.cpu(&raw));
                of_cpu.or_insert_with(|| Scanner::new(table)).see(&bytes, [&[], &[]]);
            }
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::stats::{LostRecords, RingStats, SampleCounts};

    #[test]
    fn counts_replace_the_figures_of_rings_once() {
        let table = Arc::new(EventTable::default());
        let loses = |records| {
            let mut scanner = Scanner::new(&table);
            scanner.stats.lost = Some(LostRecords { records, after_ns: None, until_ns: None });
            scanner
        };
        let mut samples = Scanner::new(&table);
        samples.stats.by_event = vec![SampleCounts { samples: 9, own: 0, in_kernel: 0 }];
        let others = [(None, loses(1)), (Some(3), loses(2))].into();
        let ring = |cpu| RingStats {
            cpu,
            size: 4096,
            stats: Stats { fullest: 7, bytes: 100, throttled: 5, ..Stats::default() },
        };
        // CPU 3 has two ring buffers, since it was offline in between.
        let mut stats = FileStats {
            rings: vec![ring(0), ring(3), ring(3)],
            forgotten: Stats { bytes: 1, ..Stats::default() },
            forgotten_losses: [(None, 8)].into(),
            deep: tare_kernel::bpf::DeepStackCounts::default(),
        };
        replace(&mut stats, &mut FileCounts { samples, others });
        let lost = |ring: &RingStats| ring.stats.lost.map(|lost| lost.records);
        let found: Vec<_> = stats.rings.iter().map(lost).collect();
        assert_eq!(found, [Some(1), Some(2), None]);
        let of_ring = |ring: &RingStats| (ring.stats.by_event.len(), ring.stats.throttled);
        let found: Vec<_> = stats.rings.iter().map(of_ring).collect();
        assert_eq!(found, [(1, 0), (0, 0), (0, 0)]);
        assert!(stats.rings.iter().all(|ring| ring.stats.fullest == 7));
        assert!(stats.forgotten == Stats::default() && stats.forgotten_losses.is_empty());
    }
}
