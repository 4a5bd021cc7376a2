//! A flight recorder's memory: what came in the last seconds, until it is asked for.
//!
//! ```text
//!         |<------------- kept -------------->|
//!  chunk | chunk | chunk | chunk | chunk | chunk          a chunk is what one reading of the rings brought
//!  ^ samples are forgotten, what tells of processes goes into the recording          ^ now
//! ```
//! Rings could hold the last seconds themselves, overwritten and never read, but for that they
//! would have to be as large as the rate of events makes it, which nobody knows before. What is
//! drained can be kept for exactly as long as was asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use tare_format::Endian;
use tare_format::abi::bindings::{PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES, PERF_RECORD_SAMPLE};
use tare_format::record::{RawRecord, Records, kind};

use super::scanner::{Scanner, lost_records};
use super::stats::{AppendedStats, Stats};

/// The most bytes that are kept: above, the oldest are forgotten before their time.
const MOST_BYTES: usize = 1 << 30;

/// What came last.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    keep: Duration,
    most_bytes: usize,
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// The shortest time after which something was forgotten for want of room.
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

    /// A chunk all of whose records are older than is asked for, or for which there is no room.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Vec<u8>> {
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

    /// Everything that is kept, oldest first; nothing is from now on.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        self.chunks.drain(..).map(|(_, chunk)| chunk).collect()
    }
}

/// What was read and doesn't get into the recording.
#[derive(Debug, Default)]
pub(crate) struct DiscardedStats {
    stats: AppendedStats,
    losses: BTreeMap<Option<u32>, u64>,
}

impl DiscardedStats {
    /// Notes what a chunk holds, which `scanner` goes through; returns what of it stays.
    pub(crate) fn add(&mut self, scanner: &mut Scanner, chunk: &[u8]) -> Vec<u8> {
        scanner.see(chunk, [&[], &[]]);
        self.stats.note(&scanner.stats, scanner.batch_first_ns);
        without_samples(chunk, |lost, record| {
            *self.losses.entry(scanner.table().cpu(record)).or_default() += lost;
        })
    }

    /// What it is since this was asked for last; of records that were lost, how many by CPU, where
    /// that is known.
    pub(crate) fn take(&mut self) -> (Stats, BTreeMap<Option<u32>, u64>) {
        (self.stats.take(), std::mem::take(&mut self.losses))
    }
}

/// Of whole records, those that readers need to understand later samples, and the marks: what a
/// chunk held before one it still does. Marks alone say nothing. `lost` is told of the records that
/// were lost, with the record that says so.
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
    fn what_is_older_than_asked_expires() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut flight_recorder = FlightRecorder::new(Duration::from_secs(2));
        flight_recorder.push(&[&[1], &[2]], after(1));
        flight_recorder.push(&[&[3]], after(2));
        assert_eq!(flight_recorder.expired(after(3)), None);
        assert_eq!(flight_recorder.expired(after(4)), Some(vec![1, 2]));
        assert_eq!(flight_recorder.expired(after(4)), None);
        assert_eq!((flight_recorder.take(), flight_recorder.shortest), (vec![vec![3]], None));
        assert_eq!(flight_recorder.take(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_finds_no_room_expires_early_and_that_is_known() {
        let start = Instant::now();
        let mut flight_recorder =
            FlightRecorder { most_bytes: 3, ..FlightRecorder::new(Duration::from_secs(10)) };
        flight_recorder.push(&[&[1, 1]], start);
        flight_recorder.push(&[&[2, 2]], start + Duration::from_secs(1));
        assert_eq!(flight_recorder.expired(start + Duration::from_secs(3)), Some(vec![1, 1]));
        assert_eq!(flight_recorder.expired(start + Duration::from_secs(3)), None);
        assert_eq!(flight_recorder.shortest, Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_tells_of_processes_stays() {
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
}
