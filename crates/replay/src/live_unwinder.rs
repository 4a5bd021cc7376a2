//! Unwinds copied stacks while they are recorded, and writes call chains in their place.
//!
//! ```text
//! ring     sample: kernel part | user part by frame pointers | registers | copied stack
//! file     sample: kernel part | user part, unwound
//! ```
//! Samples of off-CPU time name a user stack that an earlier sample introduced: they get its frames,
//! and the introduction isn't written.
//!
//! A round's mappings and stacks are taken in time order, and its records are written in the order
//! in which they came. Where unwinding fails, the frame-pointer chain continues it if both meet.

use std::collections::HashMap;

use tare_format::Endian;
use tare_format::abi::Flags;
use tare_format::abi::bindings::{
    PERF_CONTEXT_USER, PERF_RECORD_MISC_MMAP_DATA, PERF_RECORD_MMAP, PERF_RECORD_MMAP2,
};
use tare_format::file::{Description, OpenError, writer};
use tare_format::ledger::{IncompleteChains, OffCpuReach, UnwoundChains};
use tare_format::record::{
    Layout, MISC_TRUNCATED_CHAIN, RawRecord, Record, RecordHeader, Records, Sample, SampleHead,
    StackParts, StackPiece, kind,
};
use tare_profile::EndReasonCount;
use tare_symbols::{DsoRenumbering, SymbolOptions, UnwindCache, Unwinder};

use crate::copied_stack::{CopiedStack, StackFrames};
use crate::deep_stacks::DeepStacks;
use crate::live::read_beginning;
use crate::machine::Machine;
use crate::mapping_names::is_jitdump;
use crate::off_cpu::is_off_cpu;
use crate::stack_trimmer::{SharedBases, StackTrimmer};
use crate::unwinding::UnwindStats;
use crate::unwound_event::UnwoundEvent;

/// Bytes of unwinding tables above which those used least recently are dropped.
const TABLE_BYTES: usize = 40 << 20;

/// Bytes of unwinding tables that stay then.
const KEPT_TABLE_BYTES: usize = 30 << 20;

/// Limit of addresses for which it is known how to unwind them: some 8 MiB.
const ADDRESSES: usize = 1 << 17;

/// Time for which an ended process is remembered, in nanoseconds of the recording's clock: records
/// of its last moments may come in a later round.
const REMEMBERED_NS: u64 = 2_000_000_000;

/// Limit of frames in the stacks of waits together.
const WAIT_FRAMES: usize = 1 << 20;

/// Replaces copied stacks by call chains, in the records of a running recording.
#[derive(Debug)]
pub struct LiveUnwinder {
    events: Vec<UnwoundEvent>,
    /// Whether records of mappings that hold no code are written. Without them, unwinding couldn't
    /// tell where a stack ends.
    keeps_data_mappings: bool,
    description: Description,
    machine: Machine,
    tables: UnwindTables,
    stats: UnwindStats,
    /// Number of chains that stayed as the kernel recorded them.
    behind: u64,
    waits: WaitStacks,
    bases: SharedBases,
    deep: DeepStacks,
}

/// The unwinder with what it has read.
#[derive(Debug)]
struct UnwindTables {
    unwinder: Unwinder,
    cache: UnwindCache,
}

impl UnwindTables {
    fn new(options: SymbolOptions) -> Self {
        Self { unwinder: Unwinder::new(options), cache: UnwindCache::default() }
    }

    /// Changes the numbers of DSOs.
    fn renumber(&mut self, now: &DsoRenumbering) {
        self.unwinder.renumber(now);
        self.cache = UnwindCache::default();
    }

    /// Drops the tables that were used least recently, if all take much memory. Known addresses
    /// don't need them.
    fn bound(&mut self) {
        if self.unwinder.bytes() > TABLE_BYTES {
            self.unwinder.drop_unused(KEPT_TABLE_BYTES);
        }
        self.cache.begin_round(ADDRESSES);
    }
}

/// The user part of a record's call chain.
#[derive(Debug)]
enum UserFrames {
    /// As recorded, or the record has none.
    Recorded,
    /// Unwound.
    Unwound(StackFrames),
    /// The record only introduced a stack, and isn't written.
    Introduced,
}

/// The unwound user stacks of waits, by the keys that samples of off-CPU time carry.
#[derive(Debug, Default)]
struct WaitStacks {
    by_key: HashMap<u64, StackFrames, foldhash::fast::RandomState>,
    /// Number of frames in all of them.
    frames: usize,
    reach: OffCpuReach,
}

impl WaitStacks {
    fn insert(&mut self, key: u64, stack: StackFrames) {
        if self.frames + stack.frames.len() <= WAIT_FRAMES {
            self.frames += stack.frames.len();
            let before = self.by_key.insert(key, stack);
            self.frames -= before.map_or(0, |before| before.frames.len());
        }
    }

    /// Returns the frames under a sample's key, and counts its waiting time.
    fn find(&mut self, key: u64, ns: u64) -> UserFrames {
        let stack = self.by_key.get(&key).filter(|_| key != 0);
        self.reach.ns += ns;
        self.reach.whole_ns += if stack.is_some_and(StackFrames::is_whole) { ns } else { 0 };
        stack.map_or(UserFrames::Recorded, |stack| UserFrames::Unwound(stack.clone()))
    }
}

/// A record of a round.
struct RoundRecord<'a> {
    raw: RawRecord<'a>,
    /// For a sample that is to be unwound: the number of its event in [`LiveUnwinder::events`].
    event: Option<usize>,
    time_ns: Option<u64>,
}

fn is_data_mapping(raw: &RawRecord<'_>) -> bool {
    matches!(raw.kind, PERF_RECORD_MMAP | PERF_RECORD_MMAP2)
        && u32::from(raw.misc) & PERF_RECORD_MISC_MMAP_DATA != 0
}

impl LiveUnwinder {
    /// Creates an unwinder of these events. Without `keeps_data_mappings`, it leaves out records of
    /// mappings that hold no code, which the kernel writes for the unwinder.
    #[must_use]
    pub fn new(
        options: SymbolOptions,
        events: Vec<UnwoundEvent>,
        keeps_data_mappings: bool,
    ) -> Self {
        Self {
            events,
            keeps_data_mappings,
            description: Description::from_events(Endian::NATIVE, []),
            machine: Machine::new(options.clone()),
            tables: UnwindTables::new(options),
            stats: UnwindStats::default(),
            behind: 0,
            waits: WaitStacks::default(),
            bases: SharedBases::default(),
            deep: DeepStacks::default(),
        }
    }

    /// Returns a trimmer of the records that are to be unwound.
    #[must_use]
    pub fn trimmer(&self) -> StackTrimmer {
        StackTrimmer::new(self.events.clone(), self.bases.clone())
    }

    /// Reads the beginning of a stream, which describes the events as the kernel samples them
    /// ([`tare_format::file::writer::Description::stream_beginning`]).
    ///
    /// # Errors
    /// Fails if the bytes aren't the beginning of a stream.
    pub fn describe(&mut self, stream: &[u8]) -> Result<(), OpenError> {
        self.description = read_beginning(stream)?;
        self.machine.learn(&self.description);
        Ok(())
    }

    /// Returns the description of the records as they are written.
    #[must_use]
    pub fn written(&self, description: &writer::Description) -> writer::Description {
        let mut description = description.clone();
        for UnwoundEvent { event, keeps_registers } in &self.events {
            if let Some(event) = description.events.get_mut(*event) {
                event.attr = event.attr.without_copied_stack(*keeps_registers);
            }
        }
        if !self.keeps_data_mappings {
            let events = description.events.iter_mut();
            events.for_each(|event| event.attr.flags.remove(Flags::MMAP_DATA));
        }
        description
    }

    /// Appends whole records to `into`, with call chains in place of the copied stacks of unwound
    /// events. `is_behind`: the user part of the chains stays as it was recorded.
    pub fn unwind(&mut self, records: &[u8], is_behind: bool, into: &mut Vec<u8>) {
        let mut round = Vec::new();
        for raw in Records::new(records, Endian::NATIVE) {
            match raw.kind {
                StackPiece::KIND if is_behind => {}
                StackPiece::KIND => {
                    StackPiece::decode(&raw).iter().for_each(|piece| self.deep.add(piece));
                }
                _ => round.push(self.look_at(raw)),
            }
        }
        let mut unwound: Vec<_> = round.iter().map(|_| UserFrames::Recorded).collect();
        let mut in_order: Vec<usize> = (0..round.len()).collect();
        in_order.sort_by_key(|position| round[*position].time_ns);
        for position in in_order {
            let record = &round[position];
            if record.raw.kind != kind::PERF_RECORD_SAMPLE {
                // A file that was written later than it was mapped isn't the recorded one.
                record.time_ns.into_iter().for_each(|time_ns| self.machine.advance(time_ns));
                self.apply(&record.raw);
            } else if let Some(event) = record.event {
                unwound[position] = self.user_frames(&record.raw, event, position, is_behind);
            }
        }
        self.add_wait_frames(&round, &mut unwound);
        for (record, frames) in round.iter().zip(&unwound) {
            self.write(record, frames, into);
        }
        let newest_ns = round.iter().filter_map(|record| record.time_ns).max();
        self.forget_before(newest_ns.unwrap_or(0).saturating_sub(REMEMBERED_NS));
        self.deep.forget_before(newest_ns.unwrap_or(0));
    }

    fn look_at<'a>(&self, raw: RawRecord<'a>) -> RoundRecord<'a> {
        let lookup = self.description.lookup();
        let index = lookup.index_of(&raw);
        let layout = index.and_then(|index| lookup.layouts().get(index));
        let time_ns = layout.or(lookup.layouts().first()).and_then(|layout| layout.time_ns(&raw));
        let is_sample = raw.kind == kind::PERF_RECORD_SAMPLE;
        let event = index.filter(|_| is_sample);
        let event = event.and_then(|at| self.events.iter().position(|event| event.event == at));
        RoundRecord { raw, event, time_ns }
    }

    fn layout(&self, event: usize) -> Option<&Layout> {
        self.description.lookup().layouts().get(self.events.get(event)?.event)
    }

    /// Applies a record that isn't a sample.
    fn apply(&mut self, raw: &RawRecord<'_>) {
        let Ok(record) = raw.decode() else { return };
        match &record {
            Record::Exit(task) => self.bases.lock().forget(task.tid),
            Record::Comm(comm) if comm.is_exec => self.bases.lock().forget(comm.tid),
            _ => {}
        }
        let is_needed = match &record {
            // Code of a just-in-time compiler is unwound by frame pointers.
            Record::Mmap(mmap) => !is_jitdump(mmap.path),
            Record::Fork(_) | Record::Exit(_) | Record::Comm(_) => true,
            _ => false,
        };
        if is_needed {
            self.machine.apply_record(&self.description, raw, &record);
        }
    }

    /// Returns the user frames of a sample.
    fn user_frames(
        &mut self,
        raw: &RawRecord<'_>,
        event: usize,
        position: usize,
        is_behind: bool,
    ) -> UserFrames {
        let sample = self.layout(event).and_then(|layout| Sample::decode(raw, layout).ok());
        let Some(sample) = sample else { return UserFrames::Recorded };
        if self.is_off_cpu(event) {
            return self.introduce_stack(&sample, position);
        }
        if is_behind {
            self.behind += 1;
            return UserFrames::Recorded;
        }
        match self.unwind_stack(&sample, position, true) {
            Some((stack, unwound)) => {
                match unwound.is_whole() {
                    true => self.stats.add_whole(&unwound),
                    false => {
                        self.stats.add(&self.machine, &stack, &unwound.as_stack(position));
                    }
                }
                match unwound.frames.is_empty() {
                    true => UserFrames::Recorded,
                    false => UserFrames::Unwound(unwound),
                }
            }
            None => UserFrames::Recorded,
        }
    }

    /// Whether an event is off-CPU time.
    fn is_off_cpu(&self, event: usize) -> bool {
        self.events.get(event).is_some_and(|unwound| {
            let events = self.description.events();
            events.get(unwound.event).is_some_and(|event| is_off_cpu(&event.attr))
        })
    }

    /// Unwinds and stores the stack that a sample of off-CPU time introduces. There are few of them,
    /// so they are unwound even if unwinding is behind.
    fn introduce_stack(&mut self, sample: &Sample<'_>, position: usize) -> UserFrames {
        let Some((_, unwound)) = self.unwind_stack(sample, position, false) else {
            return UserFrames::Recorded;
        };
        self.waits.insert(sample.head.addr.unwrap_or(0), unwound);
        UserFrames::Introduced
    }

    /// Adds the frames of introduced stacks to the samples of off-CPU time in a round: of waits, and
    /// of wakers, which may come before their stack.
    fn add_wait_frames(&mut self, round: &[RoundRecord<'_>], unwound: &mut [UserFrames]) {
        for (record, frames) in round.iter().zip(unwound) {
            let Some(event) = record.event.filter(|event| self.is_off_cpu(*event)) else {
                continue;
            };
            if matches!(frames, UserFrames::Introduced) {
                continue;
            }
            let layout = self.layout(event);
            let head = layout.and_then(|layout| SampleHead::decode(&record.raw, layout).ok());
            if let Some(head) = head {
                *frames = self.waits.find(head.addr.unwrap_or(0), head.period.unwrap_or(0));
            }
        }
    }

    /// Unwinds the copied stack of a sample. `None` if it has none. `may_be_deep`: programs may have
    /// copied the rest of it.
    fn unwind_stack<'a>(
        &mut self,
        sample: &Sample<'a>,
        position: usize,
        may_be_deep: bool,
    ) -> Option<(CopiedStack<'a>, StackFrames)> {
        let space = sample.head.pid.and_then(|pid| self.machine.user_space(pid));
        let mut stack = CopiedStack::from_sample(sample, position, space)?;
        if may_be_deep {
            stack.continue_copy(&mut self.deep, &sample.head);
        }
        let UnwindTables { unwinder, cache, .. } = &mut self.tables;
        let unwound = stack.unwind_frames(unwinder, cache, self.machine.dsos());
        if let Some(tid) = sample.head.tid {
            self.note_base(tid, &stack, &unwound);
        }
        Some((stack, unwound))
    }

    /// Notes where the stack of a thread begins, for its next copies.
    fn note_base(&self, tid: i32, stack: &CopiedStack<'_>, unwound: &StackFrames) {
        match (self.tables.cache.stack_base(), stack.stack_pointer()) {
            (Some(base), _) => self.bases.lock().note(tid, base),
            (None, Some(sp)) if !unwound.is_whole() => {
                self.bases.lock().distrust(tid, sp, stack.copied_bytes());
            }
            _ => {}
        }
    }

    /// Writes a record: as it is, or with the call chain in place of the copied stack.
    fn write(&self, record: &RoundRecord<'_>, frames: &UserFrames, into: &mut Vec<u8>) {
        let RawRecord { kind, misc, body, .. } = record.raw;
        let is_dropped = matches!(frames, UserFrames::Introduced)
            || !self.keeps_data_mappings && is_data_mapping(&record.raw);
        if is_dropped {
            return;
        }
        let is_truncated = matches!(frames, UserFrames::Unwound(unwound) if unwound.is_truncated());
        let misc = if is_truncated { misc | MISC_TRUNCATED_CHAIN } else { misc };
        let Ok(header) = RecordHeader::new(kind, misc, body.len()) else { return };
        let parts = record.event.and_then(|event| {
            let keeps_registers = self.events.get(event)?.keeps_registers;
            StackParts::find(&record.raw, self.layout(event)?, keeps_registers)
        });
        let Some(parts) = parts else {
            into.extend(header.encode());
            into.extend_from_slice(body);
            return;
        };
        let mut chain = Vec::with_capacity(64);
        match frames {
            UserFrames::Unwound(unwound) => {
                let recorded = parts.callchain.iter();
                chain.extend(recorded.take_while(|word| *word != PERF_CONTEXT_USER));
                chain.push(PERF_CONTEXT_USER);
                chain.extend(unwound.frames.iter().map(|frame| frame.pc));
            }
            _ => chain.extend(parts.callchain.iter()),
        }
        parts.encode(header, &chain, into);
    }

    /// Forgets ended processes, and files and tables that nothing uses.
    fn forget_before(&mut self, time_ns: u64) {
        self.machine.forget_ended_before(time_ns);
        if let Some(now) = self.machine.forget_dsos(std::iter::empty(), false) {
            self.tables.renumber(&now);
        }
        self.tables.bound();
    }

    /// Starts counting stacks anew.
    pub fn reset_counts(&mut self) {
        self.stats = UnwindStats::default();
        self.behind = 0;
        self.waits.reach = OffCpuReach::default();
    }

    /// Returns how the stacks ended that were unwound since [`Self::reset_counts`]. The caller sets
    /// [`UnwoundChains::samples`], and the recorder the size of the copies that programs make.
    #[must_use]
    pub fn counts(&self) -> UnwoundChains {
        let summary = self.stats.summary();
        let chains = |ended: EndReasonCount| IncompleteChains {
            reason: ended.why.to_owned(),
            stacks: ended.stacks,
            file: ended.dso,
        };
        UnwoundChains {
            samples: false,
            whole: summary.whole,
            truncated: summary.truncated.into_iter().map(chains).collect(),
            failed: summary.failed.into_iter().map(chains).collect(),
            behind: self.behind,
            deepest_bytes: self.stats.deepest_bytes,
            copied_bytes: 0,
            copies_lack: None,
            copies_missed: 0,
            copies: 0,
            copies_ns: 0,
            off_cpu: self.waits.reach,
        }
    }
}
