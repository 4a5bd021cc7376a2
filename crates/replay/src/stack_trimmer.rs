//! Leaves out of samples the part of their copies that holds no stack, so that the recorder moves
//! less memory to its thread that unwinds.
//!
//! ```text
//! copy in the ring  | stack | base ... other memory | room that the kernel left empty |
//! kept              | stack |
//! ```
//! The kernel copies from the stack pointer up to the end of readable memory. Where a stack that was
//! unwound whole begins is the base of its thread's stack; later copies of this thread are cut there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tare_format::Endian;
use tare_format::abi::bindings::PERF_SAMPLE_REGS_ABI_64;
use tare_format::file::{Description, OpenError};
use tare_format::record::{RawRecord, RecordHeader, StackCopy, kind};
use tare_symbols::Registers;

use crate::live::read_beginning;
use crate::unwound_event::UnwoundEvent;

/// Bytes that are kept beyond the base.
const BEYOND: u64 = 256;

/// Largest difference of two bases of one stack, in bytes: a thread is unwound through fewer
/// functions at its start.
const VARIATION: u64 = 4096;

/// Limit of threads whose bases are known.
const THREADS: usize = 1 << 16;

/// Where the stack of a thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StackBase {
    At(u64),
    /// The thread runs on several stacks, as with coroutines.
    Varied,
}

/// Bases of the stacks of threads, by thread.
#[derive(Debug, Default)]
pub(crate) struct StackBases(HashMap<i32, StackBase, foldhash::fast::RandomState>);

impl StackBases {
    /// Notes the base of a stack that was unwound whole.
    pub(crate) fn note(&mut self, tid: i32, base: u64) {
        if self.0.len() >= THREADS {
            self.0.clear();
        }
        match self.0.entry(tid) {
            Entry::Vacant(new) => _ = new.insert(StackBase::At(base)),
            Entry::Occupied(mut known) => {
                let now = match *known.get() {
                    StackBase::At(at) if at.abs_diff(base) <= VARIATION => {
                        StackBase::At(at.max(base))
                    }
                    _ => StackBase::Varied,
                };
                known.insert(now);
            }
        }
    }

    /// Notes that a copy of these bytes from the stack pointer on ended before the stack was whole.
    /// If it held the base, the thread runs on another stack.
    pub(crate) fn distrust(&mut self, tid: i32, stack_pointer: u64, bytes: usize) {
        if self.depth(tid, stack_pointer).is_some_and(|depth| depth <= bytes as u64) {
            self.0.insert(tid, StackBase::Varied);
        }
    }

    /// Forgets a thread that ended, or began another program.
    pub(crate) fn forget(&mut self, tid: i32) {
        self.0.remove(&tid);
    }

    /// Returns the bytes from the stack pointer to the base of a thread's stack, if known.
    fn depth(&self, tid: i32, stack_pointer: u64) -> Option<u64> {
        match self.0.get(&tid)? {
            StackBase::At(base) => base.checked_sub(stack_pointer),
            StackBase::Varied => None,
        }
    }
}

/// The bases, which the unwinder learns and the trimmer uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBases(Arc<Mutex<StackBases>>);

impl SharedBases {
    pub(crate) fn lock(&self) -> MutexGuard<'_, StackBases> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortens the copied stacks in records that a [`crate::LiveUnwinder`] is to unwind.
#[derive(Debug)]
pub struct StackTrimmer {
    events: Vec<UnwoundEvent>,
    description: Description,
    bases: SharedBases,
    /// The beginning of a record that is split between two pieces.
    split: Vec<u8>,
}

impl StackTrimmer {
    pub(crate) fn new(events: Vec<UnwoundEvent>, bases: SharedBases) -> Self {
        let description = Description::from_events(Endian::NATIVE, []);
        Self { events, description, bases, split: Vec::new() }
    }

    /// Reads the beginning of a stream, as [`crate::LiveUnwinder::describe`].
    ///
    /// # Errors
    /// Fails if the bytes aren't the beginning of a stream.
    pub fn describe(&mut self, stream: &[u8]) -> Result<(), OpenError> {
        self.description = read_beginning(stream)?;
        Ok(())
    }

    /// Appends whole records to `into`, with shorter copies. The records are the pieces together;
    /// a piece may end within a record.
    pub fn trim(&mut self, pieces: &[&[u8]], into: &mut Vec<u8>) {
        let bases = self.bases.clone();
        let bases = bases.lock();
        for piece in pieces {
            let mut rest = *piece;
            if !self.split.is_empty() {
                rest = self.join_split(rest);
                let mut split = std::mem::take(&mut self.split);
                if RawRecord::first(&split, Endian::NATIVE).is_some() {
                    self.trim_records(&split, &bases, into);
                    split.clear();
                } else if !rest.is_empty() {
                    // Its header is damaged, so nothing behind it can be told apart.
                    into.append(&mut split);
                    into.extend_from_slice(std::mem::take(&mut rest));
                }
                self.split = split;
            }
            let left = self.trim_records(rest, &bases, into);
            self.split.extend_from_slice(left);
        }
        // Not a whole record: damaged.
        into.append(&mut self.split);
    }

    /// Completes the split record, as far as a piece has the rest. Returns what is behind it.
    fn join_split<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let of_header = RecordHeader::SIZE.saturating_sub(self.split.len()).min(piece.len());
        let (header, rest) = piece.split_at(of_header);
        self.split.extend_from_slice(header);
        let Some(size) = size_of_first(&self.split) else { return rest };
        let missing = size.saturating_sub(self.split.len()).min(rest.len());
        let (record, rest) = rest.split_at(missing);
        self.split.extend_from_slice(record);
        rest
    }

    /// Appends the whole records of a piece, and returns the beginning of the last one if it is
    /// split.
    fn trim_records<'a>(
        &self,
        piece: &'a [u8],
        bases: &StackBases,
        into: &mut Vec<u8>,
    ) -> &'a [u8] {
        let mut rest = piece;
        // Bytes of records that stay as they are, in front of `rest`.
        let mut unchanged = 0;
        while let Some(raw) =
            rest.get(unchanged..).and_then(|at| RawRecord::first(at, Endian::NATIVE))
        {
            let shortened = self.stack_of(&raw);
            let Some((header, copy)) = shortened else {
                unchanged += raw.size();
                continue;
            };
            let size = raw.size();
            into.extend_from_slice(&rest[..unchanged]);
            copy.encode(header, needed_bytes(&copy, bases), into);
            rest = &rest[unchanged + size..];
            unchanged = 0;
        }
        into.extend_from_slice(&rest[..unchanged]);
        &rest[unchanged..]
    }

    /// Returns the copied stack of a record that is to be unwound.
    fn stack_of<'a>(&self, raw: &RawRecord<'a>) -> Option<(RecordHeader, StackCopy<'a>)> {
        if raw.kind != kind::PERF_RECORD_SAMPLE {
            return None;
        }
        let lookup = self.description.lookup();
        let index = lookup.index_of(raw)?;
        self.events.iter().find(|event| event.event == index)?;
        let copy = StackCopy::find(raw, lookup.layouts().get(index)?)?;
        Some((RecordHeader::new(raw.kind, raw.misc, raw.body.len()).ok()?, copy))
    }
}

/// Returns the size of the first record, if its header is complete.
fn size_of_first(bytes: &[u8]) -> Option<usize> {
    let size = bytes.get(6..RecordHeader::SIZE)?;
    Some(usize::from(u16::from_ne_bytes([size[0], size[1]])))
}

/// Returns how many bytes of a copy unwinding needs.
fn needed_bytes(copy: &StackCopy<'_>, bases: &StackBases) -> usize {
    let known = || {
        let recorded =
            copy.registers.filter(|all| all.abi == u64::from(PERF_SAMPLE_REGS_ABI_64))?;
        let registers = Registers::by_perf_number(|number| recorded.get(number))?;
        bases.depth(copy.head.tid?, registers.stack_pointer())
    };
    let needed = known().map_or(usize::MAX, |depth| {
        usize::try_from(depth.saturating_add(BEYOND)).unwrap_or(usize::MAX)
    });
    needed.min(copy.bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_several_stacks_has_no_base() {
        let mut bases = StackBases::default();
        bases.note(7, 0x9000);
        assert_eq!(bases.depth(7, 0x8000), Some(0x1000));
        bases.note(7, 0x9800);
        assert_eq!(bases.depth(7, 0x8000), Some(0x1800), "the higher of two on one stack");
        bases.note(7, 0x9000);
        assert_eq!(bases.depth(7, 0x8000), Some(0x1800));
        assert_eq!(bases.depth(7, 0xa000), None, "another stack");
        bases.note(7, 0x20_0000);
        assert_eq!(bases.depth(7, 0x8000), None, "coroutines");
        bases.note(7, 0x9000);
        assert_eq!(bases.depth(7, 0x8000), None);
        bases.forget(7);
        assert_eq!(bases.depth(7, 0x8000), None);
        bases.note(7, 0x9000);
        assert_eq!(bases.depth(7, 0x8000), Some(0x1000), "a new program");
    }

    #[test]
    fn a_base_within_a_copy_that_ended_too_early_is_wrong() {
        let mut bases = StackBases::default();
        bases.note(7, 0x9000);
        bases.distrust(7, 0x8000, 0x800);
        assert_eq!(bases.depth(7, 0x8000), Some(0x1000), "a copy smaller than the stack");
        bases.distrust(7, 0x8000, 0x1100);
        assert_eq!(bases.depth(7, 0x8000), None);
    }

    #[test]
    fn the_number_of_bases_is_bounded() {
        let mut bases = StackBases::default();
        let threads = i32::try_from(THREADS).unwrap();
        (0..=threads).for_each(|tid| bases.note(tid, 0x9000));
        assert!(bases.0.len() <= THREADS && bases.depth(threads, 0x8000).is_some());
    }
}
