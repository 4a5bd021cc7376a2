//! Keeps samples one by one.

use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::record::{Branches, Record, Sample as RecordedSample};
use tare_profile::{
    Detail, FrameId, FramePointers, LocationId, NamingAdvice, NewIds, Profile, SampleLocation,
    SampleStore, SampledTask, StoredSample, StringId, SymbolId, Weight,
};

use super::details::{DetailedSample, Details};
use super::events::{EventTable, ProfiledEvent};
use super::frames::FrameTable;
use super::lines::{LineLookup, LineNeeds};
use super::stacks::{CallStacks, ChainLimit, code_address};
use super::threads::ThreadTable;
use crate::callchain::CodeAddress;
use crate::error::Error;
use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::sink::Sink;

/// Which fields of samples are kept, and how they are looked up.
#[derive(Clone, Debug, Default)]
pub struct SampleSinkOptions {
    /// Separate locations by the fields of tracepoints.
    pub trace: bool,
    /// Print each field by its type instead of by the tracepoint's own format.
    pub raw_trace: bool,
    /// Add source lines from debug info ([`SampleSink::locate`]).
    pub lines: bool,
    /// Add inlined functions and their lines to call chains ([`SampleSink::locate`]).
    pub inline: bool,
    /// Look for missing callers in call chains by frame pointers ([`SampleSink::frame_pointers`]).
    /// Can't be combined with `forgets`.
    pub judges_chains: bool,
    /// Keep a sample's branches, each with weight 1, instead of the sample.
    pub branches: bool,
    /// Weigh samples by the cost of their memory access, at least 1.
    pub by_cost: bool,
    /// Further fields that separate locations.
    pub details: Vec<Detail>,
    /// See [`super::ProfileOptions::time_quantum_ns`].
    pub time_quantum_ns: u64,
    /// See [`super::ProfileOptions::nanoseconds`].
    pub nanoseconds: bool,
    /// See [`super::ProfileOptions::folds_numbers`].
    pub folds_numbers: bool,
    /// Use small caches, for few samples per second that are forgotten again
    /// ([`crate::Live::forget`]).
    pub forgets: bool,
}

/// Keeps each sample, with the tables of a profile that has no rows.
#[derive(Debug)]
pub struct SampleSink {
    options: SampleSinkOptions,
    profile: Profile,
    samples: SampleStore,
    events: EventTable,
    threads: ThreadTable,
    stacks: CallStacks,
    offsets: OffsetCache,
    details: Details,
    /// The last cgroup and its path.
    cgroup: Option<(u64, StringId)>,
}

impl Sink for SampleSink {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.take_sample(machine, sample);
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        match record.fields {
            Record::Namespaces(namespaces) => self.details.learn_namespaces(namespaces),
            Record::Comm(comm) => self.name_earlier_samples(machine, comm.tid),
            // Earlier samples with this id are of another thread.
            Record::Fork(task) => _ = self.threads.take_unnamed(task.tid),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl SampleSink {
    /// Makes an empty sink.
    #[must_use]
    pub fn new(options: SampleSinkOptions, description: &Description) -> Self {
        let needs = LineNeeds { lines: options.lines, inlined: options.inline };
        let lines = LineLookup::new(needs);
        let mut profile = Profile::default();
        profile.set_details(&options.details);
        let mut events = EventTable::new(options.raw_trace);
        events.learn(&mut profile, description);
        let frames = FrameTable::new(lines, options.judges_chains);
        let frames = if options.forgets { frames.with_small_cache() } else { frames };
        let details = options.details.clone();
        Self {
            profile,
            samples: SampleStore::default(),
            events,
            threads: ThreadTable::new(options.folds_numbers),
            stacks: CallStacks::new(frames),
            offsets: OffsetCache::with_slots(if options.forgets { 1 << 10 } else { 1 << 14 }),
            details: Details::new(details, options.time_quantum_ns, options.nanoseconds),
            cgroup: None,
            options,
        }
    }

    /// Adds the description's events again, with their current names.
    pub fn learn_events(&mut self, description: &Description) {
        self.events.learn_names(&mut self.profile, description);
    }

    pub(crate) fn take_sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
    ) {
        self.events.learn(&mut self.profile, sample.description);
        if let Some(event) = sample.event.and_then(|index| self.events.get(index)) {
            self.add_sample(machine, sample, event);
        }
    }

    fn add_sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
        event: ProfiledEvent,
    ) {
        let head = &sample.fields.head;
        let pid = head.pid.unwrap_or(-1);
        let tid = head.tid.unwrap_or(-1);
        let (_, thread) = self.threads.find(&mut self.profile, machine, pid, tid);
        let cgroup = sample.fields.cgroup.map(|id| self.find_cgroup_path(machine, id));
        let task =
            self.samples.add_task(SampledTask { thread: thread.id, comm: thread.comm, cgroup });
        // As in perf, a branch weighs 1.
        let period = if self.options.branches {
            1
        } else if self.options.by_cost {
            sample.fields.weight.map_or(1, |weight| weight.max(1))
        } else {
            head.period.unwrap_or(event.period)
        };
        let kept = |location, offset| StoredSample {
            event: event.id,
            task,
            cpu: head.cpu,
            location,
            offset,
            time_ns: sample.time_ns,
            period,
        };
        if self.options.branches {
            return self.add_branches(machine, sample, kept);
        }
        let (location, offset) = self.add_location(machine, sample, pid);
        self.samples.push(&kept(location, offset));
    }

    /// Gives a thread's samples without a name the one that it has now.
    fn name_earlier_samples(&mut self, machine: &Machine, tid: i32) {
        if let Some(unnamed) = self.threads.take_unnamed(tid)
            && let Some(comm) = machine.comm(tid)
        {
            let name = self.threads.add_name(&mut self.profile, comm);
            let is_same = |thread| self.profile.thread(thread).is_some_and(|of| of.tid == tid);
            self.samples.replace_comm(is_same, unnamed, name);
        }
    }

    /// Keeps a sample's branches. As in perf, the target of a branch is its place in code.
    fn add_branches(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
        kept: impl Fn(LocationId, Option<u32>) -> StoredSample,
    ) {
        let pid = sample.fields.head.pid.unwrap_or(-1);
        for branch in sample.fields.branches.iter().flat_map(Branches::iter) {
            let (leaf, offset) = self.find_leaf(machine, pid, CodeAddress::from_branch(branch.to));
            let Self { profile, stacks, details, .. } = self;
            let detailed = DetailedSample { sample, branch: Some(&branch) };
            let details = details.add(profile, machine, Some(&mut stacks.frames), detailed);
            let location = SampleLocation { leaf: Some(leaf), details, ..Default::default() };
            let location = self.samples.add_location(location);
            self.samples.push(&kept(location, offset));
        }
    }

    fn find_cgroup_path(&mut self, machine: &Machine, id: u64) -> StringId {
        if let Some((_, path)) = self.cgroup.filter(|(last, _)| *last == id) {
            return path;
        }
        let path = match machine.cgroup(id) {
            Some(path) => self.profile.add_string(path),
            None => self.profile.add_string(format!("unknown[{id}]").as_bytes()),
        };
        self.cgroup = Some((id, path));
        path
    }

    /// Returns the location of a sample, and its distance from its function's first address.
    fn add_location(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
        pid: i32,
    ) -> (LocationId, Option<u32>) {
        let at = code_address(sample);
        let (leaf, offset) = at.map(|at| self.find_leaf(machine, pid, at)).unzip();
        let Self { options, profile, events, stacks, details, .. } = self;
        let stack = stacks.add_stack(profile, machine, sample, ChainLimit::NONE);
        let trace = if options.trace { events.add_trace(profile, machine, sample) } else { None };
        let detailed = DetailedSample { sample, branch: None };
        let details = details.add(profile, machine, Some(&mut stacks.frames), detailed);
        let location = SampleLocation { leaf, stack, trace, details };
        (self.samples.add_location(location), offset.flatten())
    }

    /// Returns the frame of an address, and its distance from its function's first address.
    fn find_leaf(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        at: CodeAddress,
    ) -> (FrameId, Option<u32>) {
        let Self { profile, stacks, offsets, .. } = self;
        let leaf = stacks.frames.find_frame(profile, machine, pid, at);
        let first = function_start(profile, leaf);
        (leaf, first.and_then(|first| offsets.distance(machine, pid, at, first)))
    }

    /// Adds lines and inlined functions from debug info, after the last sample and if the options
    /// ask for them.
    pub fn locate(&mut self, machine: &Machine) {
        if let Some(ProfiledEvent { id, .. }) = self.events.get(0)
            && self.stacks.frames.needs_lines()
        {
            let Self { profile, samples, stacks: CallStacks { frames, .. }, .. } = self;
            samples.replace_frames(profile, id, |profile| frames.locate(profile, machine));
        }
    }

    /// Returns the recorded machine's symbol of a function.
    #[must_use]
    pub fn recorded_symbol(&self, function: SymbolId) -> Option<tare_symbols::Symbol> {
        self.stacks.frames.recorded_symbol(function)
    }

    /// Forgets samples older than a time, in nanoseconds of the recording's clock, and everything
    /// that only they needed. The machine that the samples came from forgets too: a thread stays as
    /// long as its samples. Returns the new ids.
    pub fn forget_before(&mut self, machine: &mut Machine, time_ns: u64) -> NewIds {
        let (profile, samples, new_ids) = self.samples.copy_since(&self.profile, time_ns);
        self.profile = profile;
        self.samples = samples;
        machine.forget_ended_before(time_ns);
        // A function without samples must not keep its DSO.
        let frames = &mut self.stacks.frames;
        frames.renumber(&new_ids, &self.profile);
        if let Some(dsos) = machine.forget_dsos(frames.recorded_dsos(), false) {
            frames.renumber_dsos(&dsos, |dso| machine.is_compiled(dso));
        }
        self.threads = ThreadTable::new(self.options.folds_numbers);
        self.offsets.slots.fill(None);
        self.cgroup = None;
        new_ids
    }

    /// Returns the counts of call chains that miss callers for lack of frame pointers, with
    /// [`SampleSinkOptions::judges_chains`].
    #[must_use]
    pub fn frame_pointers(&self) -> Option<FramePointers> {
        self.stacks.frame_pointers(&self.profile)
    }

    /// Returns the missing symbols that would name the largest share of an event's samples; `None`
    /// if that share is below 5%.
    #[must_use]
    pub fn unnamed(&self) -> Option<NamingAdvice> {
        let samples = self.samples.iter().map(|sample| {
            let leaf = self.samples.location(sample.location).and_then(|of| of.leaf);
            (sample.event, leaf, Weight { period: sample.period, samples: 1 })
        });
        self.stacks.frames.missing.largest(&self.profile, samples)
    }

    /// Returns the tables and the samples.
    #[must_use]
    pub fn tables(&self) -> (&Profile, &SampleStore) {
        (&self.profile, &self.samples)
    }

    /// Returns the tables, whose rows [`SampleStore::fill_rows`] makes, and the samples.
    pub fn parts(&mut self) -> (&mut Profile, &SampleStore) {
        (&mut self.profile, &self.samples)
    }
}

fn function_start(profile: &Profile, frame: FrameId) -> Option<u64> {
    Some(profile.symbol(profile.frame(frame)?.function.ok()?)?.start)
}

/// A cache of distances from functions' first addresses. It fits into a CPU's cache, and its number
/// of slots is a power of two.
#[derive(Debug)]
struct OffsetCache {
    slots: Box<[Option<CachedOffset>]>,
}

#[derive(Clone, Copy, Debug)]
struct CachedOffset {
    at: CodeAddress,
    /// Of the mappings.
    version: u64,
    offset: Option<u32>,
}

impl OffsetCache {
    fn with_slots(slots: usize) -> Self {
        Self { slots: vec![None; slots].into() }
    }

    /// Returns the distance in bytes of `at` from `start`, an address in its DSO. `None` if `at`
    /// isn't mapped, or lies before `start`.
    fn distance(
        &mut self,
        machine: &Machine,
        pid: i32,
        at: CodeAddress,
        start: u64,
    ) -> Option<u32> {
        let version = machine.mappings_version(at.mode, pid)?;
        let mixed = (at.address ^ version.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = usize::try_from(mixed >> 48).ok()? & self.slots.len().wrapping_sub(1);
        let slot = self.slots.get_mut(slot)?;
        if let Some(cached) = slot.filter(|cached| (cached.at, cached.version) == (at, version)) {
            return cached.offset;
        }
        let in_dso = machine.dso_address(at.mode, pid, at.address);
        let distance = in_dso.and_then(|in_dso| in_dso.address.checked_sub(start));
        let offset = distance.and_then(|distance| u32::try_from(distance).ok());
        *slot = Some(CachedOffset { at, version, offset });
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpumode::CpuMode;
    use crate::machine::tests::{machine_with, map};

    #[test]
    fn an_offset_cache_separates_addresses_and_mappings() {
        let mut machine = machine_with(&[(1, 0x1000, "/nonexistent/a")]);
        let mut offsets = OffsetCache::with_slots(1);
        let at = |address| CodeAddress::exact(CpuMode::User, address);
        let start = machine.dso_address(CpuMode::User, 1, 0x1000).unwrap().address;
        let mut distance =
            |machine: &Machine, address| offsets.distance(machine, 1, at(address), start);
        assert_eq!(distance(&machine, 0x1008), Some(8));
        assert_eq!(distance(&machine, 0x1010), Some(16), "in the same slot");
        assert_eq!(distance(&machine, 0x1010), Some(16));
        map(&mut machine, 1, 0x800, "/nonexistent/b");
        assert_eq!(distance(&machine, 0x1010), Some(0x810), "the mapping was replaced");
        assert_eq!(distance(&machine, 0x9000), None, "unmapped");
    }
}
