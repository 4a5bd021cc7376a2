//! Stores call chains, each once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;

use crate::ids::{FrameId, Id, MOST, StackId};

/// Call chains in one list of frames, with the end of each.
///
/// ```text
/// frames  a b c | a b | d b c |
/// ends          3     5       8
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
    by_hash: HashMap<u64, StackId, foldhash::fast::RandomState>,
    hasher: foldhash::fast::RandomState,
}

impl Stacks {
    /// Returns the id of a chain, which is inserted if it is new; `None` if it has no frames.
    pub(crate) fn insert(&mut self, frames: &[FrameId]) -> Option<StackId> {
        if frames.is_empty() {
            return None;
        }
        let mut hash = self.hasher.hash_one(frames);
        loop {
            let found = match self.by_hash.entry(hash) {
                Entry::Vacant(_) if self.ends.len() >= MOST => {
                    return Some(StackId::from_index(0));
                }
                Entry::Vacant(vacant) => {
                    let id = StackId::from_index(self.ends.len());
                    vacant.insert(id);
                    self.frames.extend_from_slice(frames);
                    self.ends.push(self.frames.len());
                    return Some(id);
                }
                Entry::Occupied(found) => *found.get(),
            };
            if self.get(found) == frames {
                return Some(found);
            }
            // Another chain has this hash: try the next one.
            hash = hash.wrapping_add(1);
        }
    }

    /// The frames of a chain; empty if the id is unknown.
    pub(crate) fn get(&self, id: StackId) -> &[FrameId] {
        let at = id.index();
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.frames.get(begin.unwrap_or(0)..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_chains_have_the_same_id() {
        let mut stacks = Stacks::default();
        let [a, b, c] = [0, 1, 2].map(FrameId::from_index);
        let first = stacks.insert(&[a, b, c]).unwrap();
        let second = stacks.insert(&[a, b]).unwrap();
        assert_eq!(stacks.insert(&[a, b, c]), Some(first));
        assert_eq!(stacks.insert(&[]), None);
        assert_eq!((stacks.get(first), stacks.get(second)), (&[a, b, c][..], &[a, b][..]));
        assert!(stacks.get(StackId::from_index(2)).is_empty());
    }
}
