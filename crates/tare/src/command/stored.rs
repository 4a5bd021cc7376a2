//! Samples of a store as a profile, for the views of recordings.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use indexmap::IndexSet;
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
use tare_store::{SampleBatch, StackTable, StoreReader, StoredFrame};

use crate::cli::resolved::stored::StoredSamples;
use crate::exit::{Exit, Refusal};

/// The event of the time that tasks are not on a CPU, as perf calls it.
pub(crate) const OFF_CPU: &str = "offcpu-time";

/// Threads that read the store.
const THREADS: usize = 2;

/// The columns that a profile needs.
const COLUMNS: [SampleColumn; 7] = [
    SampleColumn::Event,
    SampleColumn::Process,
    SampleColumn::Thread,
    SampleColumn::WaitReason,
    SampleColumn::StackId,
    SampleColumn::Samples,
    SampleColumn::Weight,
];

/// Sums of rows, whose texts are numbers of `texts`; 0 is NULL.
#[derive(Default)]
struct RowSums {
    texts: IndexSet<String, RandomState>,
    rows: HashMap<RowKey, Weight, RandomState>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    event: u32,
    comm: u32,
    reason: u32,
    stack: i64,
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

    fn add(&mut self, batch: &SampleBatch<'_>) {
        let text = |column: SampleColumn, row: usize| {
            batch.texts(column)?.get(*batch.codes(column).get(row)?)
        };
        let stacks = batch.ints(SampleColumn::StackId);
        let samples = batch.ints(SampleColumn::Samples);
        let weights = batch.ints(SampleColumn::Weight);
        for row in 0..batch.rows() {
            let thread = text(SampleColumn::Thread, row);
            let key = RowKey {
                event: self.number(text(SampleColumn::Event, row)),
                comm: self.number(thread.or_else(|| text(SampleColumn::Process, row))),
                reason: self.number(text(SampleColumn::WaitReason, row)),
                stack: stacks[row],
            };
            let sum = self.rows.entry(key).or_default();
            sum.samples += u64::try_from(samples[row]).unwrap_or(0);
            sum.period += u64::try_from(weights[row]).unwrap_or(0);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (key, weight) in &other.rows {
            let key = RowKey {
                event: self.number(other.text(key.event)),
                comm: self.number(other.text(key.comm)),
                reason: self.number(other.text(key.reason)),
                stack: key.stack,
            };
            let sum = self.rows.entry(key).or_default();
            sum.samples += weight.samples;
            sum.period += weight.period;
        }
    }
}

/// Sums up the samples of a store.
pub(crate) fn summarize(stored: &StoredSamples) -> anyhow::Result<ProfileSummary> {
    let reader = StoreReader::open(&stored.store, THREADS)?;
    let sinks = reader.scan(&stored.query, &COLUMNS, RowSums::default, RowSums::add)?;
    let mut sums = RowSums::default();
    sinks.iter().for_each(|sink| sums.merge(sink));
    if sums.rows.is_empty() {
        return Err(Refusal {
            exit: Exit::Failure,
            message: format!(
                "{}: no window has such samples; leave out --where, --since or --until",
                stored.store.display()
            ),
        }
        .into());
    }
    let wanted: HashSet<i64> = sums.rows.keys().map(|key| key.stack).collect();
    let stacks = reader.stacks(&stored.query, &wanted)?;
    let lost = reader.segments(
        &stored.query,
        || 0,
        |lost, segment| {
            let figures = segment.figures;
            *lost += if segment.is_gap { figures.samples } else { figures.lost };
        },
    )?;
    let mut profile = StoredProfile::default();
    profile.fill(&sums, &stacks);
    profile.profile.losses.lost_samples = lost;
    let description = Description::from_events(Endian::NATIVE, profile.events);
    Ok(ProfileSummary { profile: profile.profile, description, ledger: None, blocks: Vec::new() })
}

/// A profile that is filled from a store.
#[derive(Default)]
struct StoredProfile {
    profile: Profile,
    events: Vec<RecordedEvent>,
    dsos: HashMap<String, DsoId, RandomState>,
}

impl StoredProfile {
    fn fill(&mut self, sums: &RowSums, stacks: &StackTable) {
        // The order of rows, and so of events and equal shares, doesn't depend on threads.
        let mut rows: Vec<_> = sums.rows.iter().collect();
        rows.sort_by_key(|(key, _)| {
            (sums.text(key.event), sums.text(key.comm), sums.text(key.reason), key.stack)
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
            self.profile
                .add_samples(Row { comm: Some(comm), leaf, stack, ..Row::new(event) }, *weight);
        }
    }

    fn add_event(&mut self, name: &str) -> EventId {
        let text = self.profile.add_string(name.as_bytes());
        let event = self.profile.name_event(self.events.len(), text);
        let config = match name {
            "cpu-clock" => Some(PERF_COUNT_SW_CPU_CLOCK),
            "task-clock" => Some(PERF_COUNT_SW_TASK_CLOCK),
            OFF_CPU => Some(PERF_COUNT_SW_BPF_OUTPUT),
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
