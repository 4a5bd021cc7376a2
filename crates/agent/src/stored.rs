//! Samples of a store as a profile, for the views of recordings.

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use std::collections::{BTreeMap, HashMap, HashSet};
use tare_format::Endian;
use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK,
    PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_TYPE_HARDWARE,
    PERF_TYPE_SOFTWARE,
};
use tare_format::file::{Description, RecordedEvent};
use tare_profile::{
    Dso, DsoId, EventId, FrameId, Profile, ProfileFrame, Row, Space, StringId, Symbol, SymbolId,
    Weight,
};
use tare_replay::ProfileSummary;
use tare_store::schema::SampleColumn;
use tare_store::{Query, SampleBatch, StackTable, StoreError, StoreReader, StoredFrame};

/// The event of the time that tasks are not on a CPU, as perf calls it.
pub const OFF_CPU_EVENT: &str = "offcpu-time";

/// The columns that a profile needs; the first two only by window.
const COLUMNS: [SampleColumn; 9] = [
    SampleColumn::Window,
    SampleColumn::WindowUs,
    SampleColumn::Event,
    SampleColumn::Process,
    SampleColumn::Thread,
    SampleColumn::WaitReason,
    SampleColumn::StackId,
    SampleColumn::Samples,
    SampleColumn::Weight,
];

/// The columns of texts that rows distinguish; the thread's name replaces the process's.
const TEXTS: [SampleColumn; 4] =
    [SampleColumn::Event, SampleColumn::Thread, SampleColumn::Process, SampleColumn::WaitReason];

/// Sums of rows, whose texts are numbers of `texts`; 0 is NULL.
#[derive(Default)]
struct RowSums {
    /// Windows with their lengths, in microseconds; empty if all are summed up.
    windows: BTreeMap<i64, i64>,
    texts: IndexSet<String, RandomState>,
    rows: HashMap<RowKey, Weight, RandomState>,
    /// Numbers of the texts of the dictionaries of [`TEXTS`], by code.
    known: [Vec<Option<u32>>; TEXTS.len()],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    event: u32,
    comm: u32,
    reason: u32,
    stack: i64,
    /// Start of the window in microseconds; 0 if all windows are summed up.
    window_us: i64,
}

/// Samples of a window that are alike.
#[derive(Clone, Copy, Debug)]
pub struct TimedRow {
    /// Start of the window in nanoseconds since 1970; `None` if all windows are summed up.
    pub time_ns: Option<u64>,
    /// What they have in common.
    pub row: Row,
    /// Their number and period.
    pub weight: Weight,
}

/// Samples of a store.
#[derive(Debug)]
pub struct StoredRows {
    /// All of them, summed up.
    pub summary: ProfileSummary,
    /// By time.
    pub rows: Vec<TimedRow>,
    /// Length of all windows together, each start counted once.
    pub recorded_ns: u64,
}

impl RowSums {
    fn number(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return 0 };
        let at = self.texts.get_index_of(text);
        let at = at.unwrap_or_else(|| self.texts.insert_full(text.to_owned()).0);
        u32::try_from(at + 1).unwrap_or(0)
    }

    fn text(&self, number: u32) -> Option<&str> {
        self.texts.get_index((number as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Returns the number of a text of a batch's dictionary.
    fn number_of(&mut self, batch: &SampleBatch<'_>, at: usize, row: usize) -> u32 {
        let column = TEXTS[at];
        let Some(code) = batch.codes(column).get(row).map(|code| *code as usize) else { return 0 };
        if let Some(known) = self.known[at].get(code).copied().flatten() {
            return known;
        }
        let text = u32::try_from(code).ok().and_then(|code| batch.texts(column)?.get(code));
        let number = self.number(text);
        let known = &mut self.known[at];
        known.resize(known.len().max(code + 1), None);
        known[code] = Some(number);
        number
    }

    fn add(&mut self, batch: &SampleBatch<'_>) {
        if batch.has_new_dictionaries() {
            self.known = Default::default();
        }
        let stacks = batch.ints(SampleColumn::StackId);
        let samples = batch.ints(SampleColumn::Samples);
        let weights = batch.ints(SampleColumn::Weight);
        let windows = batch.ints(SampleColumn::Window);
        for (start, length) in windows.iter().zip(batch.ints(SampleColumn::WindowUs)) {
            let known = self.windows.entry(*start).or_default();
            *known = (*known).max(*length);
        }
        // Rows are sorted, so equal ones follow each other.
        let mut last: Option<(RowKey, Weight)> = None;
        for row in 0..batch.rows() {
            let [event, thread, process, reason] =
                std::array::from_fn(|at| self.number_of(batch, at, row));
            let key = RowKey {
                event,
                comm: if thread == 0 { process } else { thread },
                reason,
                stack: stacks[row],
                window_us: windows.get(row).copied().unwrap_or(0),
            };
            let weight = Weight {
                samples: u64::try_from(samples[row]).unwrap_or(0),
                period: u64::try_from(weights[row]).unwrap_or(0),
            };
            match &mut last {
                Some((known, sum)) if *known == key => sum.add(weight),
                _ => {
                    if let Some((key, sum)) = last.replace((key, weight)) {
                        self.rows.entry(key).or_default().add(sum);
                    }
                }
            }
        }
        if let Some((key, sum)) = last {
            self.rows.entry(key).or_default().add(sum);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (start, length) in &other.windows {
            let known = self.windows.entry(*start).or_default();
            *known = (*known).max(*length);
        }
        for (key, weight) in &other.rows {
            let key = RowKey {
                event: self.number(other.text(key.event)),
                comm: self.number(other.text(key.comm)),
                reason: self.number(other.text(key.reason)),
                stack: key.stack,
                window_us: key.window_us,
            };
            let sum = self.rows.entry(key).or_default();
            sum.samples += weight.samples;
            sum.period += weight.period;
        }
    }
}

/// Reads the samples of a query, window by window or summed up. `None` without such samples.
///
/// # Errors
/// Fails if the store can't be read, and if the reader was stopped.
pub fn read_samples(
    reader: &StoreReader,
    query: &Query,
    by_window: bool,
) -> Result<Option<StoredRows>, StoreError> {
    let columns = if by_window { &COLUMNS[..] } else { &COLUMNS[2..] };
    let sinks = reader.scan(query, columns, RowSums::default, RowSums::add)?;
    let mut sums = RowSums::default();
    sinks.iter().for_each(|sink| sums.merge(sink));
    if sums.rows.is_empty() {
        return Ok(None);
    }
    let wanted: HashSet<i64> = sums.rows.keys().map(|key| key.stack).collect();
    let stacks = reader.stacks(query, &wanted)?;
    let lost = reader.segments(
        query,
        || 0,
        |lost, segment| {
            let figures = segment.figures;
            *lost += if segment.is_gap { figures.samples } else { figures.lost };
        },
    )?;
    let mut profile = StoredProfile::default();
    profile.fill(&sums, &stacks);
    profile.profile.losses.lost_samples = lost;
    profile.rows.sort_by_key(|row| row.time_ns);
    let StoredProfile { profile, events, rows, .. } = profile;
    let description = Description::from_events(Endian::NATIVE, events);
    let recorded_us = sums.windows.values().sum::<i64>();
    Ok(Some(StoredRows {
        summary: ProfileSummary { profile, description, ledger: None, blocks: Vec::new() },
        rows,
        recorded_ns: u64::try_from(recorded_us).unwrap_or(0).saturating_mul(1000),
    }))
}

/// A profile that is filled from a store.
#[derive(Default)]
struct StoredProfile {
    profile: Profile,
    events: Vec<RecordedEvent>,
    dsos: HashMap<String, DsoId, RandomState>,
    rows: Vec<TimedRow>,
}

impl StoredProfile {
    fn fill(&mut self, sums: &RowSums, stacks: &StackTable) {
        // The order of rows, and so of events and equal shares, doesn't depend on threads.
        let mut rows: Vec<_> = sums.rows.iter().collect();
        rows.sort_by_key(|(key, _)| {
            let texts = [key.event, key.comm, key.reason].map(|number| sums.text(number));
            (texts, key.stack, key.window_us)
        });
        let mut last: Option<(u32, EventId)> = None;
        for (key, weight) in rows {
            let event = match last.filter(|(number, _)| *number == key.event) {
                Some((_, event)) => event,
                None => self.add_event(sums.text(key.event).unwrap_or_default()),
            };
            last = Some((key.event, event));
            let comm = sums.text(key.comm).unwrap_or_default();
            let comm = self.profile.add_string(comm.as_bytes());
            let reason = sums.text(key.reason).map(|reason| self.reason_frame(reason));
            let stored = stacks.frames(key.stack).map(|frame| self.frame(&frame));
            let frames: Vec<FrameId> = reason.into_iter().chain(stored).collect();
            let stack = self.profile.add_stack(&frames);
            let leaf = frames.first().copied();
            let row = Row { comm: Some(comm), leaf, stack, ..Row::new(event) };
            self.profile.add_samples(row, *weight);
            let time_us = u64::try_from(key.window_us).ok().filter(|time_us| *time_us > 0);
            let time_ns = time_us.map(|time_us| time_us.saturating_mul(1000));
            self.rows.push(TimedRow { time_ns, row, weight: *weight });
        }
    }

    fn add_event(&mut self, name: &str) -> EventId {
        let text = self.profile.add_string(name.as_bytes());
        let event = self.profile.name_event(self.events.len(), text);
        let config = match name {
            "cpu-clock" => Some(PERF_COUNT_SW_CPU_CLOCK),
            "task-clock" => Some(PERF_COUNT_SW_TASK_CLOCK),
            OFF_CPU_EVENT => Some(PERF_COUNT_SW_BPF_OUTPUT),
            _ => None,
        };
        let attr = Attr {
            kind: if config.is_some() { PERF_TYPE_SOFTWARE } else { PERF_TYPE_HARDWARE },
            config: config.map_or(0, u64::from),
            sample_type: u64::from(PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD),
            ..Attr::default()
        };
        self.events.push(RecordedEvent { attr, ids: Vec::new(), name: Some(name.into()) });
        event
    }

    fn frame(&mut self, frame: &StoredFrame<'_>) -> FrameId {
        let space = frame.module.map_or(Space::Unknown, space);
        let dso = frame.module.map(|module| self.dso(module));
        let function = match frame.function.zip(dso) {
            Some((name, dso)) => Ok(self.symbol(dso, name, frame.address)),
            None => Err(self.profile.add_string(b"no symbol")),
        };
        self.add(space, dso, function, frame.address)
    }

    fn reason_frame(&mut self, reason: &str) -> FrameId {
        let name = format!("off-CPU ({reason})");
        let dso = self.dso(&name);
        let function = self.symbol(dso, &name, 0);
        self.add(Space::Kernel, Some(dso), Ok(function), 0)
    }

    fn symbol(&mut self, dso: DsoId, name: &str, start: u64) -> SymbolId {
        let name = self.profile.add_string(name.as_bytes());
        self.profile.add_symbol(Symbol { dso, name, start })
    }

    fn add(
        &mut self,
        space: Space,
        dso: Option<DsoId>,
        function: Result<SymbolId, StringId>,
        address: u64,
    ) -> FrameId {
        let is_inlined = false;
        let line = None;
        self.profile.add_frame(ProfileFrame { space, dso, function, address, is_inlined, line })
    }

    fn dso(&mut self, module: &str) -> DsoId {
        if let Some(known) = self.dsos.get(module) {
            return *known;
        }
        let short = module.rsplit_once('/').map_or(module, |(_, name)| name);
        let path = self.profile.add_string(module.as_bytes());
        let short = self.profile.add_string(short.as_bytes());
        let dso = self.profile.add_dso(Dso { path, short });
        self.dsos.insert(module.to_owned(), dso);
        dso
    }
}

/// Returns where the code of a module runs. Only files of programs have paths.
fn space(module: &str) -> Space {
    let is_user = module.starts_with('/') || module == "[vdso]" || module == "[vsyscall]";
    if is_user { Space::User } else { Space::Kernel }
}
