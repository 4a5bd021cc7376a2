//! Drops samples of the command's process from before its execve(2). Until then the process is
//! tare's own child, and a recording of whole CPUs or cgroups would contain it.
//!
//! ```text
//! ring 0   | sample t=1 | sample t=7 |            samples of the process: both wait
//! ring 1   | sample t=3 | COMM exec t=5 | ...     t=3 and t=1 are dropped; t=7 is appended
//! ```
//! Rings are read in turn, so the COMM record may be read before older samples in other rings.
//! Records of one ring are in time order around the execve, so each ring is filtered only up to its
//! first younger record; the rest is appended without a copy.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_SAMPLE,
};
use tare_format::record::{RawRecord, RecordHeader};

use super::scanner::EventTable;

/// Limit on the bytes of waiting samples.
const MOST_BYTES: usize = 1 << 20;

/// Limit on the time that samples wait. The COMM record may be lost, or its CPU not recorded.
const PATIENCE: Duration = Duration::from_secs(2);

/// Drops samples of the command's process from before its execve.
#[derive(Debug)]
pub(crate) struct ExecFilter {
    root: i32,
    state: ExecState,
}

#[derive(Debug)]
enum ExecState {
    Waiting {
        since: Instant,
        /// Waiting samples of the process, concatenated.
        samples: Vec<u8>,
    },
    Over {
        /// Time of the execve; `None` if the filter gave up waiting for it.
        exec_ns: Option<u64>,
    },
}

/// The result of filtering the beginning of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilteredRecords {
    /// Records to append in place of the filtered bytes.
    pub(crate) records: Vec<u8>,
    /// Bytes of the batch that were filtered. The rest is appended unchanged; if there is a rest,
    /// the ring holds no more records from before the execve.
    pub(crate) filtered_bytes: usize,
}

impl FilteredRecords {
    /// Returns the bytes to append for a batch that lies in two pieces.
    pub(crate) fn with<'a>(&'a self, [first, second]: [&'a [u8]; 2]) -> [&'a [u8]; 3] {
        let of_first = self.filtered_bytes.min(first.len());
        [&self.records, &first[of_first..], &second[self.filtered_bytes - of_first..]]
    }
}

impl ExecFilter {
    /// Filters the process `root`, which waits to execute a program from `now` on.
    pub(crate) fn new(root: i32, now: Instant) -> Self {
        Self { root, state: ExecState::Waiting { since: now, samples: Vec::new() } }
    }

    /// Whether samples wait for the execve's record.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, ExecState::Waiting { .. })
    }

    /// Whether rings may still hold records from before the execve, which [`ExecFilter::pass`] must
    /// filter: until the filter gives up.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.state, ExecState::Over { exec_ns: None })
    }

    /// Time of the execve, in the recording's clock; `None` before it, or if unknown.
    pub(crate) fn exec_ns(&self) -> Option<u64> {
        match self.state {
            ExecState::Waiting { .. } => None,
            ExecState::Over { exec_ns } => exec_ns,
        }
    }

    /// Filters a ring's records: returns the ones to append, together with samples whose wait is
    /// over.
    pub(crate) fn pass<'a>(
        &mut self,
        table: &EventTable,
        records: impl Iterator<Item = Cow<'a, [u8]>>,
        now: Instant,
    ) -> FilteredRecords {
        let mut passed = FilteredRecords::default();
        for record in records {
            match &mut self.state {
                ExecState::Waiting { samples, .. } => {
                    let kind = RecordHeader::first(&record, Endian::NATIVE).map(|raw| raw.kind);
                    if kind == Some(PERF_RECORD_SAMPLE) && table.tid(&record) == Some(self.root) {
                        samples.extend_from_slice(&record);
                    } else {
                        passed.records.extend_from_slice(&record);
                    }
                    if kind == Some(PERF_RECORD_COMM) && self.is_exec(&record) {
                        self.end(table, table.time_ns(&record), &mut passed.records);
                    }
                }
                ExecState::Over { exec_ns } => {
                    if !is_older(*exec_ns, table, &record) {
                        break;
                    }
                    if !self.is_of_root(table, &record) {
                        passed.records.extend_from_slice(&record);
                    }
                }
            }
            passed.filtered_bytes += record.len();
        }
        if let ExecState::Waiting { since, samples } = &self.state
            && (samples.len() > MOST_BYTES || now.saturating_duration_since(*since) > PATIENCE)
        {
            self.end(table, None, &mut passed.records);
        }
        passed
    }

    /// Filters records of an overwritten ring, which is read after the execve. Without a time of
    /// the execve, keeps all.
    pub(crate) fn pass_older(&self, table: &EventTable, records: Vec<u8>) -> Vec<u8> {
        let exec_ns = self.exec_ns();
        if exec_ns.is_none() {
            return records;
        }
        let is_before = |record: &Cow<'_, [u8]>| {
            is_older(exec_ns, table, record) && self.is_of_root(table, record)
        };
        split_records(&records).filter(|record| !is_before(record)).collect::<Vec<_>>().concat()
    }

    /// Returns the samples that still wait; no more records will come.
    pub(crate) fn finish(&mut self, table: &EventTable) -> Vec<u8> {
        let mut passed = Vec::new();
        self.end(table, None, &mut passed);
        passed
    }

    /// Whether a record is a sample of the process.
    fn is_of_root(&self, table: &EventTable, record: &[u8]) -> bool {
        let header = RecordHeader::first(record, Endian::NATIVE);
        header.is_some_and(|header| header.kind == PERF_RECORD_SAMPLE)
            && table.tid(record) == Some(self.root)
    }

    fn is_exec(&self, record: &[u8]) -> bool {
        let Some(raw) = RawRecord::first(record, Endian::NATIVE) else { return false };
        let tid = raw.body.get(4..8).map(|tid| i32::from_ne_bytes(std::array::from_fn(|n| tid[n])));
        u32::from(raw.misc) & PERF_RECORD_MISC_COMM_EXEC != 0 && tid == Some(self.root)
    }

    /// Ends the wait: appends the waiting samples, except the ones that are older than the execve.
    fn end(&mut self, table: &EventTable, exec_ns: Option<u64>, passed: &mut Vec<u8>) {
        let ExecState::Waiting { samples, .. } = &mut self.state else { return };
        let samples = std::mem::take(samples);
        self.state = ExecState::Over { exec_ns };
        for record in split_records(&samples).filter(|record| !is_older(exec_ns, table, record)) {
            passed.extend_from_slice(&record);
        }
    }
}

/// Whether a record is older than the execve, if its time is known. A record without a time counts
/// as older.
fn is_older(exec_ns: Option<u64>, table: &EventTable, record: &[u8]) -> bool {
    exec_ns.is_some() && table.time_ns(record) < exec_ns
}

fn split_records(mut records: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    std::iter::from_fn(move || {
        let size = RawRecord::first(records, Endian::NATIVE)?.size();
        let (record, rest) = records.split_at(size.min(records.len()));
        records = rest;
        Some(Cow::Borrowed(record))
    })
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::{PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME};
    use tare_format::record::Layout;

    use super::*;

    fn table() -> EventTable {
        let sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
        let layout =
            Layout { sample_type: sample_type.into(), sample_id_all: true, ..Layout::default() };
        EventTable::new(vec![layout], &[vec![5]], Vec::new())
    }

    fn record(kind: u32, misc: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + 8 * words.len()).unwrap();
        let misc = u16::try_from(misc).unwrap();
        let header = [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes()].concat();
        [header, words.iter().copied().flat_map(u64::to_ne_bytes).collect()].concat()
    }

    /// A word that holds the same number as process and thread.
    fn task(tid: u64) -> u64 {
        let [a, b, c, d, ..] = tid.to_le_bytes();
        u64::from_le_bytes([a, b, c, d, a, b, c, d])
    }

    fn sample(tid: u64, time_ns: u64) -> Vec<u8> {
        record(PERF_RECORD_SAMPLE, 0, &[5, task(tid), time_ns])
    }

    fn exec(tid: u64, time_ns: u64) -> Vec<u8> {
        // The name, followed by the fields of `sample_id`.
        let name = u64::from_ne_bytes(*b"true\0\0\0\0");
        let words = [task(tid), name, task(tid), time_ns, 5];
        record(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &words)
    }

    /// Filters a ring's records. Returns all bytes to append, and whether some bypassed the filter.
    fn pass(filter: &mut ExecFilter, records: &[u8], now: Instant) -> (Vec<u8>, bool) {
        let FilteredRecords { records: passed, filtered_bytes } =
            filter.pass(&table(), split_records(records), now);
        ([&passed, &records[filtered_bytes..]].concat(), filtered_bytes < records.len())
    }

    #[test]
    fn samples_from_before_the_execve_are_dropped_in_every_ring() {
        let now = Instant::now();
        let mut filter = ExecFilter::new(7, now);
        let first = [sample(7, 1), sample(9, 2), sample(7, 6)].concat();
        assert_eq!(pass(&mut filter, &first, now), (sample(9, 2), false));
        let second = [sample(7, 3), exec(9, 4), exec(7, 5), sample(7, 8)].concat();
        let passed = [exec(9, 4), exec(7, 5), sample(7, 6), sample(7, 8)].concat();
        assert_eq!(pass(&mut filter, &second, now), (passed, true));
        assert_eq!((filter.is_waiting(), filter.exec_ns()), (false, Some(5)));
        let other_ring = [sample(7, 4), sample(9, 4)].concat();
        assert_eq!(
            pass(&mut filter, &other_ring, now),
            (sample(9, 4), false),
            "read after the record"
        );
        let other_ring = [sample(7, 4), sample(9, 4), sample(7, 9)].concat();
        let passed = [sample(9, 4), sample(7, 9)].concat();
        assert_eq!(pass(&mut filter, &other_ring, now), (passed.clone(), true));
        assert_eq!(filter.finish(&table()), Vec::<u8>::new());
        assert_eq!(filter.exec_ns(), Some(5), "the end changes nothing");
        assert_eq!(filter.pass_older(&table(), other_ring), passed);
    }

    #[test]
    fn nothing_is_lost_if_the_execve_is_not_recorded() {
        let now = Instant::now();
        let mut filter = ExecFilter::new(7, now);
        assert_eq!(pass(&mut filter, &sample(7, 1), now), (Vec::new(), false));
        assert_eq!(filter.finish(&table()), sample(7, 1));
        assert_eq!(filter.pass_older(&table(), sample(7, 1)), sample(7, 1));
        let mut full = ExecFilter::new(7, now);
        let many = sample(7, 1).repeat(MOST_BYTES / 32 + 1);
        assert_eq!(pass(&mut full, &many, now), (many, false));
        assert!(!full.is_waiting() && !full.is_active());
        let mut patient = ExecFilter::new(7, now);
        let late = now + PATIENCE;
        assert_eq!(pass(&mut patient, &sample(7, 1), late), (Vec::new(), false));
        let too_late = late + Duration::from_nanos(1);
        let both = [sample(7, 1), sample(7, 2)].concat();
        assert_eq!(pass(&mut patient, &sample(7, 2), too_late), (both, false));
        assert!(!patient.is_waiting());
    }
}
