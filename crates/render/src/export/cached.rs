//! Values that are made from ids and used again soon.

use std::collections::HashMap;
use std::hash::Hash;

/// Maximum number of cached values: a hash table of 32,768 slots has room for as many. A recording
/// may have millions of frames that occur once each.
pub(super) const CACHED: usize = 28_672;

/// The values of ids that occurred lately.
pub(super) struct Cached<K, V>(HashMap<K, V, foldhash::fast::RandomState>);

impl<K, V> Default for Cached<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Copy + Eq + Hash, V> Cached<K, V> {
    /// Returns the value of an id, which is made if it isn't cached.
    pub(super) fn get(&mut self, id: K, make: impl FnOnce() -> V) -> &V {
        if self.0.len() >= CACHED && !self.0.contains_key(&id) {
            self.0.clear();
        }
        self.0.entry(id).or_insert_with(make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_many_ids_are_made_again() {
        let mut cached = Cached::default();
        let mut made = 0;
        let mut get = |id: usize| {
            let value = *cached.get(id, || {
                made += 1;
                id * 2
            });
            assert_eq!(value, id * 2);
        };
        (0..CACHED).chain(0..CACHED).for_each(&mut get);
        (CACHED..CACHED + 3).for_each(&mut get);
        get(CACHED);
        get(0);
        assert_eq!(made, CACHED + 4, "each once, and one again");
        assert_eq!(cached.0.len(), 4);
    }
}
