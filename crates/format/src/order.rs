//! Puts records in time order, in bounded memory.
//!
//! A recorder drains its rings one after the other, so a file's records are ordered within a ring
//! but not between rings. It writes `FINISHED_ROUND` once it has drained every ring. While it
//! drained the later rings, the earlier ones may have filled with records that are older than the
//! round's last; they follow in the next round. At the end of a round, therefore, every record up
//! to the latest of the previous round is there:
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

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::bytes::Endian;
use crate::limits;
use crate::record::RawRecord;

/// Sorts records by time. Call [`Sorter::pop`] after every [`Sorter::push`] and [`Sorter::round`].
///
/// The bodies lie in one buffer. If they exceed the limit, they move to a temporary file, and only
/// an entry per record (time, tag, place) stays in memory. If there is no such file, or it can't be
/// written, the older half becomes due early; records that then arrive too late are counted in
/// [`Sorter::late`].
#[derive(Debug)]
pub struct Sorter {
    /// Limit of `bodies`, in bytes; without a file, of everything that [`Sorter::held`] counts.
    bound: usize,
    spill: Spill,
    bodies: BodyBuffer,
    /// In the order in which they were pushed, which is also that of their bodies in `bodies`.
    waiting: Vec<QueuedRecord>,
    due: DueRecords,
    times: SortTimes,
    /// Number of pushed records.
    pushed: u64,
}

/// The bodies of waiting and due records, in the order in which these were pushed.
#[derive(Debug, Default)]
struct BodyBuffer {
    bytes: Vec<u8>,
    /// Place of the first byte: as many bytes were cut off before it.
    first: usize,
    /// Bytes that belong to waiting or due records.
    live: usize,
    /// Number of live bytes below which the buffer's front is cut off.
    cut_below: usize,
}

/// Size of a [`BodyBuffer`] in bytes above which its front is cut off while records are popped.
const CUT: usize = if cfg!(test) { 1 << 8 } else { 4 << 20 };

impl BodyBuffer {
    /// Appends a body and returns its place.
    fn push(&mut self, body: &[u8]) -> usize {
        let place = self.first + self.bytes.len();
        self.bytes.extend_from_slice(body);
        self.live += body.len();
        place
    }

    fn get(&self, place: usize, len: usize) -> Option<&[u8]> {
        let start = place.checked_sub(self.first)?;
        self.bytes.get(start..start + len)
    }

    /// Bytes that belong to no record.
    fn garbage(&self) -> usize {
        self.bytes.len() - self.live
    }

    /// Plans to cut the front off once half of the records are popped.
    fn plan_cut(&mut self) {
        self.cut_below = if self.bytes.len() > CUT { self.live / 2 } else { 0 };
    }

    /// Frees the bytes before a place.
    fn cut_before(&mut self, place: usize) {
        self.bytes.drain(..place.saturating_sub(self.first));
        self.bytes.shrink_to_fit();
        self.first = place;
        self.plan_cut();
    }
}

/// Times that decide which records are due or late, in nanoseconds of the recording's clock, and
/// the number of late ones.
#[derive(Clone, Copy, Debug, Default)]
struct SortTimes {
    /// The latest time of all pushed records.
    latest: Option<u64>,
    /// `latest` when the previous round ended.
    latest_before: Option<u64>,
    /// The latest time that became due.
    out: u64,
    /// Number of records that arrived after a later one had become due.
    late: u64,
}

/// The records that are due.
#[derive(Debug, Default)]
struct DueRecords {
    /// Sorted by time, the next one last.
    records: Vec<QueuedRecord>,
    /// Number of records, counted from the next one, whose bodies are in memory.
    ready: usize,
    /// Bodies that were read back from the file.
    loaded: Vec<u8>,
    /// Number of records with a body in `loaded`.
    in_loaded: usize,
}

/// A waiting or due record.
#[derive(Clone, Copy, Debug)]
struct QueuedRecord {
    time_ns: u64,
    tag: u64,
    /// Number of records that were pushed before it.
    number: u64,
    body: BodyPlace,
    len: usize,
    kind: u32,
    misc: u16,
    endian: Endian,
}

/// Where the body of a record begins.
#[derive(Clone, Copy, Debug)]
enum BodyPlace {
    /// A place in [`Sorter::bodies`].
    Memory(usize),
    /// In the temporary file.
    File(u64),
    /// In [`DueRecords::loaded`].
    Loaded(usize),
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
    /// Creates a sorter with the limit [`limits::SORT_BYTES`] and a file in `/var/tmp`.
    fn default() -> Self {
        Self::with_spill(limits::SORT_BYTES, Path::new("/var/tmp"))
    }
}

impl Sorter {
    /// Creates a sorter without a file. It holds at most `bound` bytes and one record more, as
    /// counted by [`Sorter::held`]. The capacity of its buffers can be larger.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            spill: Spill::default(),
            bodies: BodyBuffer::default(),
            waiting: Vec::new(),
            due: DueRecords::default(),
            times: SortTimes::default(),
            pushed: 0,
        }
    }

    /// Creates a sorter that moves the bodies to a file in `folder` when they exceed `bound` bytes.
    /// The file has no name and disappears with the sorter.
    #[must_use]
    pub fn with_spill(bound: usize, folder: &Path) -> Self {
        let spill = Spill { folder: Some(folder.to_owned()), ..Spill::default() };
        Self { spill, ..Self::new(bound) }
    }

    /// Adds a record. Records with equal times keep their order. [`Sorter::pop`] returns `tag` with
    /// the record.
    pub fn push(&mut self, time_ns: u64, tag: u64, record: &RawRecord<'_>) {
        let garbage = self.bodies.garbage();
        // If more than half is garbage, compacting copies fewer bytes than were popped since the
        // last time. At the limit it always pays: garbage would go to the file too, or make records
        // due early.
        if self.due.records.is_empty()
            && (garbage * 2 > self.bodies.bytes.len() || garbage > 0 && self.exceeds_bound())
        {
            self.compact();
        }
        self.times.late += u64::from(time_ns < self.times.out);
        self.times.latest = self.times.latest.max(Some(time_ns));
        let RawRecord { kind, misc, body, endian } = *record;
        let number = self.pushed;
        self.pushed += 1;
        let len = body.len();
        let body_place = BodyPlace::Memory(self.bodies.push(body));
        self.waiting.push(QueuedRecord {
            time_ns,
            tag,
            number,
            body: body_place,
            len,
            kind,
            misc,
            endian,
        });
        if self.exceeds_bound() && self.move_bodies_to_file().is_err() {
            self.release_older_half();
        }
    }

    /// Ends a round: every ring has been drained (`FINISHED_ROUND`).
    pub fn round(&mut self) {
        if let Some(limit_ns) = self.times.latest_before {
            self.release(|queued| queued.time_ns <= limit_ns);
        }
        self.times.latest_before = self.times.latest;
    }

    /// Makes all records before `time_ns` due. For callers that know that all of these have
    /// arrived.
    pub fn complete_before(&mut self, time_ns: u64) {
        self.release(|queued| queued.time_ns < time_ns);
    }

    /// Makes all records due, at the end of the recording.
    pub fn finish(&mut self) {
        self.release(|_| true);
    }

    /// Returns the next record that is due.
    pub fn pop(&mut self) -> Option<OrderedRecord<'_>> {
        if self.due.ready == 0 {
            self.load();
        }
        if self.bodies.live < self.bodies.cut_below {
            self.free_popped();
        }
        let queued = self.due.records.pop()?;
        self.due.ready = self.due.ready.saturating_sub(1);
        match queued.body {
            BodyPlace::Memory(_) => self.bodies.live -= queued.len,
            BodyPlace::Loaded(_) => self.due.in_loaded -= 1,
            BodyPlace::File(_) => {}
        }
        Some(queued.ordered(&self.bodies, &self.due.loaded))
    }

    /// Iterates over the records that [`Self::pop`] returns next, in order. It ends before the
    /// first record whose body is still in the file, but yields at least one if any is due.
    pub fn upcoming(&mut self) -> impl ExactSizeIterator<Item = OrderedRecord<'_>> {
        if self.due.ready == 0 {
            self.load();
        }
        let Self { bodies, due, .. } = self;
        let ready = due.records.iter().rev().take(due.ready);
        ready.map(|queued| queued.ordered(bodies, &due.loaded))
    }

    /// Returns the number of records that are due.
    #[must_use]
    pub fn due_count(&self) -> usize {
        self.due.records.len()
    }

    /// Returns the number of records that arrived after a later one had become due, for example
    /// because the limit is too small and there is no file, or because the recorder ended a round
    /// before it had drained every ring.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.times.late
    }

    /// Returns the number of bytes held in memory: the bodies, including some of popped records,
    /// and an entry per record.
    #[must_use]
    pub fn held(&self) -> usize {
        let entries = self.waiting.len() + self.due.records.len();
        self.bodies.bytes.len() + self.due.loaded.len() + entries * size_of::<QueuedRecord>()
    }

    fn exceeds_bound(&self) -> bool {
        let bytes = if self.spill.folder.is_some() { self.bodies.bytes.len() } else { self.held() };
        bytes > self.bound
    }

    /// Moves the waiting records that `is_due` selects to the due ones, and sorts these.
    fn release(&mut self, is_due: impl Fn(&QueuedRecord) -> bool) {
        let due = &mut self.due.records;
        let already = due.len();
        due.reverse();
        if already == 0 && self.waiting.iter().all(&is_due) {
            std::mem::swap(due, &mut self.waiting);
        } else {
            due.extend(self.waiting.extract_if(.., |queued| is_due(queued)));
        }
        let released = due.iter().skip(already);
        self.times.out = released.map(|queued| queued.time_ns).fold(self.times.out, u64::max);
        due.sort_unstable_by_key(|queued| (queued.time_ns, queued.number));
        due.reverse();
        let is_in_memory = |queued: &&QueuedRecord| !matches!(queued.body, BodyPlace::File(_));
        self.due.ready = due.iter().rev().take_while(is_in_memory).count();
        self.bodies.plan_cut();
    }

    /// Frees memory of popped records: the front of the buffer, up to the first body of the others,
    /// and their entries.
    fn free_popped(&mut self) {
        self.due.records.shrink_to_fit();
        let queued = self.waiting.iter().chain(&self.due.records);
        let places = queued.filter_map(|queued| match queued.body {
            BodyPlace::Memory(place) => Some(place),
            _ => None,
        });
        let end = self.bodies.first + self.bodies.bytes.len();
        self.bodies.cut_before(places.min().unwrap_or(end));
    }

    /// Makes the oldest records due, until these account for half of the held bytes.
    fn release_older_half(&mut self) {
        let mut by_time: Vec<_> = self
            .waiting
            .iter()
            .map(|queued| (queued.time_ns, queued.number, queued.len + size_of::<QueuedRecord>()))
            .collect();
        by_time.sort_unstable();
        let mut left = self.held() / 2;
        let last = by_time.iter().find(|(.., size)| {
            left = left.saturating_sub(*size);
            left == 0
        });
        let Some(&(time_ns, number, _)) = last.or(by_time.last()) else { return };
        self.release(|queued| (queued.time_ns, queued.number) <= (time_ns, number));
    }

    /// Moves the waiting bodies to the front of the buffer.
    fn compact(&mut self) {
        let BodyBuffer { bytes, first, .. } = &mut self.bodies;
        let mut end = 0;
        for queued in &mut self.waiting {
            if let BodyPlace::Memory(place) = queued.body {
                let start = place - *first;
                bytes.copy_within(start..start + queued.len, end);
                queued.body = BodyPlace::Memory(end);
                end += queued.len;
            }
        }
        bytes.truncate(end);
        *first = 0;
    }

    /// Writes `bodies` to the file, including the bodies of due records.
    fn move_bodies_to_file(&mut self) -> io::Result<()> {
        let has_files = |queued: &QueuedRecord| matches!(queued.body, BodyPlace::File(_));
        let is_file_used = self.waiting.iter().chain(&self.due.records).any(has_files);
        let base = self.spill.append(&self.bodies.bytes, is_file_used)?;
        for queued in self.waiting.iter_mut().chain(&mut self.due.records) {
            if let BodyPlace::Memory(start) = queued.body {
                queued.body = BodyPlace::File(base + (start - self.bodies.first) as u64);
            }
        }
        self.bodies.bytes.clear();
        self.bodies.first = 0;
        self.bodies.live = 0;
        self.due.ready = 0;
        Ok(())
    }

    /// Reads the bodies of the next due records back. A body that can't be read becomes empty.
    fn load(&mut self) {
        let due = &mut self.due;
        if due.in_loaded == 0 {
            due.loaded.clear();
        }
        let mut left = self.bound / 4;
        for queued in due.records.iter_mut().rev() {
            if let BodyPlace::File(start) = queued.body {
                if due.ready > 0 && queued.len > left {
                    break;
                }
                left = left.saturating_sub(queued.len);
                let place = due.loaded.len();
                due.loaded.resize(place + queued.len, 0);
                if self.spill.read(start, &mut due.loaded[place..]).is_err() {
                    due.loaded.truncate(place);
                    queued.len = 0;
                }
                queued.body = BodyPlace::Loaded(place);
                due.in_loaded += 1;
            }
            due.ready += 1;
        }
    }
}

impl QueuedRecord {
    fn ordered<'a>(&self, bodies: &'a BodyBuffer, loaded: &'a [u8]) -> OrderedRecord<'a> {
        let Self { time_ns, tag, len, kind, misc, endian, .. } = *self;
        let body = match self.body {
            BodyPlace::Memory(place) => bodies.get(place, len),
            BodyPlace::Loaded(start) => loaded.get(start..start + len),
            BodyPlace::File(_) => None,
        };
        let record = RawRecord { kind, misc, body: body.unwrap_or_default(), endian };
        OrderedRecord { time_ns, tag, record }
    }
}

/// The temporary file for bodies that exceed the limit.
#[derive(Debug, Default)]
struct Spill {
    /// Where the file is created; `None` in a sorter without a file, and after an error.
    folder: Option<PathBuf>,
    file: Option<File>,
    /// Size of the file in bytes.
    end: u64,
}

impl Spill {
    /// Appends bytes; returns their offset. If nothing in the file is in use, it is emptied first.
    /// After an error no more bytes can be written.
    fn append(&mut self, bytes: &[u8], is_in_use: bool) -> io::Result<u64> {
        let folder = self.folder.take().ok_or(io::ErrorKind::Unsupported)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&folder)?),
        };
        if !is_in_use {
            file.set_len(0)?;
            self.end = 0;
        }
        file.write_all_at(bytes, self.end)?;
        let start = self.end;
        self.end += bytes.len() as u64;
        self.folder = Some(folder);
        Ok(start)
    }

    fn read(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.read_exact_at(bytes, start)
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

    /// The sorted records as (time, offset, body), the most bytes held after a push, and the number
    /// of late records.
    struct OrderedOutput {
        records: Vec<(u64, u64, Vec<u8>)>,
        most_held: usize,
        late: u64,
    }

    fn sort(recording: &RingRecords, bound: usize) -> OrderedOutput {
        sort_with(Sorter::new(bound), recording)
    }

    fn sort_with(mut sorter: Sorter, recording: &RingRecords) -> OrderedOutput {
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

    /// With a limit that is too small and no file, no record is lost, the limit holds, and records
    /// out of order are counted.
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

    /// Bodies beyond the limit go to a file, so no record is late, however long a round is.
    #[test]
    fn sorts_rounds_that_exceed_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 1..=300 {
            let mut numbers = Numbers(seed);
            let rings = 2 + numbers.below(5);
            let mut recording = recording(&mut numbers, rings, 40);
            if seed % 3 == 0 {
                recording.retain(Option::is_some);
            }
            let bound = usize::try_from(200 + numbers.below(2000)).unwrap();
            let out = sort_with(Sorter::with_spill(bound, folder.path()), &recording);
            assert_eq!((out.records, out.late), (expected(&recording), 0), "seed {seed}");
            let entries = recording.len() * size_of::<QueuedRecord>();
            assert!(out.most_held <= 2 * bound + 40 + entries, "seed {seed}: {}", out.most_held);
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the files have no names");
    }

    /// Looks ahead before it pops, as the unwinding of stacks does.
    #[test]
    fn upcoming_records_are_those_that_are_popped() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = recording(&mut Numbers(5), 4, 40);
        recording.retain(Option::is_some);
        let mut sorter = Sorter::with_spill(500, folder.path());
        for (offset, (time, body)) in recording.iter().flatten().enumerate() {
            let record = RawRecord { kind: 9, misc: 2, body, endian: Endian::NATIVE };
            sorter.push(*time, offset as u64, &record);
        }
        sorter.finish();
        let mut popped = 0;
        while sorter.due_count() > 0 {
            let ahead: Vec<_> = sorter
                .upcoming()
                .map(|ordered| (ordered.tag, ordered.record.body.to_vec()))
                .collect();
            assert!(!ahead.is_empty());
            for expected in ahead {
                let ordered = sorter.pop().unwrap();
                assert_eq!((ordered.tag, ordered.record.body.to_vec()), expected);
                popped += 1;
            }
        }
        assert_eq!(popped, recording.len());
    }

    #[test]
    fn popped_records_take_no_memory() {
        let mut recording = recording(&mut Numbers(9), 4, 40);
        recording.retain(Option::is_some);
        let mut sorter = Sorter::default();
        for (time, body) in recording.iter().flatten() {
            let record = RawRecord { kind: 9, misc: 2, body, endian: Endian::NATIVE };
            sorter.push(*time, 0, &record);
        }
        sorter.finish();
        let [held, capacity] = [sorter.held(), sorter.due.records.capacity()];
        let mut expected = expected(&recording).into_iter();
        for _ in 0..recording.len() * 7 / 8 {
            let (time, _, body) = expected.next().unwrap();
            let ordered = sorter.pop().unwrap();
            assert_eq!((ordered.time_ns, ordered.record.body), (time, &body[..]));
        }
        assert!(sorter.held() < held / 3, "{} of {held} bytes", sorter.held());
        assert!(sorter.due.records.capacity() < capacity / 3);
        assert_eq!(sorter.waiting.capacity(), 0);
    }

    /// The record that was pushed first comes last, so the whole buffer stays until then.
    #[test]
    fn a_buffer_without_records_is_freed_at_once() {
        let mut sorter = Sorter::default();
        for time in [1000, 1, 2, 3, 4, 5, 6, 7, 8] {
            let record = RawRecord { kind: 9, misc: 2, body: &[7; 64], endian: Endian::NATIVE };
            sorter.push(time, 0, &record);
        }
        sorter.finish();
        while sorter.pop().is_some() {}
        assert_eq!((sorter.held(), sorter.bodies.cut_below), (0, 0));
    }

    /// Without the folder, records out of order are counted as without a file.
    #[test]
    fn without_room_for_a_file_late_records_are_counted() {
        let recording = recording(&mut Numbers(3), 5, 40);
        let nowhere = sort_with(Sorter::with_spill(500, Path::new("/none/such")), &recording);
        assert!(nowhere.late > 0);
        let mut all = nowhere.records;
        all.sort();
        assert_eq!(all, expected(&recording));
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
