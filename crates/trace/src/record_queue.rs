//! Records of BPF programs that wait until no perf event can precede them any more.
//!
//! BPF programs and perf events write to different ring buffers. A record leaves the queue once all
//! perf events up to its time have been read, or when the queue exceeds its limit.

use std::collections::VecDeque;

use tare_format::limits::SORT_BYTES;

/// Bytes of records that left the queue from which on their memory is freed, unless the queue holds
/// more.
const GARBAGE_BYTES: usize = 1 << 20;

/// Records in time order; records of one time keep their order of arrival.
#[derive(Debug, Default)]
pub(crate) struct RecordQueue {
    records: VecDeque<QueuedRecord>,
    /// The bytes of the records, and those of records that left the queue lately.
    bytes: Vec<u8>,
    /// Bytes of the records in the queue.
    held_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct QueuedRecord {
    time_ns: u64,
    start: usize,
    len: usize,
}

impl RecordQueue {
    /// Adds a record. `time_ns` is its time by `CLOCK_MONOTONIC`.
    pub(crate) fn push(&mut self, time_ns: u64, bytes: &[u8]) {
        if self.bytes.len() - self.held_bytes > self.held_bytes.max(GARBAGE_BYTES) {
            self.remove_garbage();
        }
        let queued = QueuedRecord { time_ns, start: self.bytes.len(), len: bytes.len() };
        self.bytes.extend_from_slice(bytes);
        self.held_bytes += bytes.len();
        // Programs write records nearly in time order.
        if self.records.back().is_none_or(|youngest| youngest.time_ns <= time_ns) {
            self.records.push_back(queued);
        } else {
            let at = self.records.partition_point(|other| other.time_ns <= time_ns);
            self.records.insert(at, queued);
        }
    }

    /// Whether no record waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Removes the oldest record if it is older than `time_ns`, or if the queue holds more than
    /// [`SORT_BYTES`]. Returns its time and its bytes.
    pub(crate) fn pop_before(&mut self, time_ns: u64) -> Option<(u64, &[u8])> {
        let oldest = *self.records.front()?;
        if oldest.time_ns >= time_ns && self.held_bytes <= SORT_BYTES {
            return None;
        }
        self.records.pop_front();
        self.held_bytes -= oldest.len;
        Some((oldest.time_ns, &self.bytes[oldest.start..oldest.start + oldest.len]))
    }

    /// Copies the bytes of the records in the queue to a new buffer.
    fn remove_garbage(&mut self) {
        let mut kept = Vec::with_capacity(2 * self.held_bytes);
        for queued in &mut self.records {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[queued.start..queued.start + queued.len]);
            queued.start = start;
        }
        self.bytes = kept;
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
        let mut handed_out = Vec::new();
        while let Some((_, bytes)) = queue.pop_before(40) {
            handed_out.extend_from_slice(bytes);
        }
        assert_eq!(handed_out, [1, 3, 4, 2]);
        assert_eq!(queue.pop_before(u64::MAX), Some((40, &[5][..])));
        assert_eq!(queue.held_bytes, 0);
    }

    #[test]
    fn hands_out_the_oldest_record_beyond_the_limit() {
        let mut queue = RecordQueue::default();
        let bytes = vec![0; SORT_BYTES / 2 + 1];
        queue.push(20, &bytes);
        assert_eq!(queue.pop_before(0), None);
        queue.push(10, &bytes);
        assert_eq!(queue.pop_before(0).map(|(time_ns, _)| time_ns), Some(10));
        assert_eq!(queue.pop_before(0), None);
    }

    #[test]
    fn uses_the_memory_of_earlier_records_again() {
        let mut queue = RecordQueue::default();
        let record = |number: u64| vec![number.to_le_bytes()[0]; 1000];
        let count = 10 * GARBAGE_BYTES as u64 / 1000;
        for number in 0..count {
            queue.push(number, &record(number));
            if number >= 100 {
                let oldest = number - 100;
                assert_eq!(queue.pop_before(number), Some((oldest, &record(oldest)[..])));
            }
        }
        assert_eq!((queue.records.len(), queue.held_bytes), (100, 100_000));
        assert!(queue.bytes.capacity() <= 3 * GARBAGE_BYTES, "{}", queue.bytes.capacity());
    }
}
