//! A ring that holds what came last: the kernel writes it backwards, over the oldest.

use rustix::io::Errno;

use super::record::{RecordBytes, Records};
use super::{RingError, map_falling_back};
use crate::mapping::{Access, Mapping, RingSpan};
use crate::open::EventFile;

/// The ring of an event with `write_backward`: records lie from the head on upwards, the newest
/// first.
///
/// ```text
///        head                            the head only falls, and starts at 0
///  ======|=newest=|=...=|=oldest=|====   what follows the oldest whole record was overwritten in part, or never written
/// ```
#[derive(Debug)]
pub struct OverwrittenRing {
    pub(super) mapping: Mapping,
    /// The head of the last snapshot: what lies from there on upwards was taken.
    taken: u64,
}

impl OverwrittenRing {
    /// Maps the ring; sizes as for [`super::Ring::map`].
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn map(event: &dyn EventFile, bytes: usize) -> Result<Self, RingError> {
        map_falling_back(event, bytes, Access::Watch).map(Self::over)
    }

    pub(super) fn over(mapping: Mapping) -> Self {
        Self { mapping, taken: 0 }
    }

    /// Bytes of data that the ring holds at most.
    #[must_use]
    pub fn size(&self) -> usize {
        self.mapping.size()
    }

    /// A copy of the whole records that the kernel wrote since the last snapshot and that the ring
    /// still holds, the newest first. The event is the one that the ring was mapped for; it writes
    /// nothing while the copy is made, and what happens meanwhile is lost.
    ///
    /// # Errors
    /// The kernel's own, for pausing and resuming the output.
    pub fn snapshot(&mut self, event: &dyn EventFile) -> Result<Vec<u8>, Errno> {
        event.pause_output(true)?;
        let copy = self.copy();
        event.pause_output(false)?;
        Ok(copy)
    }

    /// The whole records from the head up to where it was at the last snapshot.
    pub(super) fn copy(&mut self) -> Vec<u8> {
        let head = self.mapping.head();
        let written = self.taken.wrapping_sub(head);
        let written = usize::try_from(written).unwrap_or(usize::MAX).min(self.mapping.size());
        self.taken = head;
        let mut copy = self.mapping.copy_from(head, written);
        let whole = Records::of(RingSpan::new(&copy, &[]))
            .take_while(RecordBytes::is_whole)
            .map(|record| record.len())
            .sum();
        copy.truncate(whole);
        copy
    }
}
