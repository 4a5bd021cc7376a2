//! A ring that holds the newest records: the kernel writes it backwards, over the oldest.

use rustix::io::Errno;

use super::record::{RecordBytes, Records};
use super::{RingError, map_falling_back};
use crate::mapping::{Access, Mapping, RingSpan};
use crate::open::EventFile;

/// The ring of an event with `write_backward`: records lie from the head upwards, newest first.
///
/// ```text
///        head                            the head only falls, and starts at 0
///  ======|=newest=|=...=|=oldest=|====   behind the oldest complete record: overwritten in part, or never written
/// ```
#[derive(Debug)]
pub struct OverwrittenRing {
    pub(super) mapping: Mapping,
    /// The head at the last snapshot; records from there on upwards were taken.
    taken: u64,
}

impl OverwrittenRing {
    /// Maps the ring; sizes as for [`super::Ring::map`].
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn map(event: &dyn EventFile, bytes: usize) -> Result<Self, RingError> {
        map_falling_back(event, bytes, Access::Watch).map(Self::from_mapping)
    }

    pub(super) fn from_mapping(mapping: Mapping) -> Self {
        Self { mapping, taken: 0 }
    }

    /// Returns the number of bytes of data that the ring can hold.
    #[must_use]
    pub fn size(&self) -> usize {
        self.mapping.size()
    }

    /// Copies the complete records since the last snapshot that the ring still holds, newest first.
    /// `event` is the one that the ring was mapped for. Its output is paused while the copy is
    /// made, and records in between are lost.
    ///
    /// # Errors
    /// Fails if the output can't be paused or resumed.
    pub fn snapshot(&mut self, event: &dyn EventFile) -> Result<Vec<u8>, Errno> {
        event.pause_output(true)?;
        let copy = self.copy();
        event.pause_output(false)?;
        Ok(copy)
    }

    /// Copies the complete records between the head and its position at the last snapshot.
    pub(super) fn copy(&mut self) -> Vec<u8> {
        let head = self.mapping.head();
        let written = self.taken.wrapping_sub(head);
        let written = usize::try_from(written).unwrap_or(usize::MAX).min(self.mapping.size());
        self.taken = head;
        let mut copy = self.mapping.copy_from(head, written);
        let whole = Records::new(RingSpan::new(&copy, &[]))
            .take_while(RecordBytes::is_whole)
            .map(|record| record.len())
            .sum();
        copy.truncate(whole);
        copy
    }
}
