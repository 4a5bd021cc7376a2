//! Room in the beginning of a file for the ids of counters that are opened during the recording.

use std::ops::Range;

/// Positions for the ids of later counters in a file without an [`super::Ending`].
///
/// ```text
/// ids of an event | id id id | first first first first |   the first id repeated, a placeholder
///                              ^ IdRoom::take: the next id goes here
/// ```
/// A reader that finds an id twice takes both for one counter, so unused room is harmless.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdRoom {
    /// The free range of each event, in bytes from the start of the file.
    free: Vec<Range<u64>>,
}

impl IdRoom {
    /// Adds the free range of the next event, in bytes from the start of the file.
    pub(super) fn add(&mut self, free: Range<u64>) {
        self.free.push(free);
    }

    /// Returns the offset in the file at which to write the next id of an event (counted from 0),
    /// as eight bytes in this machine's byte order. `None` if no room is left, or there is no such
    /// event.
    ///
    /// The id must be in the file before [`super::DATA_SIZE_OFFSET`] covers a record that carries
    /// it.
    pub fn take(&mut self, event: usize) -> Option<u64> {
        let free = self.free.get_mut(event).filter(|free| !free.is_empty())?;
        let offset = free.start;
        free.start += 8;
        Some(offset)
    }
}
