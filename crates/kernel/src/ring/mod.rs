//! Ring buffers, into which the kernel writes an event's records.
//!
//! ```text
//! while bytes are unread            Ring::batch: two slices at most
//!     write them somewhere         unparsed; record ends are found by the headers' sizes alone
//!     move the tail                Batch::advance: the kernel may write there again
//! ```
//! A [`Ring`] holds unread records, and the kernel drops records that don't fit. An
//! [`OverwrittenRing`] holds the newest records, and has no tail to move.

mod ordered;
mod overwritten;
mod record;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;

use thiserror::Error;

pub use crate::mapping::{Access, Mapping};
pub use ordered::{AddError, OrderedRings};
pub use overwritten::OverwrittenRing;
pub use record::{RecordBytes, Records, RingRecord};

use rustix::io::Errno;

use crate::mapping::RingSpan;
use crate::open::EventFile;

/// Why an event has no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// Not even one page may be locked (`EPERM`).
    #[error(
        "this process may lock no memory for a ring: raise 'ulimit -l' or the sysctl kernel.perf_event_mlock_kb, or run with CAP_IPC_LOCK"
    )]
    LockedMemory,
    /// No memory is left for the smallest ring (`ENOMEM`).
    #[error("there is no memory left for a ring")]
    Memory,
    /// The event can't have a ring (`EINVAL`): it is inherited and bound to no CPU.
    #[error("the event can have no ring: an inherited event must be bound to a CPU")]
    NotPossible,
    /// The event's ring was mapped before, or the event writes into another's (`EBUSY`): a ring has
    /// one reader.
    #[error("the event's ring has a reader, or the event writes into the ring of another")]
    Taken,
    /// Any other refusal.
    #[error("mapping the ring failed: {0}")]
    Kernel(Errno),
}

/// Maps a ring of at least `bytes`. If that can't be locked or allocated, halves the size until it
/// can, down to a page.
fn map_falling_back(
    event: &dyn EventFile,
    bytes: usize,
    access: Access,
) -> Result<Mapping, RingError> {
    let page = rustix::param::page_size();
    let largest = 1 << (usize::BITS - 2);
    let mut size = bytes.clamp(page, largest).next_power_of_two();
    loop {
        match event.map_ring(size, access) {
            Ok(mapping) => return Ok(mapping),
            Err(Errno::PERM | Errno::NOMEM) if size > page => size /= 2,
            Err(Errno::PERM) => return Err(RingError::LockedMemory),
            Err(Errno::NOMEM) => return Err(RingError::Memory),
            Err(Errno::INVAL) => return Err(RingError::NotPossible),
            Err(Errno::BUSY) => return Err(RingError::Taken),
            Err(error) => return Err(RingError::Kernel(error)),
        }
    }
}

/// A ring whose unread part isn't overwritten: records that don't fit are lost, and counted by the
/// kernel, or by the BPF program that writes the ring.
///
/// ```text
///        tail            head           positions only grow; modulo the size they are places in the ring
///  ......|===============|......        = can be read, . the kernel may write
/// ```
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    /// The position up to which records were read. The kernel's copy is read once, at the start.
    tail: u64,
}

impl Ring {
    /// Maps an event's ring with at least `bytes` of data, rounded up to a power of two of pages.
    /// If the memory can't be locked or allocated the size is halved until it can; see
    /// [`Ring::size`].
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn map(event: &dyn EventFile, bytes: usize) -> Result<Self, RingError> {
        map_falling_back(event, bytes, Access::Consume).map(Self::from_mapping)
    }

    /// Maps a ring in a BPF map, whose programs write it as the kernel writes an event's. At
    /// `offset`, in whole pages, lies the control page; `bytes` of data follow, a power of two of
    /// pages. Nothing else may read it.
    pub(crate) fn at(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<Self, Errno> {
        Mapping::at(file, offset, bytes, Access::Consume).map(Self::from_mapping)
    }

    fn from_mapping(mapping: Mapping) -> Self {
        let tail = mapping.tail();
        Self { mapping, tail }
    }

    /// Returns the number of bytes of data that the ring can hold.
    #[must_use]
    pub fn size(&self) -> usize {
        self.mapping.size()
    }

    /// Returns the number of unread bytes.
    #[must_use]
    pub fn available(&self) -> usize {
        self.mapping.readable(self.tail, self.mapping.head()).len()
    }

    /// Returns the oldest unread record. Dropping it gives its place back to the kernel.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator could hand out a second record before the first is dropped"
    )]
    pub fn next(&mut self) -> Option<RingRecord<'_>> {
        let bytes = RecordBytes::first_of(self.mapping.readable(self.tail, self.mapping.head()))?;
        Some(RingRecord::new(bytes, &mut self.tail, &self.mapping))
    }

    /// Returns all unread records.
    pub fn batch(&mut self) -> Batch<'_> {
        let span = self.mapping.readable(self.tail, self.mapping.head());
        Batch { span, tail: &mut self.tail, mapping: &self.mapping }
    }
}

/// The unread records at the time of the call. Dropped without [`Batch::advance`], they stay in the
/// ring.
#[derive(Debug)]
pub struct Batch<'ring> {
    span: RingSpan<'ring>,
    tail: &'ring mut u64,
    mapping: &'ring Mapping,
}

impl Batch<'_> {
    /// Returns the bytes in order; the second slice is empty unless the batch wraps around.
    #[must_use]
    pub fn slices(&self) -> [&[u8]; 2] {
        self.span.slices()
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.span.len()
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.span.len() == 0
    }

    /// Iterates over the records, decoding only their headers.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records::new(self.span)
    }

    /// Shortens the batch to whole records of at most `most` bytes together, but at least one
    /// record. The rest stays in the ring.
    pub fn shorten(&mut self, most: usize) {
        if self.len() > most {
            let ends = self.records().scan(0, |end, record| {
                *end += record.len();
                Some(*end)
            });
            let fitting = ends.take_while(|&end| end <= most).last();
            let end = fitting.or_else(|| self.records().next().map(|record| record.len()));
            self.span = self.span.split_at(end.unwrap_or(0)).0;
        }
    }

    /// Gives the places of these records back to the kernel.
    pub fn advance(self) {
        *self.tail = self.tail.wrapping_add(self.span.len() as u64);
        self.mapping.set_tail(*self.tail);
    }
}
