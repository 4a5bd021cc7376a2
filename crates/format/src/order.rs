//! Puts records in time order, in bounded memory.
//!
//! A recorder drains its rings one after the other, so a file's records are ordered within a ring
//! but not between rings. It writes `FINISHED_ROUND` once it has drained every ring. The last
//! records of a round may be younger than records still in a ring that was drained early; the next
//! round contains those. At the end of a round, therefore, every record up to the youngest of the
//! previous round is there:
//!
//! ```text
//! ring A         1   4 | 6   9 | 12
//! ring B    2  3     5 | 7  10 | 11 13
//! recording  1 4 2 3 5 | 6 9 7 10 | 12 11 13 |
//!                     R1         R2         R3        end
//! goes out             -          1 2 3 4 5  6 7 9 10  11 12 13
//!                                 up to 5,   up to 10,
//!                                 R1's last  R2's last
//! ```
//! Source of the rule: `tools/perf/util/ordered-events.c`, at `OE_FLUSH__ROUND`.

use crate::bytes::Endian;
use crate::limits;
use crate::record::RawRecord;

/// Records that wait for their turn. Call [`Sorter::pop`] after every [`Sorter::push`] and
/// [`Sorter::round`].
///
/// The bodies lie in one buffer. If they would exceed the limit, the older half goes out early;
/// records that then arrive too late are counted in [`Sorter::late`] and go out next.
#[derive(Debug)]
pub struct Sorter {
    bound: usize,
    bodies: Vec<u8>,
    /// Bytes of `bodies` that haven't gone out.
    live_bytes: usize,
    /// In the order of the recording, which is that of `bodies`.
    waiting: Vec<QueuedRecord>,
    /// In order of time, the next one last.
    due: Vec<QueuedRecord>,
    /// The youngest time of this round, and of the one before.
    youngest_ns: Option<u64>,
    youngest_before_ns: Option<u64>,
    /// The youngest time that became due.
    out_ns: u64,
    late: u64,
}

/// A record that waits; its body is in the buffer.
#[derive(Clone, Copy, Debug)]
struct QueuedRecord {
    time_ns: u64,
    tag: u64,
    start: usize,
    len: usize,
    kind: u32,
    misc: u16,
    endian: Endian,
}

/// A record that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedRecord<'a> {
    /// Its time on the recording's clock.
    pub time_ns: u64,
    /// The tag given to [`Sorter::push`].
    pub tag: u64,
    /// The record.
    pub record: RawRecord<'a>,
}

impl Default for Sorter {
    /// With the bound [`limits::SORT_BYTES`].
    fn default() -> Self {
        Self::new(limits::SORT_BYTES)
    }
}

impl Sorter {
    /// At most `bound` bytes wait, and one record more. (The buffers may have room for twice as
    /// many.)
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            bodies: Vec::new(),
            live_bytes: 0,
            waiting: Vec::new(),
            due: Vec::new(),
            youngest_ns: None,
            youngest_before_ns: None,
            out_ns: 0,
            late: 0,
        }
    }

    /// Takes a record in. Records of one time keep their order. `tag` is the caller's: it comes out
    /// with the record.
    pub fn push(&mut self, time_ns: u64, tag: u64, record: &RawRecord<'_>) {
        let garbage = self.bodies.len() - self.live_bytes;
        // Compacting costs at most as much as what has gone out; at the limit it saves more.
        if self.due.is_empty()
            && (garbage * 2 > self.bodies.len() || garbage > 0 && self.held() > self.bound)
        {
            self.close_up();
        }
        self.late += u64::from(time_ns < self.out_ns);
        self.youngest_ns = self.youngest_ns.max(Some(time_ns));
        let RawRecord { kind, misc, body, endian } = *record;
        self.waiting.push(QueuedRecord {
            time_ns,
            tag,
            start: self.bodies.len(),
            len: body.len(),
            kind,
            misc,
            endian,
        });
        self.bodies.extend_from_slice(body);
        self.live_bytes += body.len();
        if self.held() > self.bound {
            self.release_older_half();
        }
    }

    /// Every ring has been emptied (`FINISHED_ROUND`).
    pub fn round(&mut self) {
        if let Some(limit_ns) = self.youngest_before_ns {
            self.release(|queued| queued.time_ns <= limit_ns);
        }
        self.youngest_before_ns = self.youngest_ns;
    }

    /// All records before this time have arrived: the rings themselves say so, rather than a round.
    pub fn complete_before(&mut self, time_ns: u64) {
        self.release(|queued| queued.time_ns < time_ns);
    }

    /// The recording has ended: everything is due.
    pub fn finish(&mut self) {
        self.release(|_| true);
    }

    /// Returns the next record that is due.
    pub fn pop(&mut self) -> Option<OrderedRecord<'_>> {
        let QueuedRecord { time_ns, tag, start, len, kind, misc, endian } = self.due.pop()?;
        self.live_bytes -= len;
        let body = self.bodies.get(start..start + len)?;
        Some(OrderedRecord { time_ns, tag, record: RawRecord { kind, misc, body, endian } })
    }

    /// Iterates over the records that [`Self::pop`] will return, in order.
    pub fn upcoming(&self) -> impl ExactSizeIterator<Item = OrderedRecord<'_>> {
        self.due.iter().rev().map(|queued| {
            let QueuedRecord { time_ns, tag, start, len, kind, misc, endian } = *queued;
            let body = self.bodies.get(start..start + len).unwrap_or_default();
            OrderedRecord { time_ns, tag, record: RawRecord { kind, misc, body, endian } }
        })
    }

    /// Number of records that arrived after younger ones had gone out: the limit is too small, or
    /// the recorder broke the rule.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Bytes held: the bodies and the entry of each record.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bodies.len() + (self.waiting.len() + self.due.len()) * size_of::<QueuedRecord>()
    }

    /// Records that are due now precede all that become due later, so they are at the end of the
    /// list.
    fn release(&mut self, is_due: impl Fn(&QueuedRecord) -> bool) {
        let already = self.due.len();
        self.due.reverse();
        self.due.extend(self.waiting.extract_if(.., |queued| is_due(queued)));
        let released = self.due.iter().skip(already);
        self.out_ns = released.map(|queued| queued.time_ns).fold(self.out_ns, u64::max);
        self.due.sort_by_key(|queued| (queued.time_ns, queued.start));
        self.due.reverse();
    }

    /// Releases the oldest records, half of the bytes.
    fn release_older_half(&mut self) {
        let mut by_time: Vec<_> = self
            .waiting
            .iter()
            .map(|queued| (queued.time_ns, queued.start, queued.len + size_of::<QueuedRecord>()))
            .collect();
        by_time.sort_unstable();
        let mut left = self.held() / 2;
        let last = by_time.iter().find(|(.., size)| {
            left = left.saturating_sub(*size);
            left == 0
        });
        let Some(&(time_ns, start, _)) = last.or(by_time.last()) else { return };
        self.release(|queued| (queued.time_ns, queued.start) <= (time_ns, start));
    }

    /// Moves the waiting bodies to the front of the buffer.
    fn close_up(&mut self) {
        let mut end = 0;
        for queued in &mut self.waiting {
            self.bodies.copy_within(queued.start..queued.start + queued.len, end);
            queued.start = end;
            end += queued.len;
        }
        self.bodies.truncate(end);
    }
}

#[cfg(test)]
mod tests;
