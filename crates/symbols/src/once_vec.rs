//! A growing array. Each value is made once and never moves.

use std::sync::OnceLock;

/// Values in the first chunk; each further chunk is twice as large as the one before.
const FIRST: usize = 64;

/// Chunks that 32-bit indices need.
const CHUNKS: usize = 27;

/// Values by index. If several threads need the same value at once, one makes it and the others
/// wait. Values never move, so they can be borrowed while others are made.
///
/// ```text
/// chunk    0      1        2      ...
/// index  0..64  64..192  192..448
/// ```
#[derive(Debug)]
pub(crate) struct OnceVec<T> {
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
}

impl<T> Default for OnceVec<T> {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

impl<T> OnceVec<T> {
    /// Returns a value that was made before.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, at) = position(index);
        self.chunks[chunk].get()?[at].get()
    }

    /// Returns a value. Makes it at the first call for its index.
    pub(crate) fn get_or_init(&self, index: u32, make: impl FnOnce() -> T) -> &T {
        let (chunk, at) = position(index);
        let chunk = self.chunks[chunk]
            .get_or_init(|| (0..FIRST << chunk).map(|_| OnceLock::new()).collect());
        chunk[at].get_or_init(make)
    }

    /// Removes a value. The next call for its index makes it again.
    pub(crate) fn take(&mut self, index: u32) -> Option<T> {
        let (chunk, at) = position(index);
        self.chunks[chunk].get_mut()?[at].take()
    }

    /// Iterates over the values made so far, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let first = |chunk: usize| FIRST * ((1 << chunk) - 1);
        let chunks = self.chunks.iter().enumerate();
        chunks
            .filter_map(move |(chunk, values)| Some((first(chunk).., values.get()?)))
            .flat_map(|(indices, values)| indices.zip(values))
            .filter_map(|(index, value)| Some((u32::try_from(index).ok()?, value.get()?)))
    }

    /// Returns the values made so far, with their indices.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (u32, T)> {
        let first = |chunk: usize| FIRST * ((1 << chunk) - 1);
        (0..)
            .zip(self.chunks)
            .flat_map(move |(chunk, values)| {
                let values = values.into_inner().map_or_else(Vec::new, <[OnceLock<T>]>::into_vec);
                (first(chunk)..).zip(values)
            })
            .filter_map(|(index, value)| Some((u32::try_from(index).ok()?, value.into_inner()?)))
    }
}

/// Returns the chunk of a value, and its index there.
fn position(index: u32) -> (usize, usize) {
    let index = index as usize;
    let chunk = (index / FIRST + 1).ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other() {
        let cases = [(0, (0, 0)), (63, (0, 63)), (64, (1, 0)), (191, (1, 127)), (192, (2, 0))];
        for (index, expected) in cases {
            assert_eq!(position(index), expected);
        }
        let (chunk, at) = position(u32::MAX);
        assert!(chunk < CHUNKS && at < FIRST << chunk);
    }

    #[test]
    fn values_come_out_with_their_indices() {
        let values = OnceVec::default();
        for index in [5_u32, 500, 192] {
            values.get_or_init(index, || index * 2);
        }
        let borrowed: Vec<_> = values.iter().map(|(index, value)| (index, *value)).collect();
        assert_eq!(borrowed, [(5, 10), (192, 384), (500, 1000)]);
        assert_eq!(values.into_values().collect::<Vec<_>>(), [(5, 10), (192, 384), (500, 1000)]);
    }

    #[test]
    fn a_value_is_made_once_and_stays() {
        let values = OnceVec::default();
        let first = values.get_or_init(7, || 70);
        for index in 0..1000 {
            values.get_or_init(index, || index);
        }
        assert_eq!(
            (*first, values.get(7), values.get(8), values.get(1000)),
            (70, Some(&70), Some(&8), None)
        );
    }
}
