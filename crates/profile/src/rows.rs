//! Rows: samples that are alike, summed.

use std::hash::{Hash, Hasher};

use crate::ids::{DetailsId, EventId, FrameId, Id, RowId, StackId, StringId, ThreadId, pair};
use crate::sets::Set;
use crate::tables::Weight;

/// The common properties of samples that are alike. A reader leaves out properties that no sort key
/// needs, so that fewer rows differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The event.
    pub event: EventId,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The thread's name when the sample was taken.
    pub comm: Option<StringId>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The frame in which the sample was taken.
    pub leaf: Option<FrameId>,
    /// The call chain, if recorded and requested.
    pub stack: Option<StackId>,
    /// The fields of a tracepoint, as text.
    pub trace: Option<StringId>,
    /// The values of further sort keys.
    pub details: Option<DetailsId>,
}

impl Row {
    /// Creates a row of an event, without any other property.
    #[must_use]
    pub fn new(event: EventId) -> Self {
        Self {
            event,
            thread: None,
            comm: None,
            cpu: None,
            leaf: None,
            stack: None,
            trace: None,
            details: None,
        }
    }
}

impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(pair(self.thread, self.comm));
        state.write_u64(pair(self.leaf, self.stack));
        state.write_u64(pair(Some(self.event), self.trace));
        let details = pair(None::<EventId>, self.details);
        state.write_u64(u64::from(self.cpu.unwrap_or(u32::MAX)) << 32 | details);
    }
}

/// Rows, each kept once, with their weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowTable {
    rows: Set<Row>,
    /// One for each row.
    weights: Vec<Weight>,
}

impl RowTable {
    /// Adds a weight to a row, which is inserted if it is new.
    pub(crate) fn add(&mut self, row: Row, weight: Weight) -> RowId {
        let id: RowId = self.rows.insert(row);
        self.weights.resize(self.rows.len(), Weight::default());
        self.add_to(id, weight);
        id
    }

    /// Adds a weight to a row of this table; an unknown id is ignored.
    pub(crate) fn add_to(&mut self, id: RowId, weight: Weight) {
        if let Some(sum) = self.weights.get_mut(id.index()) {
            sum.add(weight);
        }
    }

    /// See [`Set::drop_index`].
    pub(crate) fn drop_index(&mut self) {
        self.rows.drop_index();
    }

    /// Replaces the rows for which `now` returns another, which must not be in the table.
    pub(crate) fn replace(&mut self, now: impl Fn(&Row) -> Option<Row>) {
        self.rows.replace(now);
    }

    pub(crate) fn get(&self, id: RowId) -> Option<(&Row, Weight)> {
        Some((self.rows.get(id)?, *self.weights.get(id.index())?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Row, Weight)> {
        self.rows.iter().zip(self.weights.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_add_up() {
        let mut table = RowTable::default();
        let [event, other] = [0, 1].map(EventId::from_index);
        let weight = Weight { period: 5, samples: 1 };
        let first = table.add(Row::new(event), weight);
        let second = table.add(Row { cpu: Some(1), ..Row::new(event) }, weight);
        assert_eq!(table.add(Row::new(event), weight), first);
        table.add_to(second, weight);
        table.add_to(RowId::from_index(7), weight);
        table.add(Row::new(other), weight);
        let periods: Vec<_> = table.iter().map(|(_, weight)| weight.period).collect();
        assert_eq!(periods, [10, 10, 5]);
        assert_eq!(table.get(second).map(|(row, _)| row.cpu), Some(Some(1)));
        assert_eq!(table.get(RowId::from_index(7)), None);
    }
}
