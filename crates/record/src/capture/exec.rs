//! Samples of the command's process before its execve(2): it is tare's own child until then, and
//! they are in no recording of whole CPUs or cgroups.
//!
//! ```text
//! ring 0   | sample t=1 | sample t=7 |            of the process: both wait, as rings are read one by one
//! ring 1   | sample t=3 | COMM exec t=5 | ...     t=3 and t=1 are left out; t=7 is appended now
//! ```
//! The record may be read before older samples in other rings: samples are looked at until each ring
//! was read by a pass that began after the record was seen. From then on no sample's thread is looked
//! at any more.

use std::time::{Duration, Instant};

use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_SAMPLE,
};
use tare_format::record::{RawRecord, Records};

use super::scanner::EventTable;

/// The most bytes of samples that wait.
const MOST_BYTES: usize = 1 << 20;

/// How long samples wait: the record may be lost, or of a CPU that is not recorded.
const PATIENCE: Duration = Duration::from_secs(2);

/// Leaves out what the command's process did before its execve.
#[derive(Debug)]
pub(crate) struct ExecFilter {
    root: i32,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting {
        since: Instant,
        /// Samples of the process, one behind the other.
        samples: Vec<u8>,
    },
    Over {
        /// When the process executed its program; `None` where that was given up.
        exec_ns: Option<u64>,
        /// How many rounds still have to end until no ring can hold an older sample.
        rounds: u8,
    },
}

impl ExecFilter {
    /// For the process of this number, which waits to execute a program.
    pub(crate) fn new(root: i32) -> Self {
        Self { root, state: State::Waiting { since: Instant::now(), samples: Vec::new() } }
    }

    /// Whether the execve was not seen yet.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Whether samples have to go through [`ExecFilter::pass`].
    pub(crate) fn looks_at_samples(&self) -> bool {
        !matches!(self.state, State::Over { rounds: 0, .. })
    }

    /// Every ring was read since the last call, by passes that began after it.
    pub(crate) fn end_round(&mut self) {
        if let State::Over { rounds, .. } = &mut self.state {
            *rounds = rounds.saturating_sub(1);
        }
    }

    /// When the process executed its program, in the recording's clock.
    pub(crate) fn exec_ns(&self) -> Option<u64> {
        match self.state {
            State::Waiting { .. } => None,
            State::Over { exec_ns, .. } => exec_ns,
        }
    }

    /// Of a ring's whole records those that are to be appended, and those that waited until now.
    pub(crate) fn pass(&mut self, table: &EventTable, records: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(records.len());
        let mut rest = records;
        for raw in Records::new(records, Endian::NATIVE) {
            let (record, after) = rest.split_at(raw.size().min(rest.len()));
            rest = after;
            let samples = match &mut self.state {
                State::Waiting { samples, .. } => samples,
                State::Over { exec_ns, .. } => {
                    let exec_ns = *exec_ns;
                    if !self.is_before(exec_ns, table, &raw, record) {
                        passed.extend_from_slice(record);
                    }
                    continue;
                }
            };
            match raw.kind {
                PERF_RECORD_SAMPLE if table.tid(record) == Some(self.root) => {
                    samples.extend_from_slice(record);
                }
                PERF_RECORD_COMM if self.is_exec(&raw) => {
                    passed.extend_from_slice(record);
                    self.end(table, table.time_ns(record), &mut passed);
                }
                _ => passed.extend_from_slice(record),
            }
        }
        passed.extend_from_slice(rest);
        if let State::Waiting { since, samples } = &self.state
            && (samples.len() > MOST_BYTES || since.elapsed() > PATIENCE)
        {
            self.end(table, None, &mut passed);
        }
        passed
    }

    /// The same of records that are only read now, when the execve was long ago: of a ring that is
    /// overwritten. What is younger is not looked at.
    pub(crate) fn pass_older(&self, table: &EventTable, records: Vec<u8>) -> Vec<u8> {
        let Some(exec_ns) = self.exec_ns() else { return records };
        let mut passed = Vec::with_capacity(records.len());
        let mut rest = &records[..];
        for raw in Records::new(&records, Endian::NATIVE) {
            let (record, after) = rest.split_at(raw.size().min(rest.len()));
            let is_older = table.time_ns(record).is_none_or(|time_ns| time_ns < exec_ns);
            if !is_older {
                break;
            }
            rest = after;
            if raw.kind != PERF_RECORD_SAMPLE || table.tid(record) != Some(self.root) {
                passed.extend_from_slice(record);
            }
        }
        passed.extend_from_slice(rest);
        passed
    }

    /// Nothing more will come: what still waits.
    pub(crate) fn finish(&mut self, table: &EventTable) -> Vec<u8> {
        let mut passed = Vec::new();
        self.end(table, None, &mut passed);
        passed
    }

    /// Whether a record is a sample of the process from before its execve.
    fn is_before(
        &self,
        exec_ns: Option<u64>,
        table: &EventTable,
        raw: &RawRecord<'_>,
        record: &[u8],
    ) -> bool {
        exec_ns.is_some()
            && raw.kind == PERF_RECORD_SAMPLE
            && table.tid(record) == Some(self.root)
            && table.time_ns(record) < exec_ns
    }

    fn is_exec(&self, raw: &RawRecord<'_>) -> bool {
        let tid = raw.body.get(4..8).map(|tid| i32::from_ne_bytes(std::array::from_fn(|n| tid[n])));
        u32::from(raw.misc) & PERF_RECORD_MISC_COMM_EXEC != 0 && tid == Some(self.root)
    }

    /// Hands out what waited, as far as it is not older than the execve.
    fn end(&mut self, table: &EventTable, exec_ns: Option<u64>, passed: &mut Vec<u8>) {
        let State::Waiting { samples, .. } = &mut self.state else { return };
        let samples = std::mem::take(samples);
        // The round under way may have read a ring before the last of these samples came.
        self.state = State::Over { exec_ns, rounds: if exec_ns.is_some() { 2 } else { 0 } };
        let mut rest = &samples[..];
        for raw in Records::new(&samples, Endian::NATIVE) {
            let (record, after) = rest.split_at(raw.size().min(rest.len()));
            rest = after;
            let is_older = exec_ns.is_some() && table.time_ns(record) < exec_ns;
            if !is_older {
                passed.extend_from_slice(record);
            }
        }
    }
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

    /// Process and thread, of one number.
    fn task(tid: u64) -> u64 {
        let [a, b, c, d, ..] = tid.to_le_bytes();
        u64::from_le_bytes([a, b, c, d, a, b, c, d])
    }

    fn sample(tid: u64, time_ns: u64) -> Vec<u8> {
        record(PERF_RECORD_SAMPLE, 0, &[5, task(tid), time_ns])
    }

    fn exec(tid: u64, time_ns: u64) -> Vec<u8> {
        // Its name, then the same fields behind it.
        let name = u64::from_ne_bytes(*b"true\0\0\0\0");
        let words = [task(tid), name, task(tid), time_ns, 5];
        record(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &words)
    }

    #[test]
    fn what_is_older_than_the_execve_goes_whatever_ring_it_lies_in() {
        let (table, mut filter) = (table(), ExecFilter::new(7));
        let first = [sample(7, 1), sample(9, 2), sample(7, 6)].concat();
        assert_eq!(filter.pass(&table, &first), sample(9, 2));
        let second = [sample(7, 3), exec(9, 4), exec(7, 5), sample(7, 8)].concat();
        let passed = [exec(9, 4), exec(7, 5), sample(7, 6), sample(7, 8)].concat();
        assert_eq!(filter.pass(&table, &second), passed);
        assert_eq!((filter.is_waiting(), filter.exec_ns()), (false, Some(5)));
        let other_ring = [sample(7, 4), sample(9, 4), sample(7, 9)].concat();
        let younger = [sample(9, 4), sample(7, 9)].concat();
        assert_eq!(filter.pass(&table, &other_ring), younger, "read after the record");
        filter.end_round();
        assert_eq!(filter.pass(&table, &other_ring), younger);
        filter.end_round();
        assert!(!filter.looks_at_samples());
        assert_eq!(filter.finish(&table), Vec::<u8>::new());
        assert_eq!(filter.exec_ns(), Some(5), "the end changes nothing");
        let old = [sample(7, 4), sample(9, 4), sample(7, 5), sample(7, 2)].concat();
        let passed = [sample(9, 4), sample(7, 5), sample(7, 2)].concat();
        assert_eq!(filter.pass_older(&table, old), passed);
    }

    #[test]
    fn where_the_execve_is_not_recorded_nothing_is_lost() {
        let (table, mut filter) = (table(), ExecFilter::new(7));
        assert_eq!(filter.pass(&table, &sample(7, 1)), Vec::<u8>::new());
        assert_eq!(filter.finish(&table), sample(7, 1));
        assert_eq!(filter.pass_older(&table, sample(7, 1)), sample(7, 1));
        let mut full = ExecFilter::new(7);
        let many = sample(7, 1).repeat(MOST_BYTES / 32 + 1);
        assert_eq!(full.pass(&table, &many).len(), many.len());
        assert!(!full.is_waiting());
    }
}
