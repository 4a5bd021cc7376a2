//! A flight recorder's memory: the records of the last seconds, until a snapshot takes them.
//!
//! ```text
//!         |<------------- kept -------------->|
//!  chunk | chunk | chunk | chunk | chunk | chunk          one chunk per append
//!  ^ samples are dropped, records of processes go into the recording                 ^ now
//! ```
//! Overwritten rings could hold the last seconds themselves, but their size would depend on an
//! event rate that is unknown at the start. Drained records can be kept for the requested time,
//! whatever their rate, up to a memory limit.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use tare_format::Endian;
use tare_format::abi::bindings::{PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES, PERF_RECORD_SAMPLE};
use tare_format::record::{RawRecord, Records, kind};

use super::scanner::{Scanner, lost_records};
use super::stats::{AppendedStats, Stats};

/// Limit on the kept bytes. Above it, the oldest chunks expire early.
const MOST_BYTES: usize = 1 << 30;

/// Records of the last seconds, in chunks.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    keep: Duration,
    most_bytes: usize,
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// The shortest time that a chunk was kept when the memory limit made it expire early.
    pub(crate) shortest: Option<Duration>,
}

impl FlightRecorder {
    pub(crate) fn new(keep: Duration) -> Self {
        Self { keep, most_bytes: MOST_BYTES, chunks: VecDeque::new(), bytes: 0, shortest: None }
    }

    /// Keeps whole records that were read at `now`.
    pub(crate) fn push(&mut self, pieces: &[&[u8]], now: Instant) {
        let chunk = pieces.concat();
        self.bytes += chunk.len();
        self.chunks.push_back((now, chunk));
    }

    /// Removes and returns the oldest chunk, if it is older than the kept time or the memory limit
    /// is exceeded.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (at, _) = self.chunks.front()?;
        let age = now.saturating_duration_since(*at);
        if age <= self.keep {
            if self.bytes <= self.most_bytes {
                return None;
            }
            self.shortest = Some(self.shortest.map_or(age, |shortest| shortest.min(age)));
        }
        let (_, chunk) = self.chunks.pop_front()?;
        self.bytes -= chunk.len();
        Some(chunk)
    }

    /// Removes and returns all chunks, oldest first.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        self.chunks.drain(..).map(|(_, chunk)| chunk).collect()
    }
}

/// Counts of expired chunks, whose samples were dropped.
#[derive(Debug, Default)]
pub(crate) struct DiscardedStats {
    stats: AppendedStats,
    losses: BTreeMap<Option<u32>, u64>,
}

impl DiscardedStats {
    /// Counts the records of a chunk with `scanner`. Returns the records that stay in the
    /// recording.
    pub(crate) fn add(&mut self, scanner: &mut Scanner, chunk: &[u8]) -> Vec<u8> {
        scanner.see(chunk, [&[], &[]]);
        self.stats.note(&scanner.stats, scanner.batch_first_ns);
        without_samples(chunk, |lost, record| {
            *self.losses.entry(scanner.table().cpu(record)).or_default() += lost;
        })
    }

    /// Returns the counts since the last call, and the lost records by CPU (`None`: CPU unknown).
    pub(crate) fn take(&mut self) -> (Stats, BTreeMap<Option<u32>, u64>) {
        (self.stats.take(), std::mem::take(&mut self.losses))
    }
}

/// Returns all records but samples and losses, since later samples may depend on them, with the
/// round marks: records before a mark stay before it. Returns nothing if only marks are left. Calls
/// `lost` with the number of lost records and the record that reports them.
fn without_samples(chunk: &[u8], mut lost: impl FnMut(u64, &RawRecord<'_>)) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut holds_records = false;
    let mut rest = chunk;
    for record in Records::new(chunk, Endian::NATIVE) {
        let (bytes, after) = rest.split_at(record.size().min(rest.len()));
        rest = after;
        if !matches!(record.kind, PERF_RECORD_SAMPLE | PERF_RECORD_LOST | PERF_RECORD_LOST_SAMPLES)
        {
            kept.extend_from_slice(bytes);
            holds_records |= record.kind != kind::FINISHED_ROUND;
        } else if let Some(records) = lost_records(bytes) {
            lost(records, &record);
        }
    }
    if holds_records { kept } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::PERF_RECORD_COMM;
    use tare_format::file::writer::FINISHED_ROUND;
    use tare_format::record::RecordHeader;

    use super::*;

    fn record(kind: u32) -> [u8; 16] {
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&RecordHeader { kind, misc: 0, size: 16 }.encode());
        bytes
    }

    #[test]
    fn chunks_expire_after_the_kept_time() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut flight_recorder = FlightRecorder::new(Duration::from_secs(2));
        flight_recorder.push(&[&[1], &[2]], after(1));
        flight_recorder.push(&[&[3]], after(2));
        assert_eq!(flight_recorder.take_expired(after(3)), None);
        assert_eq!(flight_recorder.take_expired(after(4)), Some(vec![1, 2]));
        assert_eq!(flight_recorder.take_expired(after(4)), None);
        assert_eq!((flight_recorder.take(), flight_recorder.shortest), (vec![vec![3]], None));
        assert_eq!(flight_recorder.take(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn chunks_without_room_expire_early_and_shorten_the_kept_time() {
        let start = Instant::now();
        let mut flight_recorder =
            FlightRecorder { most_bytes: 3, ..FlightRecorder::new(Duration::from_secs(10)) };
        flight_recorder.push(&[&[1, 1]], start);
        flight_recorder.push(&[&[2, 2]], start + Duration::from_secs(1));
        assert_eq!(flight_recorder.take_expired(start + Duration::from_secs(3)), Some(vec![1, 1]));
        assert_eq!(flight_recorder.take_expired(start + Duration::from_secs(3)), None);
        assert_eq!(flight_recorder.shortest, Some(Duration::from_secs(3)));
    }

    #[test]
    fn records_of_processes_stay() {
        let chunk = [
            &record(PERF_RECORD_SAMPLE)[..],
            &record(PERF_RECORD_COMM),
            &record(PERF_RECORD_LOST),
            &FINISHED_ROUND,
        ]
        .concat();
        let kept = [&record(PERF_RECORD_COMM)[..], &FINISHED_ROUND].concat();
        assert_eq!(without_samples(&chunk, |_, _| {}), kept);
        let no_records = [&record(PERF_RECORD_SAMPLE)[..], &FINISHED_ROUND].concat();
        assert_eq!(without_samples(&no_records, |_, _| {}), Vec::<u8>::new());
    }

    #[test]
    fn discarded_records_are_counted_once() {
        use std::sync::Arc;
        use tare_format::abi::bindings::{
            PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TIME,
        };
        use tare_format::record::Layout;

        use super::super::scanner::EventTable;

        let sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
        let layout =
            Layout { sample_type: sample_type.into(), sample_id_all: true, ..Layout::default() };
        let table = EventTable::new(vec![layout], &[vec![5]], Vec::new());
        let mut scanner = Scanner::new(&Arc::new(table));
        let words = |kind: u32, words: &[u64]| {
            let header = RecordHeader::new(kind, 0, 8 * words.len()).unwrap().encode();
            [&header[..], words.iter().map(|w| w.to_ne_bytes()).collect::<Vec<_>>().as_flattened()]
                .concat()
        };
        let sample = words(PERF_RECORD_SAMPLE, &[5, 10, 3]);
        let loss = words(PERF_RECORD_LOST, &[5, 40, 20, 3, 5]);
        let mut discarded = DiscardedStats::default();
        assert!(discarded.add(&mut scanner, &[&sample[..], &loss].concat()).is_empty());
        discarded.add(&mut scanner, &sample);
        let (stats, losses) = discarded.take();
        assert_eq!((stats.by_event[0].samples, stats.first_ns), (2, Some(10)));
        assert_eq!(losses, [(Some(3), 40)].into());
        let (stats, losses) = discarded.take();
        assert_eq!((stats.by_event[0].samples, losses.len()), (0, 0));
    }
}
