//! Mappings by start, in pieces that copies of an address space share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Mapping;
use crate::dso::RenumberedDsos;
use crate::limits;

/// Mappings of one piece at most: what a change of a copy copies.
const MOST: usize = 64;

/// What a piece and its place in a list take beside its mappings, in bytes.
const PIECE_BYTES: usize = 48;
const PLACE_BYTES: usize = 16;

/// Bytes that address spaces hold together, what several share once.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    // ATOMICS: relaxed, as it is a sum that nothing else is read by.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Mappings behind each other: one at least, by start.
#[derive(Debug)]
struct MappingChunk {
    mappings: Box<[Mapping]>,
    held: HeldBytes,
}

impl MappingChunk {
    fn new(mappings: &[Mapping], held: &HeldBytes) -> Arc<Self> {
        let piece = Self { mappings: mappings.into(), held: held.clone() };
        held.add(piece.bytes());
        Arc::new(piece)
    }

    fn bytes(&self) -> usize {
        PIECE_BYTES + size_of_val(&*self.mappings)
    }

    fn start(&self) -> u64 {
        self.mappings.first().map_or(0, |mapping| mapping.start)
    }

    fn end(&self) -> u64 {
        self.mappings.last().map_or(0, |mapping| mapping.end)
    }
}

impl Drop for MappingChunk {
    fn drop(&mut self) {
        self.held.remove(self.bytes());
    }
}

/// Mappings that don't overlap, by start. A copy shares all pieces but those that are changed.
#[derive(Debug, Default)]
pub(super) struct SharedMappings {
    pieces: Vec<Arc<MappingChunk>>,
    /// Mappings in all pieces.
    len: usize,
    held: HeldBytes,
}

impl Clone for SharedMappings {
    fn clone(&self) -> Self {
        Self::of(self.pieces.clone(), self.len, &self.held)
    }
}

impl Drop for SharedMappings {
    fn drop(&mut self) {
        self.held.remove(self.pieces.len() * PLACE_BYTES);
    }
}

impl SharedMappings {
    fn of(pieces: Vec<Arc<MappingChunk>>, len: usize, held: &HeldBytes) -> Self {
        held.add(pieces.len() * PLACE_BYTES);
        Self { pieces, len, held: held.clone() }
    }

    pub(super) fn held(&self) -> &HeldBytes {
        &self.held
    }

    pub(super) fn mappings(&self) -> impl DoubleEndedIterator<Item = &Mapping> {
        self.pieces.iter().flat_map(|piece| &piece.mappings)
    }

    /// The mapping that an address lies in.
    pub(super) fn find(&self, address: u64) -> Option<&Mapping> {
        let behind = self.pieces.partition_point(|piece| piece.start() <= address);
        let mappings = &self.pieces.get(behind.checked_sub(1)?)?.mappings;
        let behind = mappings.partition_point(|mapping| mapping.start <= address);
        mappings.get(behind.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// Whether a mapping lies in a part of this range.
    pub(super) fn has_any(&self, start: u64, end: u64) -> bool {
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        let Some(piece) = self.pieces.get(first) else { return false };
        let at = piece.mappings.partition_point(|mapping| mapping.end <= start);
        piece.mappings.get(at).is_some_and(|mapping| mapping.start < end)
    }

    /// Puts a mapping, or nothing, in place of a range. Of older ones there remains what lies outside.
    /// What would be more than [`limits::MAPPINGS`] is left out: `false`.
    pub(super) fn replace(&mut self, start: u64, end: u64, new: Option<Mapping>) -> bool {
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        let last = first + self.pieces[first..].partition_point(|piece| piece.start() < end);
        // What lies between two pieces belongs to the first one.
        let changed = if first < last {
            first..last
        } else {
            first.saturating_sub(1)..first.max(1).min(self.pieces.len())
        };
        let pieces = &self.pieces[changed.clone()];
        let mut mappings: Vec<Mapping> =
            pieces.iter().flat_map(|piece| piece.mappings.iter().copied()).collect();
        let before_len = mappings.len();
        let first = mappings.partition_point(|old| old.end <= start);
        let last = first + mappings[first..].partition_point(|old| old.start < end);
        // One that is overlapped may remain in two parts, with the new one between them.
        if self.len - (last - first) + 3 > limits::MAPPINGS {
            return false;
        }
        let overlapped = &mappings[first..last];
        let before = overlapped.first().filter(|old| old.start < start);
        let before = before.map(|old| Mapping { end: start, ..*old });
        let after = overlapped.last().filter(|old| old.end > end);
        let after = after.map(|old| Mapping { start: end, pgoff: old.to_dso(end), ..*old });
        mappings.splice(first..last, before.into_iter().chain(new).chain(after));
        self.len = self.len - before_len + mappings.len();
        // As many in each, so that there is room for more.
        let number = mappings.len().div_ceil(MOST).max(1);
        let each = mappings.len().div_ceil(number).max(1);
        let held = &self.held;
        let made = mappings.chunks(each).map(|mappings| MappingChunk::new(mappings, held));
        let places = self.pieces.len();
        self.pieces.splice(changed, made);
        held.add(self.pieces.len() * PLACE_BYTES);
        held.remove(places * PLACE_BYTES);
        true
    }
}

/// DSOs get other numbers, in all address spaces. What several share is shared afterwards.
pub(super) struct Renumbering<'a> {
    now: &'a RenumberedDsos,
    // With what they were, so that no other has their addresses meanwhile.
    lists: HashMap<*const SharedMappings, [Arc<SharedMappings>; 2]>,
    pieces: HashMap<*const MappingChunk, (Arc<MappingChunk>, Option<Arc<MappingChunk>>)>,
}

impl<'a> Renumbering<'a> {
    pub(super) fn new(now: &'a RenumberedDsos) -> Self {
        Self { now, lists: HashMap::new(), pieces: HashMap::new() }
    }

    /// Mappings with the new numbers; those of DSOs without one go.
    pub(super) fn of(&mut self, old: &Arc<SharedMappings>) -> Arc<SharedMappings> {
        if let Some([_, new]) = self.lists.get(&Arc::as_ptr(old)) {
            return Arc::clone(new);
        }
        let pieces: Vec<Arc<MappingChunk>> =
            old.pieces.iter().filter_map(|piece| self.piece(piece)).collect();
        let len = pieces.iter().map(|piece| piece.mappings.len()).sum();
        let new = Arc::new(SharedMappings::of(pieces, len, &old.held));
        self.lists.insert(Arc::as_ptr(old), [Arc::clone(old), Arc::clone(&new)]);
        new
    }

    fn piece(&mut self, old: &Arc<MappingChunk>) -> Option<Arc<MappingChunk>> {
        let renumbered =
            |mapping: &Mapping| Some(Mapping { dso: self.now.get(mapping.dso)?, ..*mapping });
        let (_, new) = self.pieces.entry(Arc::as_ptr(old)).or_insert_with(|| {
            let mappings: Vec<Mapping> = old.mappings.iter().filter_map(renumbered).collect();
            let new = (!mappings.is_empty()).then(|| MappingChunk::new(&mappings, &old.held));
            (Arc::clone(old), new)
        });
        new.clone()
    }
}
