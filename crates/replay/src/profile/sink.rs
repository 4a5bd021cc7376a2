//! Sums samples up by row.

use std::ops::ControlFlow;

use tare_format::abi::bindings::{
    PERF_SAMPLE_BRANCH_CALL_STACK, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_STACK_USER,
};
use tare_format::file::{Description, RecordedEvent};
use tare_format::ledger::Ledger;
use tare_format::record::{Branches, Record, Sample, TaskRead};
use tare_profile::{EventId, Losses, Profile, ReplacedRows, Row, RowId, StringId, Thread, Weight};

use super::blocks::BlockCycles;
use super::details::{DetailedSample, Details};
use super::events::EventTable;
use super::frames::FrameTable;
use super::lines::{LineLookup, LineNeeds};
use super::stacks::{CallStacks, ChainLimit};
use super::task_counts::TaskCounts;
use super::threads::{ThreadIndex, ThreadTable};
use super::{CodeDetail, ProfileOptions, ProfileSummary};
use crate::callchain::CodeAddress;
use crate::error::Error;
use crate::machine::Machine;
use crate::own_threads::OwnThreads;
use crate::replayed::Replayed;
use crate::sink::Sink;
use crate::switch::SwitchState;
use crate::times::TimeWindows;

/// Fills a profile with the sums of samples.
#[derive(Debug)]
pub struct ProfileSink {
    options: ProfileOptions,
    profile: Profile,
    events: EventTable,
    threads: ThreadTable,
    counts: TaskCounts,
    /// `None` without places in code.
    stacks: Option<CallStacks>,
    details: Details,
    block_cycles: Option<BlockCycles>,
    period: SampledPeriod,
    /// The rows that replaced others when lines became known.
    replaced_rows: Option<ReplacedRows>,
}

/// The part of the recording that is summed up.
#[derive(Debug)]
struct SampledPeriod {
    windows: TimeWindows,
    switch: SwitchState,
}

impl SampledPeriod {
    fn new(options: &ProfileOptions, description: &Description) -> Result<Self, Error> {
        let windows = options.time.windows(description)?;
        Ok(Self { windows, switch: SwitchState::new(&options.switch) })
    }

    /// Whether a time is in the windows. A sample without a time always is.
    fn takes_time(&self, time_ns: Option<u64>) -> bool {
        self.windows.takes(time_ns)
    }

    /// Whether a sample of an event is between the events that switch. Samples must be passed in
    /// order, and each once, because some switch.
    fn takes_event<'n>(&mut self, name: impl FnOnce() -> &'n [u8]) -> bool {
        self.switch.is_idle() || self.switch.takes(name())
    }
}

/// A sample's row without its place in code, its tracepoint's fields and its details.
struct FrontRow {
    thread: ThreadIndex,
    row: Row,
    weight: Weight,
}

impl Sink for ProfileSink {
    type Error = Error;

    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        self.stacks.is_some()
            && sample.fields.callchain.is_some()
            && self.period.takes_time(sample.time_ns)
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.events.learn(&mut self.profile, sample.description);
        if self.period.takes_time(sample.time_ns) {
            self.add_sample(machine, sample);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.events.learn(&mut self.profile, record.description);
        match record.fields {
            Record::Comm(comm) => {
                self.name_earlier_samples(machine, comm.tid);
                self.rename(machine, comm.tid);
            }
            Record::Fork(task) => {
                // Earlier samples with this id are of another thread.
                self.threads.take_unnamed(task.tid);
                self.rename(machine, task.tid);
            }
            Record::Namespaces(namespaces) => self.details.learn_namespaces(namespaces),
            Record::Read => self.add_task_count(machine, record),
            Record::EventUpdate(update) => {
                self.events.learn_name(&mut self.profile, record.description, update.id);
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> Result<(), Error> {
        if let Some(stacks) = &mut self.stacks {
            self.replaced_rows = stacks.frames.locate(&mut self.profile, machine);
        }
        if let Some(cycles) = &mut self.block_cycles {
            cycles.finish(&mut self.profile, machine);
        }
        Ok(())
    }
}

impl ProfileSink {
    /// Makes a sink with an empty profile of a recording.
    ///
    /// # Errors
    /// Fails with [`Error::NoSampleTimes`]: see
    /// [`TimeRanges::windows`](crate::TimeRanges::windows).
    pub fn new(options: &ProfileOptions, description: &Description) -> Result<Self, Error> {
        let mut profile = Profile::default();
        profile.set_details(&options.details);
        let mut threads = ThreadTable::new(options.folds_numbers);
        threads.rename(0, Some(profile.add_string(b"swapper")));
        let mut events = EventTable::new(options.raw_trace);
        events.learn(&mut profile, description);
        Ok(Self {
            profile,
            events,
            threads,
            counts: TaskCounts::default(),
            stacks: (options.code != CodeDetail::None).then(|| {
                let needs = LineNeeds { lines: options.lines, inlined: options.inline };
                let lines = LineLookup::new(needs)
                    .map(|lookup| lookup.with_linkage_names(options.keeps_addresses));
                let frames = FrameTable::new(lines, options.code == CodeDetail::Stack);
                CallStacks::new(frames.with_addresses(options.keeps_addresses))
                    .with_marks(options.marks_truncated)
            }),
            details: Details::new(
                options.details.clone(),
                options.time_quantum_ns,
                options.nanoseconds,
            ),
            block_cycles: options.blocks.then(BlockCycles::default),
            period: SampledPeriod::new(options, description)?,
            replaced_rows: None,
            options: options.clone(),
        })
    }

    fn add_sample(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>) {
        let Some(FrontRow { thread, row, weight }) = self.make_front_row(machine, sample) else {
            return;
        };
        if self.options.branches {
            if let Some(cycles) = &mut self.block_cycles {
                cycles.add(machine, sample, row.event);
            }
            return self.add_branches(machine, sample, row);
        }
        if self.stacks.is_none() && !self.options.trace && self.details.is_empty() {
            return match self.threads.cached_row(thread, row.event, row.cpu) {
                Some(row) => self.profile.add_to_row(row, weight),
                None => {
                    let event = row.event;
                    let cpu = row.cpu;
                    let id = self.profile.add_samples(row, weight);
                    self.threads.cache_row(thread, event, cpu, id);
                }
            };
        }
        let row = self.add_place(machine, sample, row);
        self.profile.add_samples(row, weight);
    }

    /// Returns the row and weight of a sample without adding them, for a sink that takes each
    /// sample. Returns `None` if the options leave the sample out, or its event is unknown.
    pub fn locate(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Option<(Row, Weight)> {
        self.events.learn(&mut self.profile, sample.description);
        if !self.period.takes_time(sample.time_ns) {
            return None;
        }
        let FrontRow { row, weight, .. } = self.make_front_row(machine, sample)?;
        Some((self.add_place(machine, sample, row), weight))
    }

    /// Adds a sample to a row. The returned id is valid until the end of the replay; see
    /// [`Self::row_with_lines`].
    pub fn add_located(&mut self, row: Row, weight: Weight) -> RowId {
        self.profile.add_samples(row, weight)
    }

    /// Returns a row after the end of the replay, with lines and inlined functions.
    #[must_use]
    pub fn row_with_lines(&self, before: RowId) -> Option<Row> {
        let now = match &self.replaced_rows {
            Some(rows) => rows.get(before)?,
            None => before,
        };
        Some(*self.profile.row(now)?.0)
    }

    /// Returns the profile so far.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Makes the front row of a sample. Returns `None` if the options leave the sample out, or its
    /// event is unknown.
    fn make_front_row(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Option<FrontRow> {
        let event = self.events.get(sample.event?)?;
        if !self.is_selected(sample, event.id) {
            return None;
        }
        let head = &sample.fields.head;
        let cpus = &self.options.cpus;
        if !cpus.is_empty() && !head.cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
            return None;
        }
        let period = if self.options.by_cost {
            sample.fields.weight.map_or(1, |weight| weight.max(1))
        } else {
            head.period.unwrap_or(event.period)
        };
        let pid = head.pid.unwrap_or(-1);
        let tid = head.tid.unwrap_or(-1);
        let (thread, known) = self.threads.find(&mut self.profile, machine, pid, tid);
        let row = Row {
            event: event.id,
            thread: Some(known.id),
            comm: Some(known.comm),
            cpu: head.cpu.filter(|_| self.options.by_cpu),
            leaf: None,
            stack: None,
            trace: None,
            details: None,
        };
        Some(FrontRow { thread, row, weight: Weight { period, samples: 1 } })
    }

    /// Whether a sample is of the selected socket, and between the events that switch.
    fn is_selected(&mut self, sample: &Replayed<'_, Sample<'_>>, event: EventId) -> bool {
        let profile = &self.profile;
        let name = || profile.event(event).map_or(&[][..], |event| profile.string(event.name));
        if !self.period.takes_event(name) {
            return false;
        }
        self.options.socket.is_none_or(|socket| {
            self.details.find_socket(sample.description, sample.fields.head.cpu) == Some(socket)
        })
    }

    /// Returns the row with the sample's place in code, its tracepoint's fields and its details.
    fn add_place(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        row: Row,
    ) -> Row {
        let Self { options, profile, events, stacks, details, .. } = self;
        let limit = ChainLimit {
            addresses: options.max_stack.unwrap_or(usize::MAX),
            keeps_callers: options.keeps_callers,
        };
        let leaf = stacks.as_mut().and_then(|stacks| stacks.find_leaf(profile, machine, sample));
        if let Some(stacks) = stacks {
            stacks.steps.add(sample, row.thread, leaf);
        }
        let stack =
            stacks.as_mut().and_then(|stacks| stacks.add_stack(profile, machine, sample, limit));
        // Only frames of call chains can have inlined functions.
        let stack = stack
            .or_else(|| profile.add_stack(leaf.filter(|_| options.keeps_addresses).as_slice()));
        let trace = if options.trace { events.add_trace(profile, machine, sample) } else { None };
        let frames = stacks.as_mut().map(|stacks| &mut stacks.frames);
        let detailed = DetailedSample { sample, branch: None };
        let details = details.add(profile, machine, frames, detailed);
        Row { leaf, stack, trace, details, ..row }
    }

    /// Adds a row per branch of a sample. As in perf, a branch weighs 1, and its target is the
    /// place in code.
    fn add_branches(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>, row: Row) {
        let Self { profile, stacks, details, .. } = self;
        let pid = sample.fields.head.pid.unwrap_or(-1);
        for branch in sample.fields.branches.iter().flat_map(Branches::iter) {
            let mut frames = stacks.as_mut().map(|stacks| &mut stacks.frames);
            let target = CodeAddress::from_branch(branch.to);
            let leaf =
                frames.as_mut().map(|frames| frames.find_frame(profile, machine, pid, target));
            let detailed = DetailedSample { sample, branch: Some(&branch) };
            let details = details.add(profile, machine, frames, detailed);
            let weight = Weight { period: 1, samples: 1 };
            profile.add_samples(Row { leaf, details, ..row }, weight);
        }
    }

    /// Adds the count of a task that ended. The record of a group holds the counts of all members;
    /// the record's id selects the event's own.
    fn add_task_count(&mut self, machine: &Machine, record: &Replayed<'_, Record<'_>>) {
        let lookup = record.description.lookup();
        let Some((index, layout)) =
            record.event.and_then(|index| Some((index, lookup.layouts().get(index)?)))
        else {
            return;
        };
        let Some(event) = self.events.get(index) else { return };
        let Ok(read) = TaskRead::decode(&record.raw, layout) else { return };
        let own = read
            .values
            .values()
            .find(|value| value.id.is_none_or(|id| lookup.with_id(id) == Some(index)));
        let Some(value) = own.map(|own| own.value) else { return };
        let (_, thread) = self.threads.find(&mut self.profile, machine, read.pid, read.tid);
        self.counts.add(index, thread.comm, &read, value);
        self.profile.add_count(thread.id, event.id, value);
    }

    /// Returns the whole profile; `losses` are the replay's.
    #[must_use]
    pub fn finish(mut self, description: &Description, losses: Losses) -> ProfileSummary {
        self.events.learn_names(&mut self.profile, description);
        let stacks = self.stacks.as_ref();
        let frame_pointers = stacks.and_then(|stacks| stacks.frame_pointers(&self.profile));
        self.profile.losses = Losses { frame_pointers, ..losses };
        self.name_threads();
        let mut own_threads = OwnThreads::new(self.options.include_self);
        own_threads.learn(description);
        self.profile.losses.own_samples = own_threads.remove_rows(&mut self.profile);
        let rows = self.profile.rows().map(|(row, weight)| (row.event, row.leaf, weight));
        let stacks = self.stacks.as_ref();
        let unnamed = stacks.and_then(|stacks| stacks.frames.missing.largest(&self.profile, rows));
        let in_step = stacks.and_then(|stacks| stacks.steps.find(&self.profile));
        self.profile.losses = Losses { unnamed, in_step, ..self.profile.losses };
        let ledger = own_threads.into_ledger();
        self.compare_counts(description, ledger.as_ref());
        let blocks = self.block_cycles.map(BlockCycles::into_blocks).unwrap_or_default();
        ProfileSummary { profile: self.profile, description: description.clone(), ledger, blocks }
    }

    /// Gives a thread's samples without a name the one that it has now.
    fn name_earlier_samples(&mut self, machine: &Machine, tid: i32) {
        if let Some(unnamed) = self.threads.take_unnamed(tid)
            && let Some(comm) = machine.comm(tid)
        {
            let name = self.threads.add_name(&mut self.profile, comm);
            self.profile.replace_comm(tid, unnamed, name);
        }
    }

    /// Takes over the name that a thread has now.
    fn rename(&mut self, machine: &Machine, tid: i32) {
        let name = machine.comm(tid).map(|comm| self.threads.add_name(&mut self.profile, comm));
        self.threads.rename(tid, name);
    }

    /// Gives each thread its last name, whether or not samples have that name.
    fn name_threads(&mut self) {
        let rows = self.profile.rows().map(|(row, _)| row);
        let threads: Vec<_> = rows.filter_map(|row| Some((row.thread?, row.comm?))).collect();
        for (id, comm) in threads {
            let thread = self.profile.thread(id).copied();
            let last = thread.and_then(|thread| self.threads.last_comm(thread.tid));
            self.profile.name_thread(id, last.unwrap_or(comm));
        }
    }

    /// Compares samples with exact counts, and with `exact` weighs them by these.
    fn compare_counts(&mut self, description: &Description, ledger: Option<&Ledger>) {
        let Self { counts, threads, profile, events, .. } = self;
        let Some(ledger) = ledger else { return };
        let last_or_number = |profile: &mut Profile, tid: i32| -> StringId {
            let number = || profile.add_string(format!(":{tid}").as_bytes());
            threads.last_comm(tid).unwrap_or_else(number)
        };
        let by_name = counts.by_name(profile, last_or_number, events, description, ledger);
        let last_name = |thread: &Thread| threads.last_comm(thread.tid);
        profile.compare_with_counts(&by_name, last_name);
        if self.options.exact {
            profile.weigh_by_counts(last_name);
        }
    }
}

/// Whether any event's samples have branches to report: a branch stack, which isn't one of calls
/// alone (that is a call chain), and no copied user stack.
#[must_use]
pub fn has_branches(description: &Description) -> bool {
    let has_code_branches = |event: &RecordedEvent| {
        let attr = &event.attr;
        attr.sample_type & u64::from(PERF_SAMPLE_BRANCH_STACK) != 0
            && attr.branch_sample_type & u64::from(PERF_SAMPLE_BRANCH_CALL_STACK) == 0
            && attr.sample_type & u64::from(PERF_SAMPLE_STACK_USER) == 0
    };
    description.events().iter().any(has_code_branches)
}

/// Whether any event's samples have call chains.
#[must_use]
pub fn has_callchains(description: &Description) -> bool {
    description.events().iter().any(|event| event.attr.has_callchain())
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;

    use super::*;
    use crate::switch::EventSwitch;
    use crate::times::TimeRanges;

    #[test]
    fn a_period_takes_the_times_in_its_windows_and_the_events_between_switches() {
        let options = ProfileOptions {
            time: TimeRanges::Nanoseconds(vec![(10, 20)]),
            switch: EventSwitch { on: Some(b"on".to_vec()), off: None, shows: false },
            ..ProfileOptions::default()
        };
        let description = Description::from_events(Endian::NATIVE, []);
        let mut period = SampledPeriod::new(&options, &description).unwrap();
        assert_eq!([9, 10, 21].map(|at| period.takes_time(Some(at))), [false, true, false]);
        assert!(period.takes_time(None));
        let taken = [&b"a"[..], b"on", b"a"].map(|name| period.takes_event(|| name));
        assert_eq!(taken, [false, false, true]);
    }

    #[test]
    fn without_switches_a_period_takes_all_events() {
        let description = Description::from_events(Endian::NATIVE, []);
        let mut period = SampledPeriod::new(&ProfileOptions::default(), &description).unwrap();
        assert!(period.takes_event(|| unreachable!("no name is needed")));
        assert!(period.takes_time(Some(u64::MAX)));
    }
}
