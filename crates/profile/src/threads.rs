//! Threads with their last names and counts.

use indexmap::IndexMap;

use crate::ids::{EventId, StringId, ThreadId};
use crate::sets::Set;
use crate::tables::{ExactCount, Thread};

/// Threads, each kept once, with their last names and the counts of their events.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadTable {
    threads: Set<Thread>,
    last_names: IndexMap<ThreadId, StringId>,
    counts: IndexMap<(ThreadId, EventId), u64>,
    /// Counts and samples by last name, once they have been compared.
    pub(crate) counts_by_name: Vec<ExactCount>,
}

impl ThreadTable {
    pub(crate) fn insert(&mut self, thread: Thread) -> ThreadId {
        self.threads.insert(thread)
    }

    pub(crate) fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(id)
    }

    /// Sets a thread's last name; a later call replaces it.
    pub(crate) fn set_name(&mut self, id: ThreadId, name: StringId) {
        self.last_names.insert(id, name);
    }

    pub(crate) fn last_name(&self, id: ThreadId) -> Option<StringId> {
        self.last_names.get(&id).copied()
    }

    /// Adds to the count of an event in a thread; the sum saturates.
    pub(crate) fn add_count(&mut self, thread: ThreadId, event: EventId, count: u64) {
        let sum = self.counts.entry((thread, event)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Returns the counts, in the order in which they were first added.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (ThreadId, EventId, u64)> {
        self.counts.iter().map(|((thread, event), count)| (*thread, *event, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;

    #[test]
    fn the_last_name_stays_and_counts_add_up() {
        let mut table = ThreadTable::default();
        let thread = table.insert(Thread { pid: 1, tid: 2 });
        assert_eq!(table.insert(Thread { pid: 1, tid: 2 }), thread);
        let [sh, date] = [0, 1].map(StringId::from_index);
        assert_eq!(table.last_name(thread), None);
        table.set_name(thread, sh);
        table.set_name(thread, date);
        assert_eq!(table.last_name(thread), Some(date));
        let event = EventId::from_index(0);
        table.add_count(thread, event, 7);
        table.add_count(thread, event, u64::MAX);
        assert_eq!(table.counts().collect::<Vec<_>>(), [(thread, event, u64::MAX)]);
    }
}
