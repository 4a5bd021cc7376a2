//! Records of BPF programs that wait until no perf event can precede them any more.
//!
//! BPF programs and perf events write to different ring buffers. A record leaves the queue once all
//! perf events up to its time have been read.

use std::collections::VecDeque;

use tare_format::limits::SORT_BYTES;

/// Records in time order; records of one time keep their order of arrival.
#[derive(Debug, Default)]
pub(crate) struct RecordQueue {
    records: VecDeque<QueuedRecord>,
    held_bytes: usize,
}

/// A record as the programs wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedRecord {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) bytes: Box<[u8]>,
}

impl RecordQueue {
    /// Adds a record. Programs write records nearly in time order, so its place is near the end.
    pub(crate) fn push(&mut self, time_ns: u64, bytes: &[u8]) {
        self.held_bytes += bytes.len();
        let at = self.records.partition_point(|queued| queued.time_ns <= time_ns);
        self.records.insert(at, QueuedRecord { time_ns, bytes: bytes.into() });
    }

    /// Removes the oldest record if it is older than `time_ns`, or if the queue holds more than
    /// [`SORT_BYTES`].
    pub(crate) fn pop_before(&mut self, time_ns: u64) -> Option<QueuedRecord> {
        let oldest = self.records.front()?;
        if oldest.time_ns >= time_ns && self.held_bytes <= SORT_BYTES {
            return None;
        }
        let oldest = self.records.pop_front()?;
        self.held_bytes -= oldest.bytes.len();
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_out_older_records_in_time_order() {
        let mut queue = RecordQueue::default();
        for (time_ns, byte) in [(10, 1), (30, 2), (20, 3), (20, 4), (40, 5)] {
            queue.push(time_ns, &[byte]);
        }
        let mut bytes = Vec::new();
        while let Some(record) = queue.pop_before(40) {
            bytes.extend_from_slice(&record.bytes);
        }
        assert_eq!(bytes, [1, 3, 4, 2]);
        assert_eq!(queue.pop_before(u64::MAX).map(|record| record.time_ns), Some(40));
        assert_eq!(queue.held_bytes, 0);
    }

    #[test]
    fn hands_out_the_oldest_record_beyond_the_limit() {
        let mut queue = RecordQueue::default();
        let bytes = vec![0; SORT_BYTES / 2 + 1];
        queue.push(20, &bytes);
        assert_eq!(queue.pop_before(0), None);
        queue.push(10, &bytes);
        assert_eq!(queue.pop_before(0).map(|record| record.time_ns), Some(10));
        assert_eq!(queue.pop_before(0), None);
    }
}
