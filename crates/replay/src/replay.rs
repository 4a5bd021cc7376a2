//! Records in order of time, each with the state of the recorded machine.

use std::ops::ControlFlow;

use tare_format::abi::Flags;
use tare_format::file::{Description, Entry};
use tare_format::order::{Ordered, Sorter};
use tare_format::record::{Layout, RawRecord, Record, Sample, SampleHead, kind};
use tare_profile::Losses;

use crate::ahead::{self, Ahead};
use crate::deferred::{self, Deferred};
use crate::error::Error;
use crate::group::{GroupCounts, Member};
use crate::machine::Machine;
use crate::off_cpu::OffCpuStacks;
use crate::options::{Detail, Options};
use crate::recording::{Recording, add_unread};
use crate::replayed::Replayed;
use crate::sink::Sink;

/// Of a folder's records, how many are pushed before those that are due go out.
const BATCH: u32 = 1 << 10;

/// Records that are worth looking ahead for.
const ENOUGH: usize = 1 << 8;

/// A replay: records are pushed in the order in which rings were drained, and reach a sink in order
/// of time. It holds at most [`tare_format::limits::SORT_BYTES`] of records, and what a machine
/// has of threads and mappings.
#[derive(Debug)]
pub struct Replay {
    options: Options,
    sorter: Sorter,
    is_described: bool,
    offset: u64,
    /// Where samples have copied stacks.
    ahead: Option<Ahead>,
    /// Events that were looked at for that.
    events: usize,
    state: State,
}

/// What is known at the time of the last record that went out.
#[derive(Debug)]
struct State {
    detail: Detail,
    machine: Machine,
    losses: Losses,
    groups: GroupCounts,
    members: Vec<Member>,
    deferred: Deferred,
    off_cpu: OffCpuStacks,
    /// Whether the user call chain of the sample whose turn it is was unwound to its beginning.
    is_whole: bool,
    /// Whether any of so many events has samples to be held back.
    has_deferred: bool,
    events: usize,
}

impl Replay {
    /// Nothing is pushed yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let state = State {
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
        };
        let sorter = Sorter::default();
        Self { options, sorter, is_described: false, offset: 0, ahead: None, events: 0, state }
    }

    /// Replays a recording to its end, or to where the sink breaks, and says what is missing.
    ///
    /// # Errors
    /// [`Error::Read`], and the sink's own.
    pub fn run<S: Sink>(
        mut self,
        recording: &mut Recording,
        sink: &mut S,
    ) -> Result<Losses, S::Error>
    where
        S::Error: From<Error>,
    {
        let replayed = loop {
            match self.step(recording, sink, BATCH) {
                Ok(ControlFlow::Continue(())) => {}
                ended => break ended.map(drop),
            }
        };
        let ended = sink.end(&mut self.state.machine);
        replayed.and(ended)?;
        Ok(self.losses_of(recording))
    }

    /// Goes on by at most so many records. [`ControlFlow::Break`]: that was the end of the
    /// recording, or the sink breaks; [`Sink::end`] is the caller's to call.
    ///
    /// # Errors
    /// [`Error::Read`], and the sink's own.
    pub fn step<S: Sink>(
        &mut self,
        recording: &mut Recording,
        sink: &mut S,
        records: u32,
    ) -> Result<ControlFlow<()>, S::Error>
    where
        S::Error: From<Error>,
    {
        for _ in 0..records {
            let Some(entry) = recording.next_record().map_err(Error::Read)? else {
                self.finish(recording.description(), sink)?;
                return Ok(ControlFlow::Break(()));
            };
            if self.push(&entry, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match recording.complete_before_ns() {
            Some(time_ns) => self.complete_before(time_ns, recording.description(), sink),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Where the last record lies that was pushed, in bytes from the start of the recording or of
    /// its part.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The recorded machine as it is by now.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.state.machine
    }

    pub(crate) fn machine_mut(&mut self) -> &mut Machine {
        &mut self.state.machine
    }

    /// What is missing so far of what was replayed, and of what could not be read.
    #[must_use]
    pub fn losses_of(&self, recording: &Recording) -> Losses {
        let mut losses = self.losses();
        add_unread(&mut losses, &recording.losses());
        losses
    }

    /// Takes a record in, and hands out what is due. A record of kind `FINISHED_ROUND` says that
    /// every ring was drained.
    ///
    /// # Errors
    /// The sink's own.
    pub fn push<S: Sink>(
        &mut self,
        entry: &Entry<'_>,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        let Entry { offset, record, description, payload } = *entry;
        self.offset = offset;
        if !self.is_described {
            self.is_described = true;
            self.state.machine.learn(description);
            self.state.machine.learn_notes(description);
        }
        if self.events != description.events().len() && self.ahead.is_none() {
            self.events = description.events().len();
            let is_full = self.options.detail == Detail::Full;
            self.ahead = (is_full && ahead::has_copied_stacks(description))
                .then(|| Ahead::new(&self.options, description));
        }
        let aux_bytes = payload.map_or(0, |payload| payload.size);
        self.state.losses.aux_bytes = self.state.losses.aux_bytes.saturating_add(aux_bytes);
        let is_left_out =
            record.kind == kind::PERF_RECORD_SAMPLE && !sink.wants_sample(description, &record);
        let Some(record) = self.kept(record, description).filter(|_| !is_left_out) else {
            return Ok(ControlFlow::Continue(()));
        };
        if let Some(time_ns) = description.lookup().time_ns(&record) {
            self.sorter.push(time_ns, offset, &record);
        } else {
            // What changes the machine comes after the records that are due.
            let waits = record.kind == kind::FINISHED_ROUND;
            if !waits && self.drain(description, sink, 1)?.is_break()
                || self.deliver_at_once(description, record, sink)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            if record.kind == kind::FINISHED_ROUND && !has_backward_rings(description) {
                self.sorter.round();
            }
        }
        self.drain(description, sink, ENOUGH)
    }

    fn deliver_at_once<S: Sink>(
        &mut self,
        description: &Description,
        record: RawRecord<'_>,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        if let Some(ahead) = &mut self.ahead {
            if record.kind == kind::PERF_RECORD_SAMPLE {
                self.state.machine.user_chain = ahead.unwind_now(description, record, sink);
            } else {
                ahead.take_in(description, &record);
            }
        }
        self.state.deliver(description, (None, record), sink)
    }

    /// Every record older than this was pushed: hands out what is due. What knows nothing of its
    /// rings says so with a record of kind `FINISHED_ROUND` instead.
    ///
    /// # Errors
    /// The sink's own.
    pub fn complete_before<S: Sink>(
        &mut self,
        time_ns: u64,
        description: &Description,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        self.sorter.complete_before(time_ns);
        self.ahead.iter_mut().for_each(Ahead::begin_round);
        self.drain(description, sink, 1)
    }

    /// Forgets what else than the machine and the sink knows of what ended before a time.
    pub(crate) fn forget_before(&mut self, time_ns: u64) {
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.is_spent()) {
            ahead.forget_before(time_ns, &self.options);
        }
    }

    /// Everything was pushed: hands out the rest.
    ///
    /// # Errors
    /// The sink's own.
    pub fn finish<S: Sink>(
        &mut self,
        description: &Description,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.sorter.finish();
        let mut flow = self.drain(description, sink, 1)?;
        while flow.is_continue()
            && let Some(held) = self.state.deferred.oldest()
        {
            flow = self.state.hand_out(description, (held.time_ns, held.record()), sink)?;
        }
        Ok(())
    }

    /// What is missing of what was pushed so far.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let unwinding = self.ahead.as_ref().map(|ahead| ahead.stats.summary());
        Losses {
            late_records: self.sorter.late(),
            untimed_jitdumps: self.state.machine.jit.untimed,
            left_out_mappings: self.state.machine.left_out_mappings(),
            unwinding: unwinding.unwrap_or_default(),
            missing_user_chains: self.state.deferred.missing,
            off_cpu: self.state.off_cpu.reach,
            ..self.state.losses.clone()
        }
    }

    /// The part of a record that waits for its turn; `None` where nothing needs it.
    fn kept<'a>(&self, record: RawRecord<'a>, description: &Description) -> Option<RawRecord<'a>> {
        let detail = self.options.detail;
        if detail == Detail::Full {
            return Some(record);
        }
        match record.kind {
            kind::PERF_RECORD_MMAP | kind::PERF_RECORD_MMAP2 if detail != Detail::Leaf => None,
            kind::PERF_RECORD_SAMPLE if detail != Detail::Samples => {
                let layout = description.lookup().layout_of(&record);
                let size = layout.and_then(Layout::front_size);
                let front = size.and_then(|size| record.body.get(..size));
                Some(RawRecord { body: front.unwrap_or(record.body), ..record })
            }
            _ => Some(record),
        }
    }

    /// Hands out what is due. Where stacks are unwound it waits until so many records are.
    fn drain<S: Sink>(
        &mut self,
        description: &Description,
        sink: &mut S,
        enough: usize,
    ) -> Result<ControlFlow<()>, S::Error> {
        if self.ahead.is_some() && self.sorter.upcoming().len() < enough {
            return Ok(ControlFlow::Continue(()));
        }
        loop {
            if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.is_spent()) {
                ahead.look(self.sorter.upcoming(), description, sink);
            }
            let Some(Ordered { time_ns, record, .. }) = self.sorter.pop() else { break };
            self.state.machine.user_chain = self.ahead.as_mut().and_then(Ahead::next);
            self.state.is_whole = self.ahead.as_ref().is_some_and(|ahead| ahead.is_whole);
            if self.state.deliver(description, (Some(time_ns), record), sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl State {
    fn deliver<S: Sink>(
        &mut self,
        description: &Description,
        (time_ns, raw): (Option<u64>, RawRecord<'_>),
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        if let Some(time_ns) = time_ns {
            self.machine.advance(time_ns);
        }
        if raw.kind == kind::PERF_RECORD_SAMPLE {
            return match self
                .cookie(description, &raw)
                .map(|cookie| self.deferred.hold(cookie, time_ns, &raw))
            {
                None => self.hand_out(description, (time_ns, raw), sink),
                Some(None) => Ok(ControlFlow::Continue(())),
                Some(Some(held)) => {
                    self.machine.user_chain = None;
                    self.hand_out(description, (held.time_ns, held.record()), sink)
                }
            };
        }
        let Ok(record) = raw.decode() else {
            self.losses.malformed_records += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.notice(&record);
        self.machine.take_in(description, &raw, &record);
        if let Record::CallchainDeferred { cookie, callchain } = &record {
            let addresses = deferred::addresses(callchain.iter());
            for held in self.deferred.take(*cookie) {
                self.machine.user_chain = Some(addresses.clone());
                let sample = (held.time_ns, held.record());
                let flow = self.hand_out(description, sample, sink)?;
                self.machine.user_chain = None;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        let event = description.lookup().of(&raw);
        let record = Replayed { time_ns, description, event, raw, fields: &record };
        sink.record(&mut self.machine, &record)
    }

    /// Counts what a record says was lost.
    fn notice(&mut self, record: &Record<'_>) {
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

    /// What a sample's user call chain will be known by, where that comes later.
    fn cookie(&mut self, description: &Description, raw: &RawRecord<'_>) -> Option<u64> {
        let events = description.events().len();
        if self.events != events {
            (self.events, self.has_deferred) = (events, deferred::has_deferred(description));
        }
        if !self.has_deferred || self.detail != Detail::Full {
            return None;
        }
        deferred::cookie(&self.decode(description, raw)?)
    }

    fn decode<'a>(&self, description: &Description, raw: &RawRecord<'a>) -> Option<Sample<'a>> {
        let layout = description.lookup().layout_of(raw)?;
        let sample = match self.detail {
            Detail::Full | Detail::Samples => Sample::decode(raw, layout),
            Detail::Leaf | Detail::Front => Sample::decode_front(raw, layout),
        };
        sample.ok()
    }

    /// Hands a sample out, to the sink.
    fn hand_out<S: Sink>(
        &mut self,
        description: &Description,
        (time_ns, raw): (Option<u64>, RawRecord<'_>),
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        let event = description.lookup().of(&raw);
        let Some(fields) = self.decode(description, &raw) else {
            self.losses.malformed_records += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.members.clear();
        if let Some(read) = &fields.read {
            self.members.extend(self.groups.members(read, description.lookup()));
        }
        if !self.machine.threads.keeps(fields.head.tid) {
            self.losses.outside_samples += 1;
            return Ok(ControlFlow::Continue(()));
        }
        let Self { off_cpu, machine, is_whole, .. } = self;
        if !off_cpu.pass(description, (event, &fields), machine, *is_whole) {
            return Ok(ControlFlow::Continue(()));
        }
        if fields.read.is_none() {
            let sample = Replayed { time_ns, description, event, raw, fields: &fields };
            return sink.sample(&mut self.machine, &sample);
        }
        for Member { event, id, period } in &self.members {
            let head = SampleHead { id: Some(*id), period: Some(*period), ..fields.head };
            let (event, fields) = (Some(*event), &Sample { head, ..fields });
            let sample = Replayed { time_ns, description, event, raw, fields };
            if sink.sample(&mut self.machine, &sample)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Whether the recording has rings that were overwritten and read at the end alone (`--overwrite`):
/// marks between them say nothing of such rings.
fn has_backward_rings(description: &Description) -> bool {
    description.events().iter().any(|event| event.attr.flags.contains(Flags::WRITE_BACKWARD))
}
