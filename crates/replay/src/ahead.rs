//! Unwinding copied stacks, many at once, before their samples' turn.
//!
//! ```text
//! records that are due    M S S S M S S S S . . .        M mapping, S sample with a copied stack
//! ahead                   ----------------->             takes them in, and has the stacks unwound
//! replay                  ->                             hands them out, one after the other
//! ```
//! What is ahead has a machine of its own, so each stack is unwound in the address space of its time.
//! How far it looks ahead depends on the recording alone, so that the same comes out whatever the
//! number of threads.

use std::collections::VecDeque;

use tare_format::abi::bindings::PERF_SAMPLE_STACK_USER;
use tare_format::file::Description;
use tare_format::order::OrderedRecord;
use tare_format::record::{RawRecord, Sample, kind};
use tare_symbols::{UnwindCache, UnwindEnd, Unwinder};

use crate::copied_stack::{self, CopiedStack, UnwoundStack};
use crate::machine::Machine;
use crate::options::ReplayOptions;
use crate::replayed::Replayed;
use crate::sink::Sink;
use crate::unwinding::UnwindStats;

/// Samples, and bytes of records, that are looked at in one go.
const SAMPLES: usize = 1 << 10;
const BYTES: usize = 16 << 20;

/// Bytes of unwinding tables that are kept of DSOs from one time that is forgotten to the next: what
/// is needed of them is read again.
const UNWIND_BYTES: usize = 64 << 20;

/// What is known at the time of the last record that was looked at.
#[derive(Debug)]
pub(crate) struct AheadState {
    machine: Machine,
    unwinder: Unwinder,
    caches: Vec<UnwindCache>,
    /// Records that were looked at, and those of them that have gone out.
    looked_at: usize,
    gone: usize,
    unwound: VecDeque<UnwoundStack>,
    /// Stacks that are unwound in a round, and that may be still in this one.
    most: usize,
    left: usize,
    /// Whether the chain that went out last begins where the thread did.
    pub(crate) is_whole: bool,
    pub(crate) stats: UnwindStats,
}

/// Whether samples of a recording have copied stacks.
pub(crate) fn has_copied_stacks(description: &Description) -> bool {
    let copies = u64::from(PERF_SAMPLE_STACK_USER);
    description.events().iter().any(|event| event.attr.sample_type & copies != 0)
}

impl AheadState {
    /// Knows what the recording says of itself.
    pub(crate) fn new(options: &ReplayOptions, description: &Description) -> Self {
        let ReplayOptions { symbols, threads, most_stacks, .. } = options;
        let mut machine = Machine::new(symbols.clone());
        machine.learn(description);
        machine.learn_notes(description);
        Self {
            machine,
            unwinder: Unwinder::new(symbols.clone()),
            caches: copied_stack::caches(*threads),
            looked_at: 0,
            gone: 0,
            unwound: VecDeque::new(),
            most: most_stacks.unwrap_or(usize::MAX),
            left: most_stacks.unwrap_or(usize::MAX),
            is_whole: false,
            stats: UnwindStats::default(),
        }
    }

    /// A round begins.
    pub(crate) fn begin_round(&mut self) {
        self.left = self.most;
    }

    /// Forgets what ended before a time, as the machine that records are handed out with does.
    pub(crate) fn forget_before(&mut self, time_ns: u64, options: &ReplayOptions) {
        self.machine.forget_ended_before(time_ns);
        let is_large = self.unwinder.bytes() > UNWIND_BYTES;
        if self.machine.forget_dsos(std::iter::empty(), is_large).is_some() {
            // What is known of a DSO is known by its number.
            self.unwinder = Unwinder::new(options.symbols.clone());
            self.caches = copied_stack::caches(options.threads);
        }
    }

    /// Takes in a record that has its turn at once.
    pub(crate) fn take_in(&mut self, description: &Description, raw: &RawRecord<'_>) {
        if let Ok(record) = raw.decode() {
            self.machine.take_in(description, raw, &record);
        }
    }

    /// Whether all that was looked at has gone out.
    pub(crate) fn is_spent(&self) -> bool {
        self.gone == self.looked_at
    }

    /// Looks at records that are due next, and unwinds the stacks that the sink is going to ask for.
    pub(crate) fn look<'a, S: Sink>(
        &mut self,
        due: impl Iterator<Item = OrderedRecord<'a>>,
        description: &Description,
        sink: &S,
    ) {
        (self.looked_at, self.gone) = (0, 0);
        let mut stacks = Vec::new();
        let mut bytes = 0;
        for OrderedRecord { time_ns, record: raw, .. } in due {
            if stacks.len() >= SAMPLES || bytes > BYTES {
                break;
            }
            bytes += raw.body.len();
            if raw.kind == kind::PERF_RECORD_SAMPLE {
                let stack = self.stack(description, Some(time_ns), raw, self.looked_at, sink);
                if stack.is_some() && self.left == 0 {
                    self.stats.too_many += 1;
                } else if let Some(stack) = stack {
                    self.left -= 1;
                    stacks.push(stack);
                }
            } else {
                self.take_in(description, &raw);
            }
            self.looked_at += 1;
        }
        self.unwind(&stacks);
    }

    fn unwind(&mut self, stacks: &[CopiedStack<'_>]) {
        let Self { machine, unwinder, caches, .. } = self;
        let unwound = copied_stack::unwind_all(unwinder, caches, machine.dsos(), stacks);
        for (stack, unwound) in stacks.iter().zip(&unwound) {
            self.stats.add(&self.machine, stack, unwound);
        }
        self.unwound.extend(unwound);
    }

    fn stack<'a, S: Sink>(
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
        if !self.machine.threads.keeps(fields.head.tid) || !sink.wants_callchain(&sample) {
            return None;
        }
        let space = fields.head.pid.and_then(|pid| self.machine.user_space(pid));
        CopiedStack::of(&fields, position, space)
    }

    /// A record goes out: the addresses of its user stack, where one was unwound.
    pub(crate) fn next(&mut self) -> Option<Vec<u64>> {
        let position = self.gone;
        self.gone += 1;
        self.unwound.front().filter(|stack| stack.position == position)?;
        let stack = self.unwound.pop_front()?;
        self.is_whole = stack.end == UnwindEnd::Whole;
        Some(stack.addresses)
    }

    /// Unwinds the stack of a sample that has its turn at once.
    pub(crate) fn unwind_now<S: Sink>(
        &mut self,
        description: &Description,
        raw: RawRecord<'_>,
        sink: &S,
    ) -> Option<Vec<u64>> {
        (self.looked_at, self.gone) = (1, 0);
        let stack = self.stack(description, None, raw, 0, sink)?;
        self.unwind(&[stack]);
        self.next()
    }
}
