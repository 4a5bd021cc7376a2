//! Room in the beginning of a file for the ids of counters that are opened while it is recorded.

use std::ops::Range;

/// Where the ids of later counters are written in a file that has no [`super::Ending`] yet.
///
/// ```text
/// ids of an event | id id id | first first first first |     the first id again, in place of those that may come
///                              ^ IdRoom::take: here goes the next one
/// ```
/// A reader that finds an id twice takes both for one counter, so unused room says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdRoom {
    /// For each event, what is left: bytes from the beginning of the file.
    free: Vec<Range<u64>>,
}

impl IdRoom {
    /// The room of the next event, in bytes from the beginning of the file.
    pub(super) fn add(&mut self, free: Range<u64>) {
        self.free.push(free);
    }

    /// Where the next id of an event, counted from 0, is to be written as eight bytes in this
    /// machine's byte order: in bytes from the beginning of the file. `None` where no room is left.
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
