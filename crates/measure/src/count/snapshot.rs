//! The counts of all events at one moment, and differences and sums of them.

use tare_format::abi::Count;

/// Counts by event and location, in the order of [`super::Counters`]; `None` for an event that
/// couldn't be opened or read there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot(pub(super) Vec<Vec<Option<Count>>>);

impl Snapshot {
    /// The count of an event at one of its locations.
    #[must_use]
    pub fn get(&self, event: usize, place: usize) -> Option<Count> {
        self.0.get(event)?.get(place).copied().flatten()
    }

    /// Returns the counts since an earlier snapshot of the same counters. A count that the earlier
    /// snapshot lacks is returned in full.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, Count::since)
    }

    /// Returns the sum with another snapshot of the same events and locations. A count that only
    /// the other snapshot has is left out.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, Count::plus)
    }

    fn zip(&self, other: &Self, join: impl Fn(Count, Count) -> Count) -> Self {
        let place = |event, place, count: Option<Count>| match (count, other.get(event, place)) {
            (Some(ours), Some(theirs)) => Some(join(ours, theirs)),
            (ours, _) => ours,
        };
        let event = |e, counts: &Vec<Option<Count>>| {
            counts.iter().enumerate().map(|(p, &count)| place(e, p, count)).collect()
        };
        Self(self.0.iter().enumerate().map(|(e, counts)| event(e, counts)).collect())
    }
}
