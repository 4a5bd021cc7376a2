//! Stores samples one by one, in columns of a few bytes each.
//!
//! ```text
//! chunk of 65,536   event | task | cpu | location | offset | time | period
//!                   each column: base, and 0, 1, 2, 4 or 8 bytes per sample
//! tasks             thread, name at that time, cgroup
//! locations         leaf, call chain, fields of a tracepoint, details
//! ```
//! A profile has only sums. The store has each sample, so that another selection of samples can be
//! summed without reading the recording again.

mod column;
mod selection;
mod since;

use crate::ids::{
    DetailsId, EventId, FrameId, Id, LocationId, StackId, StringId, TaskId, ThreadId,
};
use crate::profile::{Profile, ReplacedRows};
use crate::rows::Row;
use crate::sets::Set;
use crate::tables::Weight;

use column::PackedColumn;

pub use selection::{RowKeys, SelectedSamples, Selection, Term};
pub use since::NewIds;

/// Number of samples that are packed together.
const CHUNK: usize = 1 << 16;

/// A thread with its name and cgroup at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampledTask {
    /// The thread.
    pub thread: ThreadId,
    /// The thread's name at that time.
    pub comm: StringId,
    /// The path of its cgroup, if recorded.
    pub cgroup: Option<StringId>,
}

/// The leaf, call chain, tracepoint text and values of further sort keys of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SampleLocation {
    /// The frame in which the sample was taken.
    pub leaf: Option<FrameId>,
    /// The call chain.
    pub stack: Option<StackId>,
    /// The fields of a tracepoint, as text.
    pub trace: Option<StringId>,
    /// The values of further sort keys.
    pub details: Option<DetailsId>,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSample {
    /// The event.
    pub event: EventId,
    /// The sampled task.
    pub task: TaskId,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The location.
    pub location: LocationId,
    /// The instruction, in bytes from the first address of its function; `None` without a function.
    pub offset: Option<u32>,
    /// The time, in nanoseconds of the recording's clock.
    pub time_ns: Option<u64>,
    /// The weight: the number of occurrences that the sample represents (nanoseconds for clocks),
    /// unless the reader weighs samples otherwise.
    pub period: u64,
}

/// Samples in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct SampleStore {
    tasks: Set<SampledTask>,
    locations: Set<SampleLocation>,
    /// The locations with their final frames, once [`SampleStore::replace_frames`] was called.
    replaced: Vec<SampleLocation>,
    chunks: Vec<Columns<PackedColumn>>,
    last: Columns<Vec<u64>>,
    last_task: Option<(SampledTask, TaskId)>,
    first_ns: u64,
    last_ns: u64,
}

/// The fields of samples, in a column each. An absent value is 0; a present optional value is
/// stored plus one.
#[derive(Clone, Debug, Default)]
struct Columns<T> {
    event: T,
    task: T,
    cpu: T,
    location: T,
    offset: T,
    time: T,
    period: T,
}

impl Columns<Vec<u64>> {
    fn pack(&self) -> Columns<PackedColumn> {
        let pack = |values: &Vec<u64>| PackedColumn::pack(values);
        Columns {
            event: pack(&self.event),
            task: pack(&self.task),
            cpu: pack(&self.cpu),
            location: pack(&self.location),
            offset: pack(&self.offset),
            time: pack(&self.time),
            period: pack(&self.period),
        }
    }

    fn clear(&mut self) {
        let Self { event, task, cpu, location, offset, time, period } = self;
        [event, task, cpu, location, offset, time, period].into_iter().for_each(Vec::clear);
    }
}

impl<T> Columns<T> {
    /// Assembles a sample; `at` reads its value in a column.
    fn read_sample(&self, at: impl Fn(&T) -> u64) -> StoredSample {
        let index = |column| usize::try_from(at(column)).unwrap_or(usize::MAX);
        let optional = |column| at(column).checked_sub(1);
        let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
        StoredSample {
            event: EventId::from_index(index(&self.event)),
            task: TaskId::from_index(index(&self.task)),
            cpu: optional(&self.cpu).map(narrow),
            location: LocationId::from_index(index(&self.location)),
            offset: optional(&self.offset).map(narrow),
            time_ns: optional(&self.time),
            period: at(&self.period),
        }
    }
}

impl SampleStore {
    /// Adds a task; equal tasks have the same id.
    pub fn add_task(&mut self, task: SampledTask) -> TaskId {
        if let Some((_, id)) = self.last_task.filter(|(last, _)| *last == task) {
            return id;
        }
        let id = self.tasks.insert(task);
        self.last_task = Some((task, id));
        id
    }

    /// Replaces the name that the samples of certain threads have so far.
    pub fn replace_comm(
        &mut self,
        is_of: impl Fn(ThreadId) -> bool,
        before: StringId,
        now: StringId,
    ) {
        self.last_task = None;
        self.tasks.replace(|task| {
            let is_replaced = task.comm == before && is_of(task.thread);
            is_replaced.then_some(SampledTask { comm: now, ..*task })
        });
    }

    /// Adds a location; equal locations have the same id.
    pub fn add_location(&mut self, location: SampleLocation) -> LocationId {
        self.locations.insert(location)
    }

    /// Adds a sample.
    pub fn push(&mut self, sample: &StoredSample) {
        let present = |value: Option<u64>| value.map_or(0, |value| value.saturating_add(1));
        let columns = &mut self.last;
        columns.event.push(sample.event.index() as u64);
        columns.task.push(sample.task.index() as u64);
        columns.cpu.push(present(sample.cpu.map(u64::from)));
        columns.location.push(sample.location.index() as u64);
        columns.offset.push(present(sample.offset.map(u64::from)));
        columns.time.push(present(sample.time_ns));
        columns.period.push(sample.period);
        if let Some(time_ns) = sample.time_ns {
            let is_first = self.last_ns == 0;
            self.first_ns = if is_first { time_ns } else { self.first_ns.min(time_ns) };
            self.last_ns = self.last_ns.max(time_ns);
        }
        if columns.event.len() == CHUNK {
            self.chunks.push(columns.pack());
            columns.clear();
        }
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.len() * CHUNK + self.last.event.len()
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All samples.
    pub fn iter(&self) -> impl Iterator<Item = StoredSample> {
        let chunks = self
            .chunks
            .iter()
            .flat_map(|columns| (0..CHUNK).map(|at| columns.read_sample(|column| column.get(at))));
        let at = |column: &Vec<u64>, at: usize| column.get(at).copied().unwrap_or(0);
        let rest = (0..self.last.event.len())
            .map(move |index| self.last.read_sample(|column| at(column, index)));
        chunks.chain(rest)
    }

    /// The lowest and the highest time of samples, in nanoseconds; `None` if no sample has a time.
    #[must_use]
    pub fn times(&self) -> Option<(u64, u64)> {
        (self.last_ns > 0).then_some((self.first_ns, self.last_ns))
    }

    /// A task.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&SampledTask> {
        self.tasks.get(id)
    }

    /// All tasks, in the order of their ids.
    pub fn tasks(&self) -> impl Iterator<Item = &SampledTask> {
        self.tasks.iter()
    }

    /// A location.
    #[must_use]
    pub fn location(&self, id: LocationId) -> Option<&SampleLocation> {
        self.replaced.get(id.index()).or_else(|| self.locations.get(id))
    }

    /// All locations, in the order of their ids.
    pub fn locations(&self) -> impl Iterator<Item = &SampleLocation> {
        self.replaced.iter().chain(self.locations.iter().skip(self.replaced.len()))
    }

    /// Replaces the frames of all locations, after the last sample was added. `replace` gets a
    /// profile with a row for each location and calls [`Profile::replace_frames`]. The profile's
    /// rows are removed before and after.
    pub fn replace_frames(
        &mut self,
        profile: &mut Profile,
        event: EventId,
        replace: impl FnOnce(&mut Profile) -> Option<ReplacedRows>,
    ) {
        profile.clear_rows();
        let row = |location: &SampleLocation| {
            let SampleLocation { leaf, stack, trace, details } = *location;
            Row { leaf, stack, trace, details, ..Row::new(event) }
        };
        let rows: Vec<_> = self
            .locations
            .iter()
            .map(|location| profile.add_samples(row(location), Weight::default()))
            .collect();
        if let Some(now) = replace(profile) {
            let location = |before| {
                let (row, _) = profile.row(now.get(before)?)?;
                let Row { leaf, stack, trace, details, .. } = *row;
                Some(SampleLocation { leaf, stack, trace, details })
            };
            self.replaced = rows.into_iter().map_while(location).collect();
        }
        profile.clear_rows();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::tables::Thread;

    #[test]
    fn returns_stored_samples_across_chunks() {
        let mut profile = Profile::default();
        let mut samples = SampleStore::default();
        let comm = profile.add_string(b"sh");
        let event = profile.name_event(0, comm);
        let thread = profile.add_thread(Thread { pid: 1, tid: 1 });
        let task = samples.add_task(SampledTask { thread, comm, cgroup: None });
        let location = samples.add_location(SampleLocation::default());
        let made = |at: u64| StoredSample {
            event,
            task,
            cpu: (!at.is_multiple_of(3)).then_some(u32::try_from(at % 3).unwrap()),
            location,
            offset: (!at.is_multiple_of(5)).then_some(u32::try_from(at).unwrap()),
            time_ns: Some(1_000_000_000_000 + at * at),
            period: if at == 70_000 { u64::MAX } else { at },
        };
        let all: Vec<_> = (0..140_000).map(made).collect();
        all.iter().for_each(|sample| samples.push(sample));
        assert_eq!(samples.len(), all.len());
        assert!(samples.iter().eq(all.iter().copied()));
        let last = 1_000_000_000_000 + 139_999 * 139_999;
        assert_eq!(samples.times(), Some((1_000_000_000_000, last)));
    }
}
