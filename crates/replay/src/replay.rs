//! Replays records in time order, each with the state of the recorded machine.

use std::ops::ControlFlow;

use tare_format::file::{Description, Entry};
use tare_format::record::kind;
use tare_profile::Losses;

use crate::ahead::{self, AheadState};
use crate::due::{DueRecord, ReplayState};
use crate::error::Error;
use crate::machine::Machine;
use crate::options::{ReplayOptions, SampleDetail};
use crate::reader::{self, ReaderEnd};
use crate::recording::{Recording, add_reading_losses};
use crate::sink::Sink;
use crate::waiting::{BATCH, Waiting};

/// Due records that make a look-ahead worthwhile.
const ENOUGH: usize = 1 << 8;

/// A replay: the caller pushes records as ring buffers were drained, and the sink receives them in
/// time order. Records that wait beyond [`tare_format::limits::SORT_BYTES`] move to a temporary
/// file: see [`tare_format::order::Sorter`].
#[derive(Debug)]
pub struct Replay {
    options: ReplayOptions,
    waiting: Waiting,
    is_described: bool,
    /// The look-ahead, if samples have copied stacks.
    ahead: Option<AheadState>,
    /// Number of events when the need for `ahead` was last checked.
    events: usize,
    state: ReplayState,
}

impl Replay {
    /// Makes a replay without records.
    #[must_use]
    pub fn new(options: ReplayOptions) -> Self {
        let state = ReplayState::new(&options);
        let waiting = Waiting::new(options.detail);
        Self { options, waiting, is_described: false, ahead: None, events: 0, state }
    }

    /// Replays a recording until it ends or the sink breaks. Returns the losses.
    ///
    /// # Errors
    /// Fails with [`Error::Read`] if the recording can't be read, and with the sink's errors.
    pub fn run<S: Sink>(
        mut self,
        recording: &mut Recording,
        sink: &mut S,
    ) -> Result<Losses, S::Error>
    where
        S::Error: From<Error>,
    {
        let replayed = self.replay(recording, sink);
        let ended = sink.end(&mut self.state.machine);
        replayed.and(ended)?;
        Ok(self.losses_of(recording))
    }

    fn replay<S: Sink>(&mut self, recording: &mut Recording, sink: &mut S) -> Result<(), S::Error>
    where
        S::Error: From<Error>,
    {
        self.state.machine.time.written_ns = recording.written_ns;
        if self.options.reads_ahead && reader::is_for_a_thread(recording) {
            self.describe(recording.description(), sink);
            match reader::replay(recording, &mut self.waiting, &mut self.state, sink)? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(ReaderEnd::Whole) => {
                    return self.finish(recording.description(), sink);
                }
                ControlFlow::Continue(ReaderEnd::Early) => {}
            }
        }
        while self.step(recording, sink, BATCH)?.is_continue() {}
        Ok(())
    }

    /// Replays up to `records` further records. Returns [`ControlFlow::Break`] at the end of the
    /// recording and if the sink breaks; the caller must then call [`Sink::end`].
    ///
    /// # Errors
    /// Fails with [`Error::Read`] if the recording can't be read, and with the sink's errors.
    pub fn step<S: Sink>(
        &mut self,
        recording: &mut Recording,
        sink: &mut S,
        records: u32,
    ) -> Result<ControlFlow<()>, S::Error>
    where
        S::Error: From<Error>,
    {
        self.state.machine.time.written_ns = recording.written_ns;
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

    /// Returns the offset of the last pushed record, in bytes from the start of its file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.waiting.offset
    }

    /// Returns the recorded machine at the last delivered record.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.state.machine
    }

    pub(crate) fn machine_mut(&mut self) -> &mut Machine {
        &mut self.state.machine
    }

    /// Returns the losses so far, with the unreadable parts of a recording.
    #[must_use]
    pub fn losses_of(&self, recording: &Recording) -> Losses {
        let mut losses = self.losses();
        add_reading_losses(&mut losses, &recording.losses());
        losses
    }

    /// Pushes a record, and delivers records that are due. A record of kind `FINISHED_ROUND` means
    /// that all ring buffers were drained.
    ///
    /// # Errors
    /// Fails with the sink's errors.
    pub fn push<S: Sink>(
        &mut self,
        entry: &Entry<'_>,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        let description = entry.description;
        self.describe(description, sink);
        if self.events != description.events().len() && self.ahead.is_none() {
            self.events = description.events().len();
            let is_full = self.options.detail == SampleDetail::Full;
            self.ahead = (is_full && ahead::has_copied_stacks(description))
                .then(|| AheadState::new(&self.options, description));
        }
        if let Some(due) = self.waiting.push(entry) {
            // A record without a time applies after those that are due.
            let is_round = due.raw.kind == kind::FINISHED_ROUND;
            if !is_round && self.drain(description, sink, 1)?.is_break()
                || self.deliver_at_once(description, due, sink)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            if is_round {
                self.waiting.end_round(description);
            }
        }
        self.drain(description, sink, ENOUGH)
    }

    /// Before the first record, reads the recording's description and the sink's event filter.
    fn describe<S: Sink>(&mut self, description: &Description, sink: &S) {
        if !self.is_described {
            self.is_described = true;
            self.state.machine.learn(description);
            self.state.machine.learn_notes(description);
            self.waiting.set_filter(sink.event_filter());
        }
    }

    fn deliver_at_once<S: Sink>(
        &mut self,
        description: &Description,
        due: DueRecord<'_>,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        if let Some(ahead) = &mut self.ahead {
            if due.raw.kind == kind::PERF_RECORD_SAMPLE {
                let unwound = ahead.unwind_now(description, due.raw, sink);
                self.state.machine.chain_parts.user = unwound;
            } else {
                ahead.apply(description, &due.raw);
            }
        }
        self.state.deliver(description, due, sink)
    }

    /// Delivers records older than a time; the caller has pushed all of them. A caller that doesn't
    /// know the state of the ring buffers pushes records of kind `FINISHED_ROUND` instead.
    ///
    /// # Errors
    /// Fails with the sink's errors.
    pub fn complete_before<S: Sink>(
        &mut self,
        time_ns: u64,
        description: &Description,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, S::Error> {
        self.waiting.sorter.complete_before(time_ns);
        self.ahead.iter_mut().for_each(AheadState::begin_round);
        self.drain(description, sink, 1)
    }

    /// Drops the look-ahead's state of threads and processes that ended before a time, unless a
    /// batch is under way.
    pub(crate) fn forget_before(&mut self, time_ns: u64) {
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.is_spent()) {
            ahead.forget_before(time_ns, &self.options);
        }
    }

    /// Delivers all remaining records.
    ///
    /// # Errors
    /// Fails with the sink's errors.
    pub fn finish<S: Sink>(
        &mut self,
        description: &Description,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.waiting.sorter.finish();
        let mut flow = self.drain(description, sink, 1)?;
        while flow.is_continue()
            && let Some(held) = self.state.deferred.take_oldest()
        {
            flow = self.state.pass_to_sink(
                description,
                DueRecord::from_deferred(&held, description),
                sink,
            )?;
        }
        Ok(())
    }

    /// Returns the losses so far, without the unreadable parts of a recording.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let unwinding = self.ahead.as_ref().map(|ahead| ahead.stats.summary());
        let recorded = &self.state.machine.recorded_chains;
        let unwinding = unwinding.or_else(|| recorded.summary());
        Losses {
            aux_bytes: self.waiting.aux_bytes,
            late_records: self.waiting.sorter.late(),
            decreased_counts: self.state.groups.decreased(),
            untimed_jitdumps: self.state.machine.jit.untimed,
            left_out_mappings: self.state.machine.left_out_mappings(),
            unwinding: unwinding.unwrap_or_default(),
            truncated_chains: self.state.machine.chain_parts.depths.counts(),
            missing_user_chains: self.state.deferred.missing,
            off_cpu: recorded.off_cpu().unwrap_or(self.state.off_cpu.reach),
            ..self.state.losses.clone()
        }
    }

    /// Delivers records that are due. If stacks are unwound, delivers none while fewer than
    /// `enough` are due.
    fn drain<S: Sink>(
        &mut self,
        description: &Description,
        sink: &mut S,
        enough: usize,
    ) -> Result<ControlFlow<()>, S::Error> {
        if self.ahead.is_some() && self.waiting.sorter.due_count() < enough {
            return Ok(ControlFlow::Continue(()));
        }
        loop {
            if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.is_spent()) {
                ahead.take_batch(self.waiting.sorter.upcoming(), description, sink);
            }
            let Some(due) = self.waiting.pop() else { break };
            let unwound = self.ahead.as_mut().and_then(AheadState::next);
            self.state.machine.chain_parts.user = unwound;
            self.state.is_whole = self.ahead.as_ref().is_some_and(|ahead| ahead.is_whole);
            if self.state.deliver(description, due, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
