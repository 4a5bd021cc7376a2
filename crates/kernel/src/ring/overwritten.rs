//! A ring that holds what came last: the kernel writes it backwards, over the oldest.

use rustix::io::Errno;

use super::record::{RecordBytes, Records};
use super::{RingError, map_falling_back};
use crate::mapping::{Access, Mapping, Span};
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
}

impl OverwrittenRing {
    /// Maps the ring; sizes as for [`super::Ring::map`].
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn map(event: &dyn EventFile, bytes: usize) -> Result<Self, RingError> {
        map_falling_back(event, bytes, Access::Watch).map(|mapping| Self { mapping })
    }

    /// Bytes of data that the ring holds at most.
    #[must_use]
    pub fn size(&self) -> usize {
        self.mapping.size()
    }

    /// A copy of the whole records that the ring holds, the newest first. The event is the one that
    /// the ring was mapped for; it writes nothing while the copy is made, and what happens
    /// meanwhile is lost.
    ///
    /// # Errors
    /// The kernel's own, for pausing and resuming the output.
    pub fn snapshot(&mut self, event: &dyn EventFile) -> Result<Vec<u8>, Errno> {
        event.pause_output(true)?;
        let copy = self.copy();
        event.pause_output(false)?;
        Ok(copy)
    }

    /// The whole records from the head on.
    pub(super) fn copy(&self) -> Vec<u8> {
        let mut copy = self.mapping.copy_from(self.mapping.head());
        let whole = Records::of(Span::new(&copy, &[]))
            .take_while(RecordBytes::is_whole)
            .map(|record| record.len())
            .sum();
        copy.truncate(whole);
        copy
    }
}
