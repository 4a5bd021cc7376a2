//! Unwinds copied stacks in batches, ahead of their samples.
//!
//! ```text
//! records that are due    M S S S M S S S S . . .        M mapping, S sample with a copied stack
//! look-ahead              ----------------->             applies mappings, and unwinds the stacks
//! replay                  ->                             passes records to the sink, one by one
//! ```
//! The look-ahead has its own machine, so each stack is unwound in the address space of its time.
//! The records alone decide where a batch ends, so the result doesn't depend on the number of
//! threads.

use std::collections::VecDeque;

use tare_format::abi::bindings::PERF_SAMPLE_STACK_USER;
use tare_format::file::Description;
use tare_format::order::OrderedRecord;
use tare_format::record::{RawRecord, Sample, kind};
use tare_symbols::{UnwindCache, UnwindOutcome, Unwinder};

use crate::copied_stack::{self, CopiedStack, UnwoundStack};
use crate::machine::{Machine, UserPart};
use crate::options::ReplayOptions;
use crate::replayed::Replayed;
use crate::sink::Sink;
use crate::unwinding::UnwindStats;

/// Limits of a batch: samples with stacks, and bytes of records.
const SAMPLES: usize = 1 << 10;
const BYTES: usize = 16 << 20;

/// Bytes of unwinding tables above which all are dropped when old records are forgotten. Tables
/// that are still needed are read again.
const UNWIND_BYTES: usize = 64 << 20;

/// The machine at the last record of the batch, and the batch's unwound stacks.
#[derive(Debug)]
pub(crate) struct AheadState {
    machine: Machine,
    unwinder: Unwinder,
    caches: Vec<UnwindCache>,
    /// Number of records in the batch.
    batch: usize,
    /// Number of these that were passed on.
    passed: usize,
    unwound: VecDeque<UnwoundStack>,
    /// Limit of stacks per round.
    max_stacks: usize,
    /// Number of stacks that may still be unwound in this round.
    stacks_left: usize,
    /// Whether the user stack that was returned last reaches the start of its thread.
    pub(crate) is_whole: bool,
    pub(crate) stats: UnwindStats,
}

pub(crate) fn has_copied_stacks(description: &Description) -> bool {
    let copies = u64::from(PERF_SAMPLE_STACK_USER);
    description.events().iter().any(|event| event.attr.sample_type & copies != 0)
}

impl AheadState {
    /// Creates the state before the first record: it knows the recording's description.
    pub(crate) fn new(options: &ReplayOptions, description: &Description) -> Self {
        let ReplayOptions { symbols, threads, most_stacks, .. } = options;
        let mut machine = Machine::new(symbols.clone());
        machine.learn(description);
        machine.learn_notes(description);
        Self {
            machine,
            unwinder: Unwinder::new(symbols.clone()),
            caches: copied_stack::make_caches(*threads),
            batch: 0,
            passed: 0,
            unwound: VecDeque::new(),
            max_stacks: most_stacks.unwrap_or(usize::MAX),
            stacks_left: most_stacks.unwrap_or(usize::MAX),
            is_whole: false,
            stats: UnwindStats::default(),
        }
    }

    /// Begins a round, in which `max_stacks` further stacks may be unwound.
    pub(crate) fn begin_round(&mut self) {
        self.stacks_left = self.max_stacks;
    }

    /// Forgets threads and processes that ended before a time, like the replay's own machine. Drops
    /// unused DSOs if there are many, or if the tables are large.
    pub(crate) fn forget_before(&mut self, time_ns: u64, options: &ReplayOptions) {
        self.machine.forget_ended_before(time_ns);
        let is_large = self.unwinder.bytes() > UNWIND_BYTES;
        if self.machine.forget_dsos(std::iter::empty(), is_large).is_some() {
            // The tables are cached by DSO id, and the ids changed.
            self.unwinder = Unwinder::new(options.symbols.clone());
            self.caches = copied_stack::make_caches(options.threads);
        }
    }

    /// Applies a record that isn't a sample to the machine.
    pub(crate) fn apply(&mut self, description: &Description, raw: &RawRecord<'_>) {
        if let Ok(record) = raw.decode() {
            self.machine.apply_record(description, raw, &record);
        }
    }

    /// Whether all records of the batch were passed on.
    pub(crate) fn is_spent(&self) -> bool {
        self.passed == self.batch
    }

    /// Takes the next batch of due records, and unwinds the stacks that the sink will need.
    pub(crate) fn take_batch<'a, S: Sink>(
        &mut self,
        due: impl Iterator<Item = OrderedRecord<'a>>,
        description: &Description,
        sink: &S,
    ) {
        self.batch = 0;
        self.passed = 0;
        let mut stacks = Vec::new();
        let mut bytes = 0;
        for OrderedRecord { time_ns, record: raw, .. } in due {
            if stacks.len() >= SAMPLES || bytes > BYTES {
                break;
            }
            bytes += raw.body.len();
            if raw.kind == kind::PERF_RECORD_SAMPLE {
                let stack = self.find_stack(description, Some(time_ns), raw, self.batch, sink);
                if stack.is_some() && self.stacks_left == 0 {
                    self.stats.too_many += 1;
                } else if let Some(stack) = stack {
                    self.stacks_left -= 1;
                    stacks.push(stack);
                }
            } else {
                self.apply(description, &raw);
            }
            self.batch += 1;
        }
        self.unwind(&stacks);
    }

    /// Unwinds stacks, and counts how each ended.
    fn unwind(&mut self, stacks: &[CopiedStack<'_>]) {
        let Self { machine, unwinder, caches, .. } = self;
        let unwound = copied_stack::unwind_all(unwinder, caches, machine.dsos(), stacks);
        for (stack, unwound) in stacks.iter().zip(&unwound) {
            self.stats.add(&self.machine, stack, unwound);
        }
        self.unwound.extend(unwound);
    }

    /// Returns the copied stack of a sample, if it has one, isn't filtered out as another task's,
    /// and the sink wants its call chain. `position` is the number of records before it in the
    /// batch.
    fn find_stack<'a, S: Sink>(
        &self,
        description: &Description,
        time_ns: Option<u64>,
        raw: RawRecord<'a>,
        position: usize,
        sink: &S,
    ) -> Option<CopiedStack<'a>> {
        let event = description.lookup().index_of(&raw);
        let layout = event.and_then(|event| description.lookup().layouts().get(event))?;
        let fields = Sample::decode(&raw, layout).ok()?;
        let sample = Replayed { time_ns, description, event, raw, fields: &fields };
        if !self.machine.threads.belongs_to_command(fields.head.tid)
            || !sink.wants_callchain(&sample)
        {
            return None;
        }
        let space = fields.head.pid.and_then(|pid| self.machine.user_space(pid));
        CopiedStack::from_sample(&fields, position, space)
    }

    /// Counts the next record as passed on. Returns the user part of its call chain, if its stack
    /// was unwound.
    pub(crate) fn next(&mut self) -> Option<UserPart> {
        let position = self.passed;
        self.passed += 1;
        self.unwound.front().filter(|stack| stack.position == position)?;
        let stack = self.unwound.pop_front()?;
        self.is_whole = stack.end == UnwindOutcome::Whole;
        let is_truncated = stack.end.is_truncated();
        Some(UserPart { is_truncated, ..UserPart::unwound(stack.addresses) })
    }

    /// Unwinds the stack of a sample without a time.
    pub(crate) fn unwind_now<S: Sink>(
        &mut self,
        description: &Description,
        raw: RawRecord<'_>,
        sink: &S,
    ) -> Option<UserPart> {
        self.batch = 1;
        self.passed = 0;
        let stack = self.find_stack(description, None, raw, 0, sink)?;
        self.unwind(&[stack]);
        self.next()
    }
}
