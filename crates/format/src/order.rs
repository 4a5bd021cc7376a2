//! Puts records in time order, in bounded memory.
//!
//! A recorder drains its rings one after the other, so a file's records are ordered within a ring
//! but not between rings. It writes `FINISHED_ROUND` once it has drained every ring. The last
//! records of a round may be later than records that are still in a ring that was drained early;
//! the next round contains these. At the end of a round, therefore, every record up to the latest
//! of the previous round is there:
//!
//! ```text
//! ring A         1   4 | 6   9 | 12
//! ring B    2  3     5 | 7  10 | 11 13
//! recording  1 4 2 3 5 | 6 9 7 10 | 12 11 13 |
//!                     R1         R2         R3        end
//! due                  -          1 2 3 4 5  6 7 9 10  11 12 13
//!                                 up to 5,   up to 10,
//!                                 R1's last  R2's last
//! ```
//! Source of the rule: `tools/perf/util/ordered-events.c`, at `OE_FLUSH__ROUND`.

use crate::bytes::Endian;
use crate::limits;
use crate::record::RawRecord;

/// Sorts records by time. Call [`Sorter::pop`] after every [`Sorter::push`] and [`Sorter::round`].
///
/// The bodies lie in one buffer. If they exceed the limit, the older half becomes due early.
/// Records that then arrive too late are counted in [`Sorter::late`] and become due next.
#[derive(Debug)]
pub struct Sorter {
    /// Limit of [`Sorter::held`], in bytes.
    bound: usize,
    bodies: Vec<u8>,
    /// Bytes of `bodies` that belong to waiting or due records.
    live_bytes: usize,
    /// In the order in which they were pushed, which is that of `bodies`.
    waiting: Vec<QueuedRecord>,
    /// Sorted by time, the next one last.
    due: Vec<QueuedRecord>,
    /// The latest time so far.
    latest_ns: Option<u64>,
    /// The latest time when the previous round ended.
    latest_before_ns: Option<u64>,
    /// The latest time that became due.
    out_ns: u64,
    late: u64,
}

/// A waiting or due record, whose body is in the buffer.
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
    /// Its time in nanoseconds of the recording's clock.
    pub time_ns: u64,
    /// The tag given to [`Sorter::push`].
    pub tag: u64,
    /// The record.
    pub record: RawRecord<'a>,
}

impl Default for Sorter {
    /// Creates a sorter with the limit [`limits::SORT_BYTES`].
    fn default() -> Self {
        Self::new(limits::SORT_BYTES)
    }
}

impl Sorter {
    /// Creates a sorter that holds at most `bound` bytes and one record more, as counted by
    /// [`Sorter::held`]. The capacity of its buffers may be twice that.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            bodies: Vec::new(),
            live_bytes: 0,
            waiting: Vec::new(),
            due: Vec::new(),
            latest_ns: None,
            latest_before_ns: None,
            out_ns: 0,
            late: 0,
        }
    }

    /// Adds a record. Records with equal times keep their order. [`Sorter::pop`] returns `tag` with
    /// the record.
    pub fn push(&mut self, time_ns: u64, tag: u64, record: &RawRecord<'_>) {
        let garbage = self.bodies.len() - self.live_bytes;
        // Compacting copies fewer bytes than were returned since the last time. At the limit it
        // always pays: garbage would make records due early.
        if self.due.is_empty()
            && (garbage * 2 > self.bodies.len() || garbage > 0 && self.held() > self.bound)
        {
            self.compact();
        }
        self.late += u64::from(time_ns < self.out_ns);
        self.latest_ns = self.latest_ns.max(Some(time_ns));
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

    /// Ends a round: every ring has been drained (`FINISHED_ROUND`).
    pub fn round(&mut self) {
        if let Some(limit_ns) = self.latest_before_ns {
            self.release(|queued| queued.time_ns <= limit_ns);
        }
        self.latest_before_ns = self.latest_ns;
    }

    /// Makes all records before `time_ns` due. For callers that know from the rings that all of
    /// these have arrived.
    pub fn complete_before(&mut self, time_ns: u64) {
        self.release(|queued| queued.time_ns < time_ns);
    }

    /// Makes all records due, at the end of the recording.
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

    /// Returns the number of records that arrived after a later one had become due. Either the
    /// limit is too small, or the recorder ended a round before it had drained every ring.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of bytes held: the bodies, and an entry per record.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bodies.len() + (self.waiting.len() + self.due.len()) * size_of::<QueuedRecord>()
    }

    /// Moves the waiting records that `is_due` selects to the due ones, and sorts these.
    fn release(&mut self, is_due: impl Fn(&QueuedRecord) -> bool) {
        let already = self.due.len();
        self.due.reverse();
        self.due.extend(self.waiting.extract_if(.., |queued| is_due(queued)));
        let released = self.due.iter().skip(already);
        self.out_ns = released.map(|queued| queued.time_ns).fold(self.out_ns, u64::max);
        self.due.sort_by_key(|queued| (queued.time_ns, queued.start));
        self.due.reverse();
    }

    /// Makes the oldest records due, until they have half of the bytes.
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
    fn compact(&mut self) {
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
mod tests {
    use super::*;

    /// A pseudo-random sequence (xorshift64).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    /// A recording: records (time and body), and ends of rounds (`None`).
    type RingRecords = Vec<Option<(u64, Vec<u8>)>>;

    /// Makes a recording. Rings fill while the recorder drains one after the other, so a ring that
    /// is drained later has later records.
    fn recording(numbers: &mut Numbers, rings: u64, rounds: u64) -> RingRecords {
        let mut now = 0;
        let mut emptied = vec![0; usize::try_from(rings).unwrap()];
        let mut recording = Vec::new();
        for _ in 0..rounds {
            for last in &mut emptied {
                now += numbers.below(40);
                let mut time = *last;
                loop {
                    time += numbers.below(20);
                    if time > now {
                        break;
                    }
                    let size = usize::try_from(numbers.below(40)).unwrap();
                    recording.push(Some((time, vec![time.to_le_bytes()[0]; size])));
                }
                *last = now + 1;
            }
            recording.push(None);
        }
        recording
    }

    /// The sorted records as (time, offset, body), and the most bytes held.
    struct OrderedOutput {
        records: Vec<(u64, u64, Vec<u8>)>,
        most_held: usize,
        late: u64,
    }

    fn sort(recording: &RingRecords, bound: usize) -> OrderedOutput {
        let mut sorter = Sorter::new(bound);
        let mut out = OrderedOutput { records: Vec::new(), most_held: 0, late: 0 };
        let drain = |sorter: &mut Sorter, out: &mut OrderedOutput| {
            while let Some(ordered) = sorter.pop() {
                assert_eq!((ordered.record.kind, ordered.record.misc), (9, 2));
                out.records.push((ordered.time_ns, ordered.tag, ordered.record.body.to_vec()));
            }
        };
        for (offset, entry) in recording.iter().enumerate() {
            match entry {
                None => sorter.round(),
                Some((time, body)) => {
                    sorter.push(
                        *time,
                        offset as u64,
                        &RawRecord { kind: 9, misc: 2, body, endian: Endian::NATIVE },
                    );
                    out.most_held = out.most_held.max(sorter.held());
                }
            }
            drain(&mut sorter, &mut out);
        }
        sorter.finish();
        drain(&mut sorter, &mut out);
        assert_eq!(sorter.pop(), None);
        out.late = sorter.late();
        out
    }

    /// Returns all records sorted by time; records with equal times keep their order.
    fn expected(recording: &RingRecords) -> Vec<(u64, u64, Vec<u8>)> {
        let records = recording
            .iter()
            .enumerate()
            .filter_map(|(offset, entry)| Some((offset as u64, entry.as_ref()?)));
        let mut all: Vec<_> =
            records.map(|(offset, (time, body))| (*time, offset, body.clone())).collect();
        all.sort_by_key(|record| record.0);
        all
    }

    #[test]
    fn sorts_all_records_by_time() {
        for seed in 1..=300 {
            let mut numbers = Numbers(seed);
            let rings = 1 + numbers.below(6);
            let rounds = numbers.below(30);
            let recording = recording(&mut numbers, rings, rounds);
            let out = sort(&recording, usize::MAX);
            assert_eq!((out.records, out.late), (expected(&recording), 0), "seed {seed}");
        }
    }

    #[test]
    fn holds_few_records_between_rounds() {
        let long = recording(&mut Numbers(7), 4, 2000);
        let out = sort(&long, usize::MAX);
        let whole: usize = long.iter().flatten().map(|(_, body)| body.len()).sum();
        assert_eq!(out.records.len(), long.iter().flatten().count());
        assert!(out.most_held < whole / 20, "{} of {whole} bytes waited", out.most_held);
    }

    /// With a limit that is too small, no record is lost, the limit holds, and records out of order
    /// are counted.
    #[test]
    fn keeps_its_limit_and_counts_late_records() {
        for seed in 1..=300 {
            let mut numbers = Numbers(seed);
            let rings = 2 + numbers.below(5);
            let recording = recording(&mut numbers, rings, 40);
            let bound = usize::try_from(200 + numbers.below(2000)).unwrap();
            let out = sort(&recording, bound);
            let mut records = out.records.clone();
            records.sort();
            assert_eq!(records, expected(&recording), "seed {seed}");
            assert!(
                out.most_held <= bound + 40 + size_of::<QueuedRecord>(),
                "seed {seed}: {} of {bound} bytes",
                out.most_held
            );
            let mut youngest = 0;
            let is_late = |(time, ..): &&(u64, u64, Vec<u8>)| {
                let before = youngest;
                youngest = youngest.max(*time);
                *time < before
            };
            let late = out.records.iter().filter(is_late).count();
            assert_eq!(out.late, late as u64, "seed {seed}");
        }
    }

    /// Follows the diagram in the module's documentation.
    #[test]
    fn a_round_makes_records_up_to_the_previous_round_due() {
        let mut sorter = Sorter::default();
        let mut round = |times: &[u64]| {
            for time in times {
                sorter.push(
                    *time,
                    0,
                    &RawRecord { kind: 9, misc: 0, body: &[], endian: Endian::NATIVE },
                );
            }
            sorter.round();
            std::iter::from_fn(|| sorter.pop().map(|ordered| ordered.time_ns)).collect::<Vec<_>>()
        };
        assert!(round(&[1, 4, 2, 3, 5]).is_empty());
        assert_eq!(round(&[6, 9, 7, 10]), [1, 2, 3, 4, 5]);
        assert_eq!(round(&[12, 11, 13]), [6, 7, 9, 10]);
        assert_eq!(round(&[]), [11, 12, 13]);
    }
}
