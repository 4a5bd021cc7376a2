//! Distinct values with ids, in little memory: a recording may have millions of them.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::ids::{Id, MOST};

/// Distinct values, in the order of their first insertion. A value takes its own size and 5 to 10
/// bytes of the index.
#[derive(Clone, Debug)]
pub(crate) struct Set<T> {
    values: Vec<T>,
    index: Index,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { values: Vec::new(), index: Index::default() }
    }
}

impl<T: Hash + Eq> Set<T> {
    /// Returns the id of a value, which is inserted if it is new.
    pub(crate) fn insert<I: Id>(&mut self, value: T) -> I {
        I::from_index(self.insert_index(value))
    }

    /// Returns the index of a value, which is inserted if it is new.
    pub(crate) fn insert_index(&mut self, value: T) -> usize {
        let Self { values, index } = self;
        let at = index.find_or_add(values.len(), &value, |at| values.get(at));
        if at == values.len() {
            values.push(value);
        }
        at
    }

    /// Replaces the values for which `now` returns another, which must not be in the set. Ids stay
    /// the same.
    pub(crate) fn replace(&mut self, now: impl Fn(&T) -> Option<T>) {
        let Self { values, index } = self;
        let mut is_changed = false;
        for value in &mut *values {
            if let Some(other) = now(value) {
                *value = other;
                is_changed = true;
            }
        }
        if is_changed {
            *index = Index::default();
            for (at, value) in values.iter().enumerate() {
                index.find_or_add(at, value, |at| values.get(at));
            }
        }
    }

    /// Frees the index until another value is inserted.
    pub(crate) fn drop_index(&mut self) {
        self.index = Index::default();
    }

    pub(crate) fn get<I: Id>(&self, id: I) -> Option<&T> {
        self.values.get(id.index())
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }
}

/// Distinct lists: texts, call chains. All lists share one allocation.
///
/// ```text
/// items  a b c | a b | d b c |
/// ends         3     5       8
/// ```
#[derive(Clone, Debug)]
pub(crate) struct ListSet<T> {
    items: Vec<T>,
    ends: Vec<usize>,
    index: Index,
}

impl<T> Default for ListSet<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new(), index: Index::default() }
    }
}

impl<T: Copy + Hash + Eq> ListSet<T> {
    /// Returns the id of a list, which is inserted if it is new.
    pub(crate) fn insert<I: Id>(&mut self, list: &[T]) -> I {
        let Self { items, ends, index } = self;
        let at = index.find_or_add(ends.len(), list, |at| list_at(items, ends, at));
        if at == ends.len() {
            items.extend_from_slice(list);
            ends.push(items.len());
        }
        I::from_index(at)
    }

    /// Frees the index until another list is inserted.
    pub(crate) fn drop_index(&mut self) {
        self.index = Index::default();
    }

    /// The items of a list; empty if the id is unknown.
    pub(crate) fn get<I: Id>(&self, id: I) -> &[T] {
        list_at(&self.items, &self.ends, id.index()).unwrap_or_default()
    }
}

fn list_at<'a, T>(items: &'a [T], ends: &[usize], at: usize) -> Option<&'a [T]> {
    let end = *ends.get(at)?;
    let begin = at.checked_sub(1).and_then(|before| ends.get(before)).copied();
    items.get(begin.unwrap_or(0)..end)
}

/// Positions of values by hash. The values themselves are elsewhere.
#[derive(Clone, Debug, Default)]
struct Index {
    positions: HashTable<u32>,
    hasher: RandomState,
}

impl Index {
    /// Returns the position of a value. A new value gets the position `next`, or 0 if there are too
    /// many. `value_at` returns a value by its position.
    fn find_or_add<'a, T: Hash + Eq + ?Sized + 'a>(
        &mut self,
        next: usize,
        value: &T,
        value_at: impl Fn(usize) -> Option<&'a T>,
    ) -> usize {
        let Self { positions, hasher } = self;
        let hash_at = |at: &u32| value_at(*at as usize).map_or(0, |value| hasher.hash_one(value));
        if positions.is_empty() {
            // It was dropped.
            for at in 0..u32::try_from(next).unwrap_or(0) {
                positions.insert_unique(hash_at(&at), at, hash_at);
            }
        }
        let hash = hasher.hash_one(value);
        let is_equal = |at: &u32| value_at(*at as usize).is_some_and(|known| known == value);
        if let Some(at) = positions.find(hash, is_equal) {
            return *at as usize;
        }
        let Some(position) = u32::try_from(next).ok().filter(|_| next < MOST) else { return 0 };
        positions.insert_unique(hash, position, hash_at);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FrameId, StackId};

    #[test]
    fn equal_values_have_the_same_id() {
        let mut set = Set::default();
        let ids: Vec<FrameId> = (0..1000).chain(0..1000).map(|value| set.insert(value)).collect();
        assert_eq!((set.len(), &ids[..1000]), (1000, &ids[1000..]));
        assert_eq!(ids[..1000].iter().map(|id| *set.get(*id).unwrap()).sum::<u64>(), 499_500);
        assert_eq!(set.get(FrameId::from_index(1000)), None);
        assert!(set.iter().copied().eq(0..1000), "in the order of insertion");
    }

    #[test]
    fn values_keep_their_ids_without_an_index() {
        let mut set = Set::default();
        let ids: Vec<FrameId> = (0..1000).map(|value| set.insert(value)).collect();
        set.drop_index();
        assert_eq!(set.insert::<FrameId>(7), ids[7]);
        assert_eq!((set.insert::<FrameId>(1000), set.len()), (FrameId::from_index(1000), 1001));
    }

    #[test]
    fn equal_lists_have_the_same_id() {
        let mut lists = ListSet::default();
        let first: StackId = lists.insert(b"abc");
        let second: StackId = lists.insert(b"ab");
        let empty: StackId = lists.insert(b"");
        assert_eq!(lists.insert::<StackId>(b"abc"), first);
        assert_eq!([first, second, empty].map(|id| lists.get(id)), [&b"abc"[..], b"ab", b""]);
        assert!(lists.get(StackId::from_index(3)).is_empty());
    }
}
