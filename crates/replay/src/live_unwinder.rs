//! Unwinds copied stacks while they are recorded, and writes call chains in their place.
//!
//! ```text
//! ring     sample: kernel part | user part by frame pointers | registers | copied stack
//! file     sample: kernel part | user part, unwound
//! ```
//! A round's mappings and stacks are taken in time order, and its records are written in the order
//! in which they came. Where unwinding fails, the frame-pointer chain continues it if both meet.

use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_CONTEXT_USER, PERF_RECORD_MISC_MMAP_DATA, PERF_RECORD_MMAP, PERF_RECORD_MMAP2,
};
use tare_format::file::{Description, OpenError, Reader};
use tare_format::ledger::{IncompleteChains, UnwoundChains};
use tare_format::record::{
    Layout, RawRecord, Record, RecordHeader, Records, Sample, StackParts, kind,
};
use tare_profile::EndReasonCount;
use tare_symbols::{SymbolOptions, UnwindCache, Unwinder, UnwoundFrame};

use crate::copied_stack::CopiedStack;
use crate::machine::Machine;
use crate::mapping_names::is_jitdump;
use crate::unwinding::UnwindStats;

/// Bytes of unwinding tables above which all are dropped. Tables that are still needed are read
/// again.
const TABLE_BYTES: usize = 32 << 20;

/// Time for which an ended process is remembered, in nanoseconds of the recording's clock: records
/// of its last moments may come in a later round.
const REMEMBERED_NS: u64 = 2_000_000_000;

/// An event whose samples are unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwoundEvent {
    /// Its index in the recording's description.
    pub event: usize,
    /// Whether its samples keep their user registers.
    pub keeps_registers: bool,
}

/// Replaces copied stacks by call chains, in the records of a running recording.
#[derive(Debug)]
pub struct LiveUnwinder {
    options: SymbolOptions,
    events: Vec<UnwoundEvent>,
    /// Whether records of mappings that hold no code are written. Without them, unwinding couldn't
    /// tell where a stack ends.
    keeps_data_mappings: bool,
    description: Description,
    machine: Machine,
    unwinder: Unwinder,
    cache: UnwindCache,
    stats: UnwindStats,
    /// Number of chains that stayed as the kernel recorded them.
    behind: u64,
    /// The unwound part of each sample of a round, by position.
    round: Vec<Option<Vec<UnwoundFrame>>>,
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
            unwinder: Unwinder::new(options.clone()),
            options,
            cache: UnwindCache::default(),
            stats: UnwindStats::default(),
            behind: 0,
            round: Vec::new(),
        }
    }

    /// Reads the beginning of a stream, which describes the events as the kernel samples them
    /// ([`tare_format::file::writer::Description::stream_beginning`]).
    ///
    /// # Errors
    /// Fails if the bytes aren't the beginning of a stream.
    pub fn describe(&mut self, stream: &[u8]) -> Result<(), OpenError> {
        let mut reader = Reader::stream(stream)?;
        // Reading from memory can't fail.
        while let Ok(Some(_)) = reader.next_record() {}
        self.description = reader.description().clone();
        self.machine.learn(&self.description);
        Ok(())
    }

    /// Appends whole records to `into`, with call chains in place of the copied stacks of unwound
    /// events. `is_behind`: the user part of the chains stays as it was recorded.
    pub fn unwind(&mut self, records: &[u8], is_behind: bool, into: &mut Vec<u8>) {
        let round: Vec<_> =
            Records::new(records, Endian::NATIVE).map(|raw| self.look_at(raw)).collect();
        let mut unwound = std::mem::take(&mut self.round);
        unwound.clear();
        unwound.resize_with(round.len(), || None);
        let mut in_order: Vec<usize> = (0..round.len()).collect();
        in_order.sort_by_key(|position| round[*position].time_ns);
        for position in in_order {
            let record = &round[position];
            if record.raw.kind != kind::PERF_RECORD_SAMPLE {
                self.apply(&record.raw);
            } else if let (Some(event), false) = (record.event, is_behind) {
                unwound[position] = self.frames(&record.raw, event, position);
            } else {
                self.behind += u64::from(record.event.is_some());
            }
        }
        for (record, frames) in round.iter().zip(&unwound) {
            self.write(record, frames.as_deref(), into);
        }
        self.round = unwound;
        let newest_ns = round.iter().filter_map(|record| record.time_ns).max();
        self.forget_before(newest_ns.unwrap_or(0).saturating_sub(REMEMBERED_NS));
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

    /// Unwinds the stack of a sample. `None` if it has none.
    fn frames(
        &mut self,
        raw: &RawRecord<'_>,
        event: usize,
        position: usize,
    ) -> Option<Vec<UnwoundFrame>> {
        let sample = Sample::decode(raw, self.layout(event)?).ok()?;
        let space = sample.head.pid.and_then(|pid| self.machine.user_space(pid));
        let stack = CopiedStack::from_sample(&sample, position, space)?;
        let Self { machine, unwinder, cache, stats, .. } = self;
        let unwound = stack.unwind_frames(unwinder, cache, machine.dsos());
        stats.add(machine, &stack, &unwound.as_stack(position));
        (!unwound.frames.is_empty()).then_some(unwound.frames)
    }

    /// Writes a record: as it is, or with the call chain in place of the copied stack.
    fn write(&self, record: &RoundRecord<'_>, frames: Option<&[UnwoundFrame]>, into: &mut Vec<u8>) {
        let RawRecord { kind, misc, body, .. } = record.raw;
        if !self.keeps_data_mappings && is_data_mapping(&record.raw) {
            return;
        }
        let Ok(header) = RecordHeader::new(kind, misc, body.len()) else { return };
        let parts = record.event.and_then(|event| {
            let keeps_registers = self.events.get(event)?.keeps_registers;
            let layout = self.layout(event)?;
            let sample = Sample::decode(&record.raw, layout).ok()?;
            Some((StackParts::find(&record.raw, layout, keeps_registers)?, sample.callchain?))
        });
        let Some((parts, recorded)) = parts else {
            into.extend(header.encode());
            into.extend_from_slice(body);
            return;
        };
        let mut chain = Vec::with_capacity(64);
        match frames {
            None => chain.extend(recorded.iter()),
            Some(frames) => {
                chain.extend(recorded.iter().take_while(|word| *word != PERF_CONTEXT_USER));
                chain.push(PERF_CONTEXT_USER);
                chain.extend(frames.iter().map(|frame| frame.pc));
            }
        }
        parts.encode(header, &chain, into);
    }

    /// Forgets ended processes, and files and tables that nothing uses.
    fn forget_before(&mut self, time_ns: u64) {
        self.machine.forget_ended_before(time_ns);
        let is_large = self.unwinder.bytes() > TABLE_BYTES;
        if self.machine.forget_dsos(std::iter::empty(), is_large).is_some() {
            // The tables are cached by DSO id, and the ids changed.
            self.unwinder = Unwinder::new(self.options.clone());
            self.cache = UnwindCache::default();
        }
    }

    /// Starts counting stacks anew.
    pub fn reset_counts(&mut self) {
        self.stats = UnwindStats::default();
        self.behind = 0;
    }

    /// Returns how the stacks ended that were unwound since [`Self::reset_counts`].
    #[must_use]
    pub fn counts(&self) -> UnwoundChains {
        let summary = self.stats.summary();
        let chains = |ended: EndReasonCount| IncompleteChains {
            reason: ended.why.to_owned(),
            stacks: ended.stacks,
            file: ended.dso,
        };
        UnwoundChains {
            whole: summary.whole,
            truncated: summary.truncated.into_iter().map(chains).collect(),
            failed: summary.failed.into_iter().map(chains).collect(),
            behind: self.behind,
        }
    }
}
