//! Sums samples up.

mod more;

use std::ops::ControlFlow;

use tare_format::abi::Sampling;
use tare_format::abi::bindings::{
    PERF_SAMPLE_BRANCH_CALL_STACK, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_STACK_USER,
};
use tare_format::file::{Description, Event};
use tare_format::ledger::Ledger;
use tare_format::record::{Record, Sample};
use tare_profile::{
    Blocks, EventId, FrameId, Losses, Profile, ReplacedRows, Row, RowId, StackId, StringId, Thread,
    Weight,
};

use super::blocks::BlockCycles;
use super::details::{Details, Subject};
use super::frame_pointers::Chains;
use super::frames::Frames;
use super::lines::Lines;
use super::task_counts::TaskCounts;
use super::threads::{Index, ThreadTable};
use super::{CodeDetail, ProfileOptions, ProfileSummary};
use crate::callchain::CodeAddress;
use crate::cpumode::CpuMode;
use crate::error::Error;
use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::sink::Sink;
use crate::switch::SwitchState;
use crate::times::TimeWindows;
use crate::tracepoints::Tracepoints;

/// A profile while it is filled.
#[derive(Debug)]
pub struct ProfileSink {
    profile: Profile,
    threads: ThreadTable,
    counts: TaskCounts,
    tracepoints: Tracepoints,
    events: Vec<EventId>,
    periods: Vec<u64>,
    frames: Option<Frames>,
    /// Which row each row has become since lines are known.
    rows_now: Option<ReplacedRows>,
    chain: Vec<CodeAddress>,
    frame_pointers: Chains,
    times: TimeWindows,
    cpus: Vec<u32>,
    by_cpu: bool,
    by_trace: bool,
    details: Details,
    by_branch: bool,
    block_cycles: Option<BlockCycles>,
    blocks: Vec<Blocks>,
    by_cost: bool,
    max_stack: usize,
    keeps_callers: bool,
    socket: Option<u64>,
    switched: SwitchState,
    include_self: bool,
    exact: bool,
}

impl Sink for ProfileSink {
    type Error = Error;

    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        self.frames.is_some()
            && sample.fields.callchain.is_some()
            && self.times.takes(sample.time_ns)
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.learn(sample.description);
        if let Some(event) = sample.event.filter(|_| self.times.takes(sample.time_ns)) {
            self.add(machine, sample, event);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.learn(record.description);
        match record.fields {
            Record::Comm(comm) => {
                let name = self.profile.add_string(comm.comm);
                self.threads.rename(comm.tid, Some(name));
            }
            Record::Fork(task) => {
                let comm = machine.comm(task.tid);
                let name = comm.map(|comm| self.profile.add_string(comm));
                self.threads.rename(task.tid, name);
            }
            Record::Namespaces(namespaces) => self.details.learn_namespaces(namespaces),
            Record::Read => self.count(machine, record),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> Result<(), Error> {
        if let Some(frames) = &mut self.frames {
            self.rows_now = frames.locate(&mut self.profile, machine);
        }
        if let Some(cycles) = self.block_cycles.take() {
            self.blocks = cycles.finish(&mut self.profile, machine);
        }
        Ok(())
    }
}

impl ProfileSink {
    /// An empty profile of a recording.
    ///
    /// # Errors
    /// [`Error::NoSampleTimes`].
    pub fn new(options: &ProfileOptions, description: &Description) -> Result<Self, Error> {
        let mut sink = Self {
            profile: Profile::default(),
            threads: ThreadTable::default(),
            counts: TaskCounts::default(),
            tracepoints: Tracepoints::new(options.raw_trace),
            events: Vec::new(),
            periods: Vec::new(),
            frames: (options.code != CodeDetail::None).then(|| {
                let asks = options.lines || options.inline;
                let lines = asks.then(|| Lines::new(options.inline));
                Frames::new(lines, options.code == CodeDetail::Stack)
            }),
            rows_now: None,
            chain: Vec::new(),
            frame_pointers: Chains::default(),
            times: options.time.of(description)?,
            cpus: options.cpus.clone(),
            by_cpu: options.by_cpu,
            by_trace: options.trace,
            details: Details::new(
                options.details.clone(),
                options.time_quantum_ns,
                options.nanoseconds,
            ),
            by_branch: options.branches,
            block_cycles: options.blocks.then(BlockCycles::default),
            blocks: Vec::new(),
            by_cost: options.by_cost,
            max_stack: options.max_stack.unwrap_or(usize::MAX),
            keeps_callers: options.keeps_callers,
            socket: options.socket,
            switched: SwitchState::new(&options.switch),
            include_self: options.include_self,
            exact: options.exact,
        };
        sink.profile.set_details(&options.details);
        let swapper = sink.profile.add_string(b"swapper");
        sink.threads.rename(0, Some(swapper));
        sink.learn(description);
        Ok(sink)
    }

    /// Takes in events that became known since.
    fn learn(&mut self, description: &Description) {
        if self.events.len() == description.events().len() {
            return;
        }
        self.tracepoints.learn(description);
        for (index, event) in description.events().iter().enumerate().skip(self.events.len()) {
            let name = self.profile.add_string(&self.tracepoints.event_name(event));
            self.events.push(self.profile.name_event(index, name));
            self.periods.push(match event.attr.sampling {
                Sampling::None => 0,
                Sampling::Period(period) | Sampling::Frequency(period) => period,
            });
        }
    }

    fn add(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>, index: usize) {
        let Some((at, row, weight)) = self.front(machine, sample, index) else { return };
        if self.by_branch {
            if let Some(cycles) = &mut self.block_cycles {
                cycles.add(machine, sample, row.event);
            }
            return self.add_branches(machine, sample, row);
        }
        if self.frames.is_none() && !self.by_trace && self.details.is_empty() {
            return match self.threads.row(at, row.event, row.cpu) {
                Some(row) => self.profile.add_to_row(row, weight),
                None => {
                    let event = row.event;
                    let cpu = row.cpu;
                    let id = self.profile.add_samples(row, weight);
                    self.threads.keep_row(at, event, cpu, id);
                }
            };
        }
        let row = self.placed(machine, sample, index, row);
        self.profile.add_samples(row, weight);
    }

    /// The row that a sample belongs to, and what it weighs: for a sink that takes each sample
    /// instead of their sums. Nothing is added. `None`: it is of no known event, or of another time
    /// or CPU than is asked for.
    pub fn locate(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Option<(Row, Weight)> {
        self.learn(sample.description);
        let index = sample.event.filter(|_| self.times.takes(sample.time_ns))?;
        let (_, row, weight) = self.front(machine, sample, index)?;
        Some((self.placed(machine, sample, index, row), weight))
    }

    /// Adds a sample to a row, whose number stays until the end of the replay: see
    /// [`Self::row_with_lines`].
    pub fn add_located(&mut self, row: Row, weight: Weight) -> RowId {
        self.profile.add_samples(row, weight)
    }

    /// A row after the end of the replay, when lines and inlined functions are known.
    #[must_use]
    pub fn row_with_lines(&self, before: RowId) -> Option<Row> {
        let now = match &self.rows_now {
            Some(rows) => rows.get(before)?,
            None => before,
        };
        Some(*self.profile.row(now)?.0)
    }

    /// The profile as it is by now.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The row of a sample without its place in code, and what it weighs.
    fn front(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        index: usize,
    ) -> Option<(Index, Row, Weight)> {
        let event = self.events.get(index).copied()?;
        if !self.is_among_those(sample, event) {
            return None;
        }
        let head = &sample.fields.head;
        if !self.cpus.is_empty() && !head.cpu.is_some_and(|cpu| self.cpus.contains(&cpu)) {
            return None;
        }
        // What doesn't say how many occurrences it stands for has its event's period, as in perf.
        let of_event = self.periods.get(index).copied().unwrap_or(0);
        let period = if self.by_cost {
            sample.fields.weight.map_or(1, |weight| weight.max(1))
        } else {
            head.period.unwrap_or(of_event)
        };
        let weight = Weight { period, samples: 1 };
        let cpu = head.cpu.filter(|_| self.by_cpu);
        let pid = head.pid.unwrap_or(-1);
        let tid = head.tid.unwrap_or(-1);
        let (at, thread) = self.threads.find(&mut self.profile, machine, pid, tid);
        let (thread, comm) = (Some(thread.id), Some(thread.comm));
        let (leaf, stack, trace, details) = Default::default();
        let row = Row { event, thread, comm, cpu, leaf, stack, trace, details };
        Some((at, row, weight))
    }

    fn placed(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        index: usize,
        row: Row,
    ) -> Row {
        let (leaf, stack) = self.place(machine, sample);
        let trace = self.trace(machine, sample, index);
        let Self { profile, frames, details, .. } = self;
        let details =
            details.of(profile, machine, frames.as_mut(), Subject { sample, branch: None });
        Row { leaf, stack, trace, details, ..row }
    }

    /// Where a sample was, and how it came there.
    fn place(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> (Option<FrameId>, Option<StackId>) {
        let most = self.max_stack;
        let keeps_callers = self.keeps_callers;
        let Self { profile, frames: Some(frames), chain, frame_pointers, .. } = self else {
            return (None, None);
        };
        let mode = CpuMode::of_misc(sample.raw.misc);
        let pid = sample.fields.head.pid.unwrap_or(-1);
        let ip = sample.fields.head.ip;
        let leaf =
            ip.map(|address| frames.frame(profile, machine, pid, CodeAddress { mode, address }));
        if sample.fields.callchain.is_none() {
            return (leaf, None);
        }
        machine.callchain(sample, if keeps_callers { usize::MAX } else { most }, chain);
        if chain.len() > most {
            // As in perf, what stands next to the root of the graph is kept.
            chain.drain(..chain.len() - most);
        }
        let stack = frames.stack(profile, machine, pid, chain);
        let by_frame_pointers =
            sample.fields.stack_user.is_none() && sample.fields.branches.is_none();
        if let (Some(stack), Some(kept)) = (stack.filter(|_| by_frame_pointers), frames.kept()) {
            frame_pointers.add(profile, kept, stack, frames.last_chain());
        }
        (leaf, stack)
    }

    /// The fields of a tracepoint's sample as text.
    fn trace(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        index: usize,
    ) -> Option<StringId> {
        let raw = sample.fields.raw.filter(|_| self.by_trace)?;
        let event = sample.description.events().get(index)?;
        let fields = self.tracepoints.fields(machine, event.attr.config, raw);
        (!fields.is_empty()).then(|| self.profile.add_string(fields))
    }

    /// The profile of all that was replayed; `losses` is what the replay missed.
    #[must_use]
    pub fn finish(mut self, description: &Description, losses: Losses) -> ProfileSummary {
        self.tracepoints.learn(description);
        for (index, event) in description.events().iter().enumerate() {
            let name = self.profile.add_string(&self.tracepoints.event_name(event));
            self.profile.name_event(index, name);
        }
        let frame_pointers = self.frame_pointers.summary(&self.profile);
        self.profile.losses = Losses { frame_pointers, ..losses };
        self.name_threads();
        let ledger = description.notes().iter().rev().find_map(|note| Ledger::from_note(note));
        if let Some(Ledger { recorder, .. }) =
            ledger.as_ref().filter(|ledger| !self.include_self && !ledger.recorder.included)
        {
            let is_own = |thread: &Thread| recorder.tids.contains(&thread.tid);
            let own = self.profile.remove_rows(|profile, row| {
                row.thread.and_then(|thread| profile.thread(thread)).is_some_and(is_own)
            });
            self.profile.losses.own_samples = own.samples;
        }
        let rows = self.profile.rows().map(|(row, weight)| (row.event, row.leaf, weight));
        let unnamed = self.frames.as_ref().and_then(|of| of.lacks.largest(&self.profile, rows));
        self.profile.losses.unnamed = unnamed;
        self.compare(description, ledger.as_ref());
        let Self { profile, blocks, .. } = self;
        ProfileSummary { profile, description: description.clone(), ledger, blocks }
    }

    /// Names each thread as it was called last, with or without samples under that name.
    fn name_threads(&mut self) {
        let rows = self.profile.rows().map(|(row, _)| row);
        let threads: Vec<_> = rows.filter_map(|row| Some((row.thread?, row.comm?))).collect();
        for (id, comm) in threads {
            let thread = self.profile.thread(id).copied();
            let last = thread.and_then(|thread| self.threads.last_comm(thread.tid));
            self.profile.name_thread(id, last.unwrap_or(comm));
        }
    }

    /// Puts samples beside exact counts, and has them weigh as much where that is asked for.
    fn compare(&mut self, description: &Description, ledger: Option<&Ledger>) {
        let Self { counts, threads, profile, events, .. } = self;
        let Some(ledger) = ledger else { return };
        let last_of = |profile: &mut Profile, tid: i32| -> StringId {
            let unnamed = || profile.add_string(format!(":{tid}").as_bytes());
            threads.last_comm(tid).unwrap_or_else(unnamed)
        };
        let by_name = counts.by_name(profile, last_of, events, description, ledger);
        let last_name = |thread: &Thread| threads.last_comm(thread.tid);
        profile.compare_with_counts(&by_name, last_name);
        if self.exact {
            profile.weigh_by_counts(last_name);
        }
    }
}

/// Whether branches of code were recorded, and not only those of calls, which are call chains.
#[must_use]
pub fn has_branches(description: &Description) -> bool {
    let is_of_code = |event: &Event| {
        let attr = &event.attr;
        attr.sample_type & u64::from(PERF_SAMPLE_BRANCH_STACK) != 0
            && attr.branch_sample_type & u64::from(PERF_SAMPLE_BRANCH_CALL_STACK) == 0
            && attr.sample_type & u64::from(PERF_SAMPLE_STACK_USER) == 0
    };
    description.events().iter().any(is_of_code)
}

/// Whether any event's samples have call chains.
#[must_use]
pub fn has_callchains(description: &Description) -> bool {
    description.events().iter().any(|event| event.attr.has_callchain())
}
