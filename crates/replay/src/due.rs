//! Delivers due records: applies them to the machine, then passes them to the sink.

use std::ops::ControlFlow;

use tare_format::abi::bindings::PERF_CONTEXT_USER;
use tare_format::file::Description;
use tare_format::record::{MISC_TRUNCATED_CHAIN, RawRecord, Record, Sample, SampleHead, kind};
use tare_profile::Losses;

use crate::cpumode::CpuMode;
use crate::deferred::{self, Deferred, DeferredSample};
use crate::group::{GroupCounts, Member};
use crate::machine::{Machine, UserPart};
use crate::off_cpu::OffCpuStacks;
use crate::options::{ReplayOptions, SampleDetail};
use crate::replayed::Replayed;
use crate::sink::Sink;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DueRecord<'a> {
    /// Nanoseconds of the recording's clock, if the record has a time.
    pub(crate) time_ns: Option<u64>,
    /// Index of its event, if known.
    pub(crate) event: Option<usize>,
    pub(crate) raw: RawRecord<'a>,
}

impl<'a> DueRecord<'a> {
    pub(crate) fn from_deferred(sample: &'a DeferredSample, description: &Description) -> Self {
        let raw = sample.record();
        Self { time_ns: sample.time_ns, event: description.lookup().index_of(&raw), raw }
    }
}

/// The state of the replay at the last delivered record.
#[derive(Debug)]
pub(crate) struct ReplayState {
    detail: SampleDetail,
    pub(crate) machine: Machine,
    pub(crate) losses: Losses,
    pub(crate) groups: GroupCounts,
    members: Vec<Member>,
    pub(crate) deferred: Deferred,
    pub(crate) off_cpu: OffCpuStacks,
    /// Whether the current sample's user call chain was unwound to the start of its thread.
    pub(crate) is_whole: bool,
    /// Whether any event defers user call chains.
    has_deferred: bool,
    /// Number of events that `has_deferred` covers.
    events: usize,
}

impl ReplayState {
    pub(crate) fn new(options: &ReplayOptions) -> Self {
        Self {
            detail: options.detail,
            machine: Machine::new(options.symbols.clone()),
            losses: Losses::default(),
            groups: GroupCounts::default(),
            members: Vec::new(),
            deferred: Deferred::default(),
            off_cpu: OffCpuStacks::default(),
            is_whole: false,
            has_deferred: false,
            events: 0,
        }
    }

    /// Applies a record, and passes it to the sink, after the samples that waited for it. A sample
    /// whose user call chain is deferred is held back.
    pub(crate) fn deliver<S: Sink>(
        &mut self,
        description: &Description,
        due: DueRecord<'_>,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        let DueRecord { time_ns, event, raw } = due;
        if let Some(time_ns) = time_ns {
            self.machine.advance(time_ns);
        }
        if raw.kind == kind::PERF_RECORD_SAMPLE {
            let cookie = self.find_cookie(description, &due);
            return match cookie.map(|cookie| self.deferred.hold(cookie, time_ns, &raw)) {
                None => self.pass_to_sink(description, due, sink),
                Some(None) => Ok(ControlFlow::Continue(())),
                Some(Some(held)) => {
                    self.machine.chain_parts.user = None;
                    self.pass_to_sink(
                        description,
                        DueRecord::from_deferred(&held, description),
                        sink,
                    )
                }
            };
        }
        let Ok(record) = raw.decode() else {
            self.losses.malformed_records += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.count_losses(&record);
        if let Record::Fork(task) = &record {
            self.groups.begin_thread(task.tid);
        }
        self.machine.apply_record(description, &raw, &record);
        if let Record::CallchainDeferred { cookie, callchain } = &record {
            let addresses = deferred::collect_addresses(callchain.iter());
            let user = UserPart::recorded(addresses);
            for held in self.deferred.take(*cookie) {
                self.machine.chain_parts.user = Some(user.clone());
                let flow = self.pass_to_sink(
                    description,
                    DueRecord::from_deferred(&held, description),
                    sink,
                )?;
                self.machine.chain_parts.user = None;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        let record = Replayed { time_ns, description, event, raw, fields: &record };
        sink.record(&mut self.machine, &record)
    }

    /// Counts a record that reports a loss, throttling, or a count (`STAT`).
    fn count_losses(&mut self, record: &Record<'_>) {
        let losses = &mut self.losses;
        match record {
            Record::Lost(lost) => {
                losses.lost_records = losses.lost_records.saturating_add(lost.lost);
                losses.lost_events += 1;
            }
            Record::LostSamples { lost } => {
                losses.lost_samples = losses.lost_samples.saturating_add(*lost);
            }
            Record::Throttle(_) => losses.throttled += 1,
            Record::Stat(_) => losses.stat_records += 1,
            _ => {}
        }
    }

    /// Returns the cookie of a sample whose user call chain is deferred.
    fn find_cookie(&mut self, description: &Description, due: &DueRecord<'_>) -> Option<u64> {
        let events = description.events().len();
        if self.events != events {
            self.events = events;
            self.has_deferred = deferred::has_deferred(description);
        }
        if !self.has_deferred || self.detail != SampleDetail::Full {
            return None;
        }
        let mut sample = Sample::default();
        self.decode(description, due, &mut sample)?;
        deferred::find_cookie(&sample)
    }

    fn decode<'a>(
        &self,
        description: &Description,
        due: &DueRecord<'a>,
        sample: &mut Sample<'a>,
    ) -> Option<()> {
        let layout = description.lookup().layouts().get(due.event?)?;
        let filled = match self.detail {
            SampleDetail::Full | SampleDetail::Samples => sample.fill(&due.raw, layout),
            SampleDetail::Leaf | SampleDetail::Front => sample.fill_front(&due.raw, layout),
        };
        filled.ok()
    }

    /// Passes a sample to the sink, and a sample with the counts of a group once for each member
    /// whose count increased. Leaves out samples that are malformed, belong to a task other than
    /// the command's, or only introduce a copied stack or a waker.
    pub(crate) fn pass_to_sink<S: Sink>(
        &mut self,
        description: &Description,
        due: DueRecord<'_>,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        let DueRecord { time_ns, event, raw } = due;
        let mut fields = Sample::default();
        if self.decode(description, &due, &mut fields).is_none() {
            self.losses.malformed_records += 1;
            return Ok(ControlFlow::Continue(()));
        }
        if is_of_unknown_task(&fields, &raw) {
            fields.head.pid = Some(-1);
            fields.head.tid = Some(-1);
            self.losses.foreign_samples += 1;
        }
        self.members.clear();
        if let Some(read) = &fields.read {
            self.members.extend(self.groups.members(read, fields.head.tid, description.lookup()));
        }
        let Self { off_cpu, machine, is_whole, .. } = self;
        if off_cpu.store_introduction(description, event, &fields, machine, *is_whole) {
            return Ok(ControlFlow::Continue(()));
        }
        if !machine.threads.belongs_to_command(fields.head.tid) {
            self.losses.outside_samples += 1;
            return Ok(ControlFlow::Continue(()));
        }
        off_cpu.complete_chain(description, event, &fields, machine);
        // The ledger has the counts of chains that the recorder unwound.
        if machine.recorded_chains.are_unwound() {
            machine.chain_parts.is_truncated = raw.misc & MISC_TRUNCATED_CHAIN != 0;
        } else if let Some(event) = event.and_then(|event| description.events().get(event)) {
            machine.chain_parts.note_depth(&event.attr, &fields);
        }
        if fields.read.is_none() {
            let sample = Replayed { time_ns, description, event, raw, fields: &fields };
            return sink.sample(&mut self.machine, &sample);
        }
        for Member { event, id, period } in &self.members {
            let head = SampleHead { id: Some(*id), period: Some(*period), ..fields.head };
            let event = Some(*event);
            let fields = &Sample { head, ..fields };
            let sample = Replayed { time_ns, description, event, raw, fields };
            if sink.sample(&mut self.machine, &sample)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
/// Whether a sample is of a task outside of the recorder's pid namespace. The kernel numbers all
/// such tasks 0, like the idle task, which never runs a program.
fn is_of_unknown_task(fields: &Sample<'_>, raw: &RawRecord<'_>) -> bool {
    let has_user_chain =
        || fields.callchain.is_some_and(|chain| chain.iter().any(|at| at == PERF_CONTEXT_USER));
    fields.head.pid == Some(0)
        && fields.head.tid == Some(0)
        && (CpuMode::from_misc(raw.misc) == CpuMode::User || has_user_chain())
}
