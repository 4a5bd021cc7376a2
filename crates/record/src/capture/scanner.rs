//! Counts the records of a ring from their headers. Of a sample it reads the event's id and, if
//! needed, thread and period; of a batch, the times of the first and the last sample. It also reads
//! the numbers in records of losses and, if tasks are counted, decodes forks and exits.

use std::sync::Arc;

use super::stats::{LostRecords, SampleCounts, Stats};
use super::tasks::Tasks;
use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_RECORD_BPF_EVENT, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK,
    PERF_RECORD_KSYMBOL, PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES, PERF_RECORD_MMAP,
    PERF_RECORD_MMAP2, PERF_RECORD_NAMESPACES, PERF_RECORD_SAMPLE, PERF_RECORD_TEXT_POKE,
    PERF_RECORD_THROTTLE, PERF_SAMPLE_ADDR, PERF_SAMPLE_CPU, PERF_SAMPLE_ID,
    PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_STREAM_ID,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use tare_format::record::{Layout, RawRecord, RecordHeader, Records};

/// Bytes of a record's header.
const HEADER: usize = RecordHeader::SIZE;

/// Bytes of a batch that are prefetched at once.
const AHEAD: usize = 1 << 10;

/// Limit on the bytes of a record at which prefetching begins: a batch of longer records has few
/// headers.
const SMALL: usize = 512;

/// Bytes of a cache line. If lines are longer, some are prefetched twice, which is harmless.
const LINE: usize = 64;

/// Number of ids that are cached, so that their events are found without a search.
const RECENT: usize = 16;

/// The fields of a sample that precede its task, and the ones that precede its period
/// (`perf_output_sample` in the kernel).
const BEFORE_TID: u64 = (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP) as u64;
const BEFORE_PERIOD: u64 = BEFORE_TID
    | (PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_ADDR
        | PERF_SAMPLE_ID
        | PERF_SAMPLE_STREAM_ID
        | PERF_SAMPLE_CPU) as u64;

/// The layouts and ids of events, as scanners need them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventTable {
    /// The layout of each event's records.
    layouts: Vec<Layout>,
    /// Offset of the thread in a sample of each event, in bytes; `None` if samples don't contain it
    /// or it isn't needed.
    tid_at: Vec<Option<usize>>,
    /// Ids with their events' indexes, sorted.
    ids: Vec<(u64, usize)>,
    /// Thread ids of the recorder, if their samples are counted.
    own: Vec<i32>,
    /// The weight of a sample of each event, if tasks are counted separately.
    weights: Vec<SampleWeight>,
    /// Whether records of tasks are handed out: their begin, end, names and namespaces.
    notes_tasks: bool,
}

/// The number of occurrences that a sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleWeight {
    /// The same for all samples.
    Fixed(u64),
    /// The period in the sample.
    InSample,
}

impl EventTable {
    /// Creates the table from the events' layouts and ids. `own` are the recorder's threads, if
    /// their samples are to be counted.
    pub(crate) fn new(layouts: Vec<Layout>, ids: &[Vec<u64>], own: Vec<i32>) -> Self {
        let tid_at = |layout: &Layout| {
            let has = layout.sample_type & u64::from(PERF_SAMPLE_TID) != 0 && !own.is_empty();
            has.then(|| HEADER + 8 * (layout.sample_type & BEFORE_TID).count_ones() as usize + 4)
        };
        let mut by_id: Vec<_> = ids
            .iter()
            .enumerate()
            .flat_map(|(event, ids)| ids.iter().map(move |&id| (id, event)))
            .collect();
        by_id.sort_unstable();
        Self {
            tid_at: layouts.iter().map(tid_at).collect(),
            layouts,
            ids: by_id,
            own,
            weights: Vec::new(),
            notes_tasks: false,
        }
    }

    pub(crate) fn with_ids(&self, ids: &[Vec<u64>]) -> Self {
        let mut table = self.clone();
        let more = ids.iter().enumerate();
        table.ids.extend(more.flat_map(|(event, ids)| ids.iter().map(move |&id| (id, event))));
        table.ids.sort_unstable();
        table
    }

    /// Returns a table with which [`Scanner::take_noted`] returns records of tasks besides mappings:
    /// their begin, end, names and namespaces.
    pub(crate) fn with_task_records(mut self) -> Self {
        self.notes_tasks = true;
        self
    }

    /// Returns a table with which scanners sum up periods by task. `weights` has one entry per
    /// event.
    pub(crate) fn with_weights(mut self, weights: Vec<SampleWeight>) -> Self {
        self.weights = weights;
        self
    }

    /// Returns the task of a sample, and the occurrences that it stands for.
    fn task(&self, record: &[u8], event: usize) -> Option<(i32, u64)> {
        let weight = *self.weights.get(event)?;
        let sample_type = self.layouts.get(event)?.sample_type;
        // Each field of a sample up to the period is one word.
        let at = |field: u32, before: u64| {
            (sample_type & u64::from(field) != 0)
                .then(|| HEADER + 8 * (sample_type & before).count_ones() as usize)
        };
        let of_task = word(record, at(PERF_SAMPLE_TID, BEFORE_TID)?)?.to_ne_bytes();
        let tid = i32::from_ne_bytes(std::array::from_fn(|n| of_task[n + 4]));
        let period = match weight {
            SampleWeight::Fixed(period) => period,
            SampleWeight::InSample => word(record, at(PERF_SAMPLE_PERIOD, BEFORE_PERIOD)?)?,
        };
        Some((tid, period))
    }

    /// Whether samples are only counted: there is one event, and neither their threads nor their
    /// periods are needed.
    fn only_counts(&self) -> bool {
        matches!(self.tid_at[..], [None]) && self.weights.is_empty()
    }

    fn event(&self, id: u64) -> Option<usize> {
        let at = self.ids.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.ids[at].1)
    }

    /// Returns the thread of a sample, if it contains one.
    pub(crate) fn tid(&self, record: &[u8]) -> Option<i32> {
        let sample_type = self.layouts.get(self.event(word(record, HEADER)?)?)?.sample_type;
        let has_tid = sample_type & u64::from(PERF_SAMPLE_TID) != 0;
        let at = HEADER + 8 * (sample_type & BEFORE_TID).count_ones() as usize;
        let task = word(record, at).filter(|_| has_tid)?.to_ne_bytes();
        Some(i32::from_ne_bytes(std::array::from_fn(|n| task[n + 4])))
    }

    /// Returns the layout of a record. The id of its event is the first word of a sample and the
    /// last one of another record, `PERF_SAMPLE_IDENTIFIER`. A record without a known id is read
    /// like the first event's.
    fn layout(&self, record: &RawRecord<'_>) -> Option<&Layout> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
        if record.kind == PERF_RECORD_SAMPLE {
            return self.layouts.get(self.event(word(record.body.get(..8)?)?)?);
        }
        let last = record.body.len().checked_sub(8).and_then(|at| word(&record.body[at..]));
        self.layouts.get(last.and_then(|id| self.event(id)).unwrap_or(0))
    }

    /// Returns the size of a record's body without stale bytes behind it, if it has such bytes. The
    /// kernel writes them if the record wasn't the first of its kind for several events.
    fn true_body_size(&self, record: &RawRecord<'_>) -> Option<usize> {
        let sizes = self.layouts.iter().enumerate().filter_map(|(event, layout)| {
            let size = layout.true_body_size(record);
            let id = size.checked_sub(8).and_then(|at| word(record.body, at))?;
            (self.event(id) == Some(event)).then_some(size)
        });
        sizes.into_iter().next().filter(|size| *size < record.body.len())
    }

    /// Copies whole records, and leaves out the stale bytes behind them.
    pub(super) fn trim(&self, records: &[u8]) -> Vec<u8> {
        let mut trimmed = Vec::with_capacity(records.len());
        for record in Records::new(records, Endian::NATIVE) {
            let RawRecord { kind, misc, body, .. } = record;
            let size = if has_stated_size(kind) { None } else { self.true_body_size(&record) };
            let body = &body[..size.unwrap_or(body.len())];
            if let Ok(header) = RecordHeader::new(kind, misc, body.len()) {
                trimmed.extend(header.encode());
                trimmed.extend(body);
            }
        }
        trimmed
    }

    /// Returns the CPU of a record other than a sample, if it contains one.
    pub(crate) fn cpu(&self, record: &RawRecord<'_>) -> Option<u32> {
        self.layout(record)?.sample_id(record).cpu
    }

    /// Returns the time of a record, in the recording's clock.
    pub(crate) fn time_ns(&self, record: &[u8]) -> Option<u64> {
        let raw = RawRecord::first(record, Endian::NATIVE)?;
        self.layout(&raw)?.time_ns(&raw)
    }
}

/// Returns the slot of an id. One CPU's ids of different events are a multiple of the number of
/// CPUs apart, which may be one of the number of slots too, so the slot depends on all bits.
fn slot(id: u64) -> usize {
    // 2^64 divided by the golden ratio.
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> (u64::BITS - RECENT.ilog2())).unwrap_or(0)
}

/// Counts the records of one ring.
#[derive(Debug)]
pub(crate) struct Scanner {
    known: Arc<EventTable>,
    /// The sums since the recording began.
    pub(crate) stats: Stats,
    /// Time of the first sample in the last batch.
    pub(crate) batch_first_ns: Option<u64>,
    /// Whether the last batch had a sample so far.
    has_first: bool,
    /// Periods by task, if tasks are counted separately.
    pub(crate) tasks: Option<Tasks>,
    /// Records of mappings, and of tasks if requested, until [`Scanner::take_noted`].
    noted: Vec<u8>,
    /// Whether the last batch has records with stale bytes behind them ([`EventTable::trim`]).
    pub(super) has_stale_bytes: bool,
    /// A record that straddles the ring's end.
    straddling: Vec<u8>,
    /// Recently seen ids with their events' indexes.
    recent: [(u64, usize); RECENT],
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).map(|word| u64::from_ne_bytes(std::array::from_fn(|n| word[n])))
}

/// Prefetches bytes. Another CPU may have written them, and each header's place is only known once
/// the previous one was read, so headers alone would miss the cache one after the other. The next
/// reader of the records, such as the kernel that writes them to a file, finds them in the cache
/// too.
fn prefetch(bytes: &[u8]) {
    let sum = bytes.iter().step_by(LINE).fold(0, |sum: u8, byte| sum ^ byte);
    std::hint::black_box(sum);
}

/// Whether the kernel states the right size of records of a kind. To those of the others it may
/// append stale bytes.
fn has_stated_size(kind: u32) -> bool {
    ![PERF_RECORD_KSYMBOL, PERF_RECORD_BPF_EVENT, PERF_RECORD_TEXT_POKE].contains(&kind)
}

/// Returns the number of lost records that a `PERF_RECORD_LOST` or `PERF_RECORD_LOST_SAMPLES`
/// reports.
pub(crate) fn lost_records(record: &[u8]) -> Option<u64> {
    match RecordHeader::first(record, Endian::NATIVE)?.kind {
        PERF_RECORD_LOST => word(record, HEADER + 8),
        PERF_RECORD_LOST_SAMPLES => word(record, HEADER),
        _ => None,
    }
}

impl Scanner {
    pub(crate) fn new(known: &Arc<EventTable>) -> Self {
        Self {
            known: Arc::clone(known),
            stats: Stats {
                by_event: vec![SampleCounts::default(); known.layouts.len()],
                ..Stats::default()
            },
            batch_first_ns: None,
            has_first: false,
            tasks: (!known.weights.is_empty()).then(|| Tasks::for_events(known.layouts.len())),
            noted: Vec::new(),
            has_stale_bytes: false,
            straddling: Vec::new(),
            // No event has this id.
            recent: [(0, 0); RECENT],
        }
    }

    /// Scans whole records, and then a batch: whole records, in two pieces if they wrap around the
    /// ring's end. The kernel aligns records to 8 bytes, so no header straddles the end.
    pub(crate) fn see(&mut self, whole: &[u8], [first, second]: [&[u8]; 2]) {
        let len = whole.len() + first.len() + second.len();
        self.stats.bytes += len as u64;
        (self.batch_first_ns, self.has_first) = (None, false);
        self.has_stale_bytes = false;
        self.stats.fullest = self.stats.fullest.max(len);
        self.walk(whole);
        let rest = self.walk(first);
        let missing = RecordHeader::first(rest, Endian::NATIVE)
            .map_or(0, |header| header.record_size().saturating_sub(rest.len()))
            .min(second.len());
        let mut straddling = std::mem::take(&mut self.straddling);
        straddling.clear();
        straddling.extend_from_slice(rest);
        straddling.extend_from_slice(&second[..missing]);
        self.walk(&straddling);
        self.straddling = straddling;
        self.walk(&second[missing..]);
    }

    pub(crate) fn take_noted(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.noted);
    }

    /// Scans whole records, and returns the beginning of a record that is left.
    fn walk<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        let known = Arc::clone(&self.known);
        let mut previous: &[u8] = &[];
        let mut last: &[u8] = &[];
        // Bytes at the end that are not prefetched yet.
        let mut far = bytes.len();
        let only_counts = known.only_counts();
        let mut samples = 0;
        let mut in_kernel = 0;
        while let Some(header) = RecordHeader::first(bytes, Endian::NATIVE) {
            if bytes.len() <= far && header.record_size() <= SMALL {
                let near = &bytes[..bytes.len().min(AHEAD)];
                far = bytes.len() - near.len();
                prefetch(near);
            }
            // An impossible size ends the scan.
            let size = if header.is_possible() { header.record_size() } else { bytes.len() };
            let Some((record, rest)) = bytes.split_at_checked(size) else { break };
            match header.kind {
                // With one event there is no id to look up, and of a batch only the first and the
                // last sample need their times.
                PERF_RECORD_SAMPLE if only_counts && self.has_first => {
                    samples += 1;
                    in_kernel += u64::from(header.is_in_kernel());
                    last = record;
                }
                PERF_RECORD_SAMPLE => {
                    self.sample(&known, header, record);
                    last = record;
                }
                PERF_RECORD_LOST | PERF_RECORD_LOST_SAMPLES => self.loss(record, previous),
                PERF_RECORD_FORK | PERF_RECORD_EXIT => self.task(record),
                PERF_RECORD_THROTTLE => self.stats.throttled += 1,
                PERF_RECORD_MMAP | PERF_RECORD_MMAP2 => self.noted.extend_from_slice(record),
                kind if !has_stated_size(kind) => {
                    self.has_stale_bytes |= RawRecord::first(record, Endian::NATIVE)
                        .is_some_and(|record| known.true_body_size(&record).is_some());
                }
                PERF_RECORD_COMM | PERF_RECORD_NAMESPACES if known.notes_tasks => {
                    self.noted.extend_from_slice(record);
                }
                _ => {}
            }
            previous = record;
            bytes = rest;
        }
        if let Some(counts) = self.stats.by_event.first_mut() {
            counts.samples += samples;
            counts.in_kernel += in_kernel;
        }
        self.stats.last_ns = self.time_ns(last).or(self.stats.last_ns);
        bytes
    }

    fn sample(&mut self, known: &EventTable, header: RecordHeader, record: &[u8]) {
        // PERF_SAMPLE_IDENTIFIER is the first word of every sample.
        let Some(id) = word(record, HEADER).filter(|id| *id > 0) else { return };
        // Ids that share a slot replace each other.
        let recent = &mut self.recent[slot(id)];
        if recent.0 != id {
            let Some(event) = known.event(id) else { return };
            *recent = (id, event);
        }
        let event = recent.1;
        if !self.has_first {
            self.has_first = true;
            self.batch_first_ns = known.time_ns(record);
            self.stats.first_ns = self.stats.first_ns.or(self.batch_first_ns);
        }
        if let Some(tasks) = &mut self.tasks
            && let Some((tid, period)) = known.task(record, event)
        {
            tasks.sample(tid, event, period);
        }
        let tally = &mut self.stats.by_event[event];
        tally.samples += 1;
        tally.in_kernel += u64::from(header.is_in_kernel());
        if let Some(at) = known.tid_at[event]
            && let Some(tid) = record.get(at..at + 4)
        {
            let tid = i32::from_ne_bytes(std::array::from_fn(|n| tid[n]));
            tally.own += u64::from(known.own.contains(&tid));
        }
    }

    fn task(&mut self, record: &[u8]) {
        if self.known.notes_tasks {
            self.noted.extend_from_slice(record);
        }
        if let (Some(tasks), Some(raw)) =
            (&mut self.tasks, RawRecord::first(record, Endian::NATIVE))
            && let Ok(record) = raw.decode()
        {
            tasks.see(&record);
        }
    }

    fn loss(&mut self, record: &[u8], previous: &[u8]) {
        let Some(records) = lost_records(record) else { return };
        let after_ns = self.time_ns(previous).or(self.stats.last_ns);
        let until_ns = self.time_ns(record).or(after_ns);
        let before = self.stats.lost;
        self.stats.lost = Some(LostRecords {
            records: before.map_or(0, |lost| lost.records).saturating_add(records),
            after_ns: before.map_or(after_ns, |lost| lost.after_ns),
            until_ns,
        });
    }

    fn time_ns(&self, record: &[u8]) -> Option<u64> {
        self.known.time_ns(record)
    }

    pub(crate) fn set_table(&mut self, table: &Arc<EventTable>) {
        self.known = Arc::clone(table);
    }

    pub(crate) fn shared_table(&self) -> Arc<EventTable> {
        Arc::clone(&self.known)
    }

    pub(crate) fn table(&self) -> &EventTable {
        &self.known
    }
}

#[cfg(test)]
mod tests {
    use super::super::tasks::CommandTasks;
    use super::*;

    /// The kernel adds the size of the trailer again for each further event.
    #[test]
    fn stale_bytes_behind_a_record_are_left_out() {
        let table = Arc::new(table());
        let mut scanner = Scanner::new(&table);
        let name = u64::from_ne_bytes(*b"bpf_f\0\0\0");
        let ksymbol = [0x1000, 0, name, task(3), 70, 6];
        let stale = [task(9), u64::MAX, 99];
        let sample = record(PERF_RECORD_SAMPLE, &[5, task(2), 80, 1]);
        let whole = record(PERF_RECORD_KSYMBOL, &ksymbol);
        let long = record(PERF_RECORD_KSYMBOL, &[&ksymbol[..], &stale].concat());
        let event = record(PERF_RECORD_BPF_EVENT, &[1, 2, task(3), 71, 5]);
        let long_event = record(PERF_RECORD_BPF_EVENT, &[1, 2, task(3), 71, 5, 0, 0, 0]);
        scanner.see(&[], [&[&sample[..], &whole, &event].concat(), &[]]);
        assert!(!scanner.has_stale_bytes);
        let batch = [&sample[..], &long, &long_event, &sample].concat();
        scanner.see(&[], [&batch, &[]]);
        assert!(scanner.has_stale_bytes);
        assert_eq!(table.trim(&batch), [&sample[..], &whole, &event, &sample].concat());
        let unknown = record(PERF_RECORD_KSYMBOL, &[0x1000, 0, name, task(3), 70, 66, 0, 0, 0]);
        assert_eq!(table.trim(&unknown), unknown, "of an event that isn't recorded");
    }

    /// Two events with the ids 5 and 6; thread 7 belongs to the recorder.
    fn table() -> EventTable {
        let sample_type =
            PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD;
        let layout =
            Layout { sample_type: sample_type.into(), sample_id_all: true, ..Layout::default() };
        EventTable::new(vec![layout; 2], &[vec![5], vec![6]], vec![7])
    }

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        [&RecordHeader::new(kind, 0, body.len()).unwrap().encode()[..], &body].concat()
    }

    /// A word that holds the same number as process and thread.
    fn task(tid: u32) -> u64 {
        u64::from(tid) << 32 | u64::from(tid)
    }

    fn sample(id: u64, tid: u32, time_ns: u64, period: u64) -> Vec<u8> {
        record(PERF_RECORD_SAMPLE, &[id, task(tid), time_ns, period])
    }

    /// Samples of both events around a loss of 40 records and a mapping.
    fn batch() -> Vec<u8> {
        [
            sample(5, 7, 10, 3),
            record(PERF_RECORD_LOST, &[5, 40, task(9), 20, 5]),
            record(PERF_RECORD_MMAP, &[task(9), 0, 0, 0, 0, task(9), 25, 5]),
            sample(6, 9, 30, 4),
            sample(5, 9, 35, 5),
        ]
        .concat()
    }

    #[test]
    fn counts_are_the_same_wherever_the_batch_wraps_around() {
        let batch = batch();
        for cut in (0..=batch.len()).step_by(8) {
            let mut scanner = Scanner::new(&Arc::new(table()));
            let (first, second) = batch.split_at(cut);
            scanner.see(&[], [first, second]);
            let counts = |samples, own| SampleCounts { samples, own, in_kernel: 0 };
            let expected = Stats {
                by_event: vec![counts(2, 1), counts(1, 0)],
                lost: Some(LostRecords { records: 40, after_ns: Some(10), until_ns: Some(20) }),
                throttled: 0,
                bytes: batch.len() as u64,
                fullest: batch.len(),
                first_ns: Some(10),
                last_ns: Some(35),
            };
            assert_eq!(scanner.stats, expected, "cut at {cut}");
            let mut noted = Vec::new();
            scanner.take_noted(&mut noted);
            assert_eq!(noted.len(), 72, "the mapping alone, cut at {cut}");
        }
    }

    #[test]
    fn a_record_has_the_layout_of_its_event() {
        let plain = table().layouts[0];
        let cpu = u64::from(PERF_SAMPLE_CPU);
        let tracepoint = Layout { sample_type: plain.sample_type | cpu, ..plain };
        let table = EventTable::new(vec![plain, tracepoint], &[vec![5], vec![6]], Vec::new());
        let loss = record(PERF_RECORD_LOST, &[6, 40, task(9), 20, 3, 6]);
        let raw = RawRecord::first(&loss, Endian::NATIVE).unwrap();
        assert_eq!((table.time_ns(&loss), table.cpu(&raw)), (Some(20), Some(3)));
        let loss = record(PERF_RECORD_LOST, &[5, 40, task(9), 20, 5]);
        let raw = RawRecord::first(&loss, Endian::NATIVE).unwrap();
        assert_eq!((table.time_ns(&loss), table.cpu(&raw)), (Some(20), None));
    }

    #[test]
    fn the_ids_of_one_cpu_have_slots_of_their_own() {
        for cpus in [1, 16, 32, 48, 64, 128, 256] {
            let slots = (0..4).map(|event| slot(1000 + event * cpus));
            let distinct: std::collections::HashSet<_> = slots.collect();
            assert!(distinct.len() >= 3, "{cpus} CPUs: {distinct:?}");
        }
    }

    #[test]
    fn periods_are_summed_by_task_and_event() {
        let weights = vec![SampleWeight::InSample, SampleWeight::Fixed(100)];
        let mut scanner = Scanner::new(&Arc::new(table().with_weights(weights)));
        scanner.see(&batch(), [&[], &[]]);
        let sums = CommandTasks::sum_up(scanner.tasks.iter(), 9, 2, true);
        assert_eq!(sums.periods, [5, 100]);
    }

    #[test]
    fn later_ids_belong_to_their_events() {
        let table = table().with_ids(&[vec![], vec![8]]);
        assert_eq!([5, 6, 8, 9].map(|id| table.event(id)), [Some(0), Some(1), Some(1), None]);
    }
}
