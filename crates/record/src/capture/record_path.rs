//! The path of records from the readers: into the output, or through a flight recorder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::flight_recorder::{DiscardedStats, FlightRecorder};
use super::scanner::{EventTable, Scanner};
use super::stats::Stats;
use crate::clock::Clock;
use crate::output::{Output, Result};

/// The path of records. Each record is appended to the output, kept, or counted as discarded.
#[derive(Debug)]
pub(super) struct RecordPath {
    pub(super) output: Output,
    pub(super) clock: Arc<dyn Clock>,
    /// Holds records until a snapshot, if only the last seconds are kept.
    flight_recorder: Option<FlightRecorder>,
    /// Scans expired records, and holds the table of events.
    pub(super) scanner: Scanner,
    discarded: DiscardedStats,
}

impl RecordPath {
    /// `keep`: records wait for that long in a flight recorder, and a snapshot appends them.
    pub(super) fn new(
        output: Output,
        table: &Arc<EventTable>,
        keep: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            output,
            clock,
            flight_recorder: keep.map(FlightRecorder::new),
            scanner: Scanner::new(table),
            discarded: DiscardedStats::default(),
        }
    }

    /// Appends records of rings to the output, or to the flight recorder if there is one.
    pub(super) fn take(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let Self { flight_recorder, scanner, discarded, output, clock } = self;
        let Some(flight_recorder) = flight_recorder else {
            return if pieces.is_empty() { Ok(()) } else { output.append(pieces) };
        };
        let now = clock.now();
        if !pieces.is_empty() {
            flight_recorder.push(pieces, now);
        }
        while let Some(chunk) = flight_recorder.take_expired(now) {
            let kept = discarded.add(scanner, &chunk);
            if !kept.is_empty() {
                // A chunk is part of a pass, and only the last chunk of a round ends with the mark.
                output.append(&[&kept])?;
            }
        }
        Ok(())
    }

    /// Appends the records in the flight recorder, if there is one.
    pub(super) fn append_recent(&mut self) -> Result<()> {
        let Some(flight_recorder) = &mut self.flight_recorder else { return Ok(()) };
        flight_recorder.take().iter().try_for_each(|chunk| self.output.append(&[chunk]))
    }

    /// The shortest time that the flight recorder could keep records, if that was less than
    /// requested.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.flight_recorder.as_ref().and_then(|flight_recorder| flight_recorder.shortest)
    }

    /// Discards the records in the flight recorder. Returns the counts of all records discarded
    /// since the last call, and the losses among them by CPU (`None`: CPU unknown).
    pub(super) fn drop_kept(&mut self) -> (Stats, BTreeMap<Option<u32>, u64>) {
        let throttled_in_expired = self.scanner.stats.throttled;
        let kept = self.flight_recorder.as_mut().map(FlightRecorder::take);
        for chunk in kept.unwrap_or_default() {
            self.discarded.add(&mut self.scanner, &chunk);
        }
        let (mut stats, losses) = self.discarded.take();
        // Of an expired chunk, only the samples and losses are gone.
        stats.throttled = self.scanner.stats.throttled - throttled_in_expired;
        (stats, losses)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Mutex;

    use tare_format::file::writer::Description;
    use tare_format::record::Layout;

    use super::*;
    use crate::clock::SystemClock;
    use crate::output::{RecordSink, SinkClosed};

    #[derive(Clone, Default)]
    struct CollectedBytes(Arc<Mutex<Vec<u8>>>);

    impl RecordSink for CollectedBytes {
        fn begin(&mut self, _: &Description) -> ControlFlow<SinkClosed> {
            ControlFlow::Continue(())
        }

        fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
            self.0.lock().unwrap().extend(records);
            ControlFlow::Continue(())
        }
    }

    /// A path into memory, and the bytes that have arrived.
    fn path(keep: Option<Duration>) -> (RecordPath, CollectedBytes) {
        let table = Arc::new(EventTable::new(vec![Layout::default()], &[vec![5]], Vec::new()));
        let bytes = CollectedBytes::default();
        let output = Output::to_sink(Box::new(bytes.clone()));
        (RecordPath::new(output, &table, keep, Arc::new(SystemClock)), bytes)
    }

    /// A record of a task's name.
    fn comm() -> Vec<u8> {
        let mut record = vec![0; 24];
        record[0] = 3;
        record[6] = 24;
        record
    }

    #[test]
    fn records_go_to_the_output_at_once() {
        let (mut path, bytes) = path(None);
        path.take(&[&comm()]).unwrap();
        assert_eq!(*bytes.0.lock().unwrap(), comm());
    }

    #[test]
    fn kept_records_wait_for_a_snapshot() {
        let (mut path, bytes) = path(Some(Duration::from_secs(3600)));
        path.take(&[&comm()]).unwrap();
        assert!(bytes.0.lock().unwrap().is_empty());
        path.append_recent().unwrap();
        assert_eq!(*bytes.0.lock().unwrap(), comm());
        assert_eq!(path.drop_kept().0.bytes, 0);
    }

    #[test]
    fn throttling_is_discarded_with_the_records_left_but_not_with_expired_ones() {
        let mut throttle = vec![0; 32];
        throttle[0] = 5;
        throttle[6] = 32;
        let (mut path, bytes) = path(Some(Duration::ZERO));
        path.take(&[&throttle]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        path.take(&[&throttle]).unwrap();
        let expired = bytes.0.lock().unwrap().len() as u64 / 32;
        assert!(expired >= 1, "the first record has expired");
        assert_eq!(path.drop_kept().0.throttled, 2 - expired);
    }

    #[test]
    fn records_that_are_still_kept_at_the_end_are_counted_as_discarded() {
        let (mut path, bytes) = path(Some(Duration::from_secs(3600)));
        path.take(&[&comm()]).unwrap();
        assert_eq!(path.drop_kept().0.bytes, 24);
        path.append_recent().unwrap();
        assert!(bytes.0.lock().unwrap().is_empty());
    }
}
