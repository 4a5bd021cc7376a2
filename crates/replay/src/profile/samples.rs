//! Keeps samples one by one.

use std::ops::ControlFlow;

use tare_format::abi::Sampling;
use tare_format::file::Description;
use tare_format::record::{Branches, Record, Sample as RecordedSample};
use tare_profile::{
    Detail, EventId, FrameId, FramePointers, LocationId, NamingAdvice, NewIds, Profile, Sample,
    SampleLocation, Samples, StringId, SymbolId, Task, Weight,
};

use super::details::{Details, Subject};
use super::frame_pointers::Chains;
use super::frames::Frames;
use super::lines::Lines;
use super::threads::ThreadTable;
use crate::callchain::CodeAddress;
use crate::cpumode::CpuMode;
use crate::error::Error;
use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::sink::Sink;
use crate::tracepoints::Tracepoints;

/// What is kept of each sample.
#[derive(Clone, Debug, Default)]
pub struct SampleSinkOptions {
    /// Locations are told apart by the fields of tracepoints.
    pub trace: bool,
    /// These fields one by one, instead of the tracepoint's own words.
    pub raw_trace: bool,
    /// Lines of source are asked of debug info ([`SampleSink::locate`]).
    pub lines: bool,
    /// Inlined functions are frames of call chains then, with their lines.
    pub inline: bool,
    /// Call chains by frame pointers are looked at for callers that they miss
    /// ([`SampleSink::frame_pointers`]). Not for samples of which some are forgotten.
    pub judges_chains: bool,
    /// Each branch that a sample has is kept instead of the sample, and weighs 1.
    pub branches: bool,
    /// Samples weigh what their access cost, at least 1.
    pub by_cost: bool,
    /// What else tells locations apart.
    pub details: Vec<Detail>,
    /// See [`super::ProfileOptions::time_quantum_ns`].
    pub time_quantum_ns: u64,
    /// See [`super::ProfileOptions::nanoseconds`].
    pub nanoseconds: bool,
    /// Samples come slowly, and are forgotten again ([`crate::Live::forget`]).
    pub forgets: bool,
}

/// Samples while they come: the tables of a profile without rows, and each sample by itself.
#[derive(Debug)]
pub struct SampleSink {
    profile: Profile,
    samples: Samples,
    threads: ThreadTable,
    tracepoints: Tracepoints,
    events: Vec<Event>,
    frames: Frames,
    chain: Vec<CodeAddress>,
    frame_pointers: Chains,
    offsets: Offsets,
    cgroup: Option<(u64, StringId)>,
    by_trace: bool,
    by_branch: bool,
    by_cost: bool,
    details: Details,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    id: EventId,
    /// What a sample weighs that doesn't say so.
    period: u64,
}

impl Sink for SampleSink {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.take(machine, sample);
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        _machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        if let Record::Namespaces(namespaces) = record.fields {
            self.details.learn_namespaces(namespaces);
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl SampleSink {
    /// Nothing is kept yet.
    #[must_use]
    pub fn new(options: SampleSinkOptions, description: &Description) -> Self {
        let asks = options.lines || options.inline;
        let lines = asks.then(|| Lines::new(options.inline));
        let mut profile = Profile::default();
        profile.set_details(&options.details);
        let frames = Frames::new(lines, options.judges_chains);
        let mut sink = Self {
            profile,
            samples: Samples::default(),
            threads: ThreadTable::default(),
            tracepoints: Tracepoints::new(options.raw_trace),
            events: Vec::new(),
            frames: if options.forgets { frames.forgetting() } else { frames },
            chain: Vec::new(),
            frame_pointers: Chains::default(),
            offsets: Offsets::with_slots(if options.forgets { 1 << 10 } else { 1 << 14 }),
            cgroup: None,
            by_trace: options.trace,
            by_branch: options.branches,
            by_cost: options.by_cost,
            details: Details::new(options.details, options.time_quantum_ns, options.nanoseconds),
        };
        sink.learn(description);
        sink
    }

    /// Takes in events that became known since.
    fn learn(&mut self, description: &Description) {
        if self.events.len() < description.events().len() {
            self.learn_events(description);
        }
    }

    /// Takes in events, and their names as they are known by now.
    pub fn learn_events(&mut self, description: &Description) {
        self.tracepoints.learn(description);
        self.events.clear();
        for (index, event) in description.events().iter().enumerate() {
            let name = self.profile.add_string(&self.tracepoints.event_name(event));
            let period = match event.attr.sampling {
                Sampling::None => 0,
                Sampling::Period(period) | Sampling::Frequency(period) => period,
            };
            self.events.push(Event { id: self.profile.name_event(index, name), period });
        }
    }

    /// Keeps a sample.
    pub(crate) fn take(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
    ) {
        self.learn(sample.description);
        if let Some(event) = sample.event.and_then(|index| self.events.get(index)).copied() {
            self.add(machine, sample, event);
        }
    }

    fn add(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
        event: Event,
    ) {
        let head = &sample.fields.head;
        let pid = head.pid.unwrap_or(-1);
        let tid = head.tid.unwrap_or(-1);
        let (_, thread) = self.threads.find(&mut self.profile, machine, pid, tid);
        let cgroup = sample.fields.cgroup.map(|id| self.cgroup(machine, id));
        let task = self.samples.add_task(Task { thread: thread.id, comm: thread.comm, cgroup });
        // As in perf a branch stands for itself.
        let period = match self {
            Self { by_branch: true, .. } => 1,
            Self { by_cost: true, .. } => sample.fields.weight.map_or(1, |weight| weight.max(1)),
            _ => head.period.unwrap_or(event.period),
        };
        let kept = |location, offset| Sample {
            event: event.id,
            task,
            cpu: head.cpu,
            location,
            offset,
            time_ns: sample.time_ns,
            period,
        };
        if self.by_branch {
            return self.add_branches(machine, sample, kept);
        }
        let (location, offset) = self.location(machine, sample, pid);
        self.samples.push(&kept(location, offset));
    }

    /// Keeps the branches of a sample, each of which weighs 1, as in perf: where they went to is the
    /// place in code.
    fn add_branches(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
        kept: impl Fn(LocationId, Option<u32>) -> Sample,
    ) {
        let pid = sample.fields.head.pid.unwrap_or(-1);
        for branch in sample.fields.branches.iter().flat_map(Branches::iter) {
            let (leaf, offset) = self.leaf(machine, pid, Subject::code(branch.to));
            let Self { profile, frames, details, .. } = self;
            let subject = Subject { sample, branch: Some(&branch) };
            let details = details.of(profile, machine, Some(frames), subject);
            let location = SampleLocation { leaf: Some(leaf), details, ..Default::default() };
            let location = self.samples.add_location(location);
            self.samples.push(&kept(location, offset));
        }
    }

    fn cgroup(&mut self, machine: &Machine, id: u64) -> StringId {
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

    /// Where a sample was, and how far from its function's first address.
    fn location(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
        pid: i32,
    ) -> (LocationId, Option<u32>) {
        let mode = CpuMode::of_misc(sample.raw.misc);
        let at = sample.fields.head.ip.map(|address| CodeAddress { mode, address });
        let (leaf, offset) = at.map(|at| self.leaf(machine, pid, at)).unzip();
        let profile = &mut self.profile;
        let frames = &mut self.frames;
        let stack = sample.fields.callchain.and_then(|_| {
            machine.callchain(sample, usize::MAX, &mut self.chain);
            frames.stack(profile, machine, pid, &self.chain)
        });
        let by_frame_pointers =
            sample.fields.stack_user.is_none() && sample.fields.branches.is_none();
        if let (Some(stack), Some(kept)) = (stack.filter(|_| by_frame_pointers), frames.kept()) {
            self.frame_pointers.add(profile, kept, stack, frames.last_chain());
        }
        let trace = self.trace(machine, sample);
        let Self { profile, frames, details, .. } = self;
        let details = details.of(profile, machine, Some(frames), Subject { sample, branch: None });
        let location = SampleLocation { leaf, stack, trace, details };
        (self.samples.add_location(location), offset.flatten())
    }

    /// The frame of an address, and how far it is from its function's first address.
    fn leaf(&mut self, machine: &mut Machine, pid: i32, at: CodeAddress) -> (FrameId, Option<u32>) {
        let Self { profile, frames, offsets, .. } = self;
        let leaf = frames.frame(profile, machine, pid, at);
        let first = start(profile, leaf);
        (leaf, first.and_then(|first| offsets.of(machine, pid, at, first)))
    }

    /// The fields of a tracepoint's sample as text.
    fn trace(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, RecordedSample<'_>>,
    ) -> Option<StringId> {
        let raw = sample.fields.raw.filter(|_| self.by_trace)?;
        let event = sample.description.events().get(sample.event?)?;
        let fields = self.tracepoints.fields(machine, event.attr.config, raw);
        (!fields.is_empty()).then(|| self.profile.add_string(fields))
    }

    /// Asks debug info for lines and inlined functions, where these are wanted: after the last
    /// sample.
    pub fn locate(&mut self, machine: &Machine) {
        if let Some(Event { id, .. }) = self.events.first().copied()
            && self.frames.asks_for_lines()
        {
            let Self { profile, samples, frames, .. } = self;
            samples.replace_frames(profile, id, |profile| frames.locate(profile, machine));
        }
    }

    /// The symbol of the recorded machine that a function of the tables is.
    #[must_use]
    pub fn recorded_symbol(&self, function: SymbolId) -> Option<tare_symbols::Symbol> {
        self.frames.recorded_symbol(function)
    }

    /// Forgets what is older than a time, in nanoseconds of the recording's clock, and what only
    /// that needed: also in the machine that the samples came from, whose threads are kept as long
    /// as their samples. Says what has become of the ids in the tables.
    pub fn forget_before(&mut self, machine: &mut Machine, time_ns: u64) -> NewIds {
        let (profile, samples, now) = self.samples.since(&self.profile, time_ns);
        (self.profile, self.samples) = (profile, samples);
        machine.forget_ended_before(time_ns);
        // Functions whose last sample is forgotten keep no DSO.
        self.frames.renumber(&now, &self.profile);
        if let Some(dsos) = machine.forget_dsos(self.frames.recorded_dsos(), false) {
            self.frames.renumber_dsos(&dsos, |dso| machine.is_compiled(dso));
        }
        self.threads = ThreadTable::default();
        self.offsets.0.fill(None);
        self.cgroup = None;
        now
    }

    /// Which call chains miss callers for want of frame pointers, where that was asked for.
    #[must_use]
    pub fn frame_pointers(&self) -> Option<FramePointers> {
        self.frame_pointers.summary(&self.profile)
    }

    /// What most samples without a function's name lack.
    #[must_use]
    pub fn unnamed(&self) -> Option<NamingAdvice> {
        let samples = self.samples.iter().map(|sample| {
            let leaf = self.samples.location(sample.location).and_then(|of| of.leaf);
            (sample.event, leaf, Weight { period: sample.period, samples: 1 })
        });
        self.frames.lacks.largest(&self.profile, samples)
    }

    /// The tables, and the samples.
    #[must_use]
    pub fn tables(&self) -> (&Profile, &Samples) {
        (&self.profile, &self.samples)
    }

    /// The tables, whose rows [`Samples::fill_rows`] makes, and the samples.
    pub fn parts(&mut self) -> (&mut Profile, &Samples) {
        (&mut self.profile, &self.samples)
    }
}

/// The first address of a frame's function.
fn start(profile: &Profile, frame: FrameId) -> Option<u64> {
    Some(profile.symbol(profile.frame(frame)?.function.ok()?)?.start)
}

/// Distances of instructions from the first addresses of their functions: as many as a CPU's cache
/// holds, a power of two.
#[derive(Debug)]
struct Offsets(Box<[Option<Offset>]>);

#[derive(Clone, Copy, Debug)]
struct Offset {
    at: CodeAddress,
    version: u64,
    offset: Option<u32>,
}

impl Offsets {
    fn with_slots(slots: usize) -> Self {
        Self(vec![None; slots].into())
    }

    /// The distance from `start`, an address in the DSO that `at` lies in.
    fn of(&mut self, machine: &Machine, pid: i32, at: CodeAddress, start: u64) -> Option<u32> {
        let version = machine.mappings_version(at.mode, pid)?;
        let mixed = (at.address ^ version.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = usize::try_from(mixed >> 48).ok()? & self.0.len().wrapping_sub(1);
        let slot = self.0.get_mut(slot)?;
        if let Some(known) = slot.filter(|known| (known.at, known.version) == (at, version)) {
            return known.offset;
        }
        let found = machine.dso_address(at.mode, pid, at.address);
        let distance = found.and_then(|found| found.address.checked_sub(start));
        let offset = distance.and_then(|distance| u32::try_from(distance).ok());
        *slot = Some(Offset { at, version, offset });
        offset
    }
}
