//! Address spaces: which DSO is mapped where.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dso::{Dso, DsoId, DsoKind, DsoRenumbering, DsoTable};
use crate::limits;

/// A mapping of a part of a DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// DSO address of `start` ([`crate::DsoAddress::address`]).
    pub pgoff: u64,
    /// Mapped DSO.
    pub dso: DsoId,
    /// Whether the memory may be executed.
    pub is_code: bool,
}

impl Mapping {
    /// Converts an address in this mapping to a DSO address.
    #[must_use]
    pub fn to_dso(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.pgoff)
    }
}

/// An address space: mappings that don't overlap. A copy shares the memory of its mappings, except
/// near its changes. Mappings beyond [`limits::MAPPINGS`] are dropped.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    chunks: Arc<SharedMappings>,
    /// See [`AddressSpaces::user_version`].
    version: u64,
}

impl AddressSpace {
    /// Adds a mapping, unless it is empty, and cuts the ones that it overlaps. Returns `false` and
    /// changes nothing if there are too many.
    pub fn add(&mut self, mapping: Mapping) -> bool {
        mapping.end <= mapping.start
            || Arc::make_mut(&mut self.chunks).replace(mapping.start, mapping.end, Some(mapping))
    }

    /// Removes mappings in this range, and cuts the ones that overlap it.
    pub fn remove(&mut self, start: u64, end: u64) {
        if end > start && self.chunks.has_any(start, end) {
            Arc::make_mut(&mut self.chunks).replace(start, end, None);
        }
    }

    /// Finds the mapping at an address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        self.chunks.find(address)
    }

    /// Iterates over all mappings in address order.
    pub fn mappings(&self) -> impl DoubleEndedIterator<Item = &Mapping> {
        self.chunks.mappings()
    }

    /// Returns a range as code of the DSO whose mappings end before it and begin behind it, if
    /// their offsets continue.
    fn text_between(&self, start: u64, end: u64) -> Option<Mapping> {
        let before = self.find(start.checked_sub(1)?).filter(|_| start < end)?;
        let behind = self.find(end)?;
        let continues = before.dso == behind.dso && before.to_dso(end) == behind.to_dso(end);
        let pgoff = before.to_dso(start);
        continues.then_some(Mapping { start, end, pgoff, dso: before.dso, is_code: true })
    }

    /// Returns the start of the run of adjacent mappings of this kind that ends at a mapping.
    fn run_start(&self, last: &Mapping, is_of_kind: impl Fn(&Mapping) -> bool) -> u64 {
        let mut start = last.start;
        for _ in 0..TEXT_PIECES {
            let before = start.checked_sub(1).and_then(|at| self.find(at));
            let Some(before) = before.filter(|map| is_of_kind(map)) else { break };
            start = before.start;
        }
        start
    }
}

/// Limit on the pieces of a file's text that the mapping behind them names.
const TEXT_PIECES: usize = 64;

/// Whether a DSO is memory without a file on a disk.
fn is_memory(dso: &Dso) -> bool {
    match dso.kind {
        DsoKind::Anonymous | DsoKind::PerfMap { .. } => true,
        DsoKind::Elf => dso.name.starts_with(b"/memfd:"),
        _ => false,
    }
}

/// The address spaces of all processes, and the kernel's.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    /// Address space of the kernel, which all processes share.
    kernel: AddressSpace,
    by_pid: HashMap<i32, AddressSpace, foldhash::fast::RandomState>,
    /// Address space of an unknown process. Those of all processes are copies of it, so it counts
    /// the bytes of them all.
    empty: AddressSpace,
    /// Mappings of processes added or dropped, each from a record.
    added: usize,
    /// Mappings dropped, of processes and of the kernel.
    left_out: u64,
    /// Last version given to an address space.
    versions: u64,
}

impl AddressSpaces {
    /// Adds a mapping to a process. Drops it if the process has too many, or if all mappings
    /// already take the memory that their number of records allows: see [`limits::MAPPING_BYTES`].
    pub fn add(&mut self, pid: i32, mapping: Mapping) {
        self.added += 1;
        let has_room = self.held_bytes() < self.allowed_bytes();
        let space = self.by_pid.entry(pid).or_insert_with(|| self.empty.clone());
        self.left_out += u64::from(!(has_room && space.add(mapping)));
        self.versions += 1;
        space.version = self.versions;
    }

    /// Adds a mapping like [`Self::add`], and names text on huge pages by its file. A program moves
    /// its text to huge pages by replacing the middle of it with a copy in memory without a file
    /// (`node --use-largepages=on`). Such memory fills the hole between two mappings of the file,
    /// whose offsets continue behind it.
    pub fn add_with_text(&mut self, pid: i32, mapping: Mapping, dsos: &DsoTable) {
        let has_memory = |map: &Mapping| map.is_code && dsos.get(map.dso).is_some_and(is_memory);
        let text = |map: &Mapping| self.space(pid)?.text_between(map.start, map.end);
        let text = Some(&mapping).filter(|map| has_memory(map)).and_then(text);
        self.add(pid, text.filter(|text| !has_memory(text)).unwrap_or(mapping));
        // A list of mappings in address order has the file's second part last.
        if !has_memory(&mapping)
            && let Some(start) = self.space(pid).map(|space| space.run_start(&mapping, has_memory))
            && let Some(text) = self.space(pid).and_then(|s| s.text_between(start, mapping.start))
            && text.dso == mapping.dso
        {
            self.add(pid, text);
        }
    }

    /// Bytes of the mappings of all processes; shared ones count once.
    fn held_bytes(&self) -> usize {
        self.empty.chunks.held().bytes()
    }

    fn allowed_bytes(&self) -> usize {
        let record_bytes = self.added.saturating_mul(limits::MAPPING_RECORD_BYTES);
        record_bytes.saturating_add(limits::MAPPING_BYTES).min(limits::ALL_MAPPING_BYTES)
    }

    /// Number of mappings that were dropped, as there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Gives a process's address space a new version, because the code at its addresses changed
    /// without a mapping.
    pub fn renew(&mut self, pid: i32) {
        self.versions += 1;
        self.by_pid.entry(pid).or_insert_with(|| self.empty.clone()).version = self.versions;
    }

    /// Adds a mapping to the kernel.
    pub fn add_kernel(&mut self, mapping: Mapping) {
        self.left_out += u64::from(!self.kernel.add(mapping));
        self.versions += 1;
        self.kernel.version = self.versions;
    }

    /// Removes mappings in this range of the kernel.
    pub fn remove_kernel(&mut self, start: u64, end: u64) {
        self.kernel.remove(start, end);
        self.versions += 1;
        self.kernel.version = self.versions;
    }

    /// Version of a process's address space. Equal versions mean equal mappings, in another process
    /// too. Version 0 is that of a process without recorded changes.
    #[must_use]
    pub fn user_version(&self, pid: i32) -> u64 {
        self.space(pid).map_or(0, |space| space.version)
    }

    /// Version of the kernel's address space. It is 0 before the first change, and then differs
    /// from the versions of all processes.
    #[must_use]
    pub fn kernel_version(&self) -> u64 {
        self.kernel.version
    }

    /// Copies the address space of a process to its child.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent != child {
            let space = self.by_pid.get(&parent).unwrap_or(&self.empty).clone();
            self.by_pid.insert(child, space);
        }
    }

    /// Forgets a process.
    pub fn remove(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }

    /// Calls `visit` at least once for each mapped DSO.
    pub fn each_dso(&self, mut visit: impl FnMut(DsoId)) {
        let all = self.by_pid.values().chain([&self.kernel]);
        all.flat_map(AddressSpace::mappings).for_each(|mapping| visit(mapping.dso));
    }

    /// Changes the numbers of DSOs, and removes mappings of DSOs without a new one.
    pub fn renumber(&mut self, now: &DsoRenumbering) {
        let mut renumbering = Renumbering::new(now);
        for space in self.by_pid.values_mut().chain([&mut self.kernel]) {
            space.chunks = renumbering.renumber(&space.chunks);
        }
    }

    /// Returns the address space of a process.
    #[must_use]
    pub fn space(&self, pid: i32) -> Option<&AddressSpace> {
        self.by_pid.get(&pid)
    }

    /// Finds the mapping at an address of a process.
    #[must_use]
    pub fn find_user(&self, pid: i32, address: u64) -> Option<&Mapping> {
        self.by_pid.get(&pid)?.find(address)
    }

    /// Finds the mapping at an address of the kernel.
    #[must_use]
    pub fn find_kernel(&self, address: u64) -> Option<&Mapping> {
        self.kernel.find(address)
    }
}

/// Limit on the mappings of a chunk: a change to a copy copies the chunks that it touches.
const MAX_CHUNK_MAPPINGS: usize = 64;

/// Bytes of a chunk in addition to its mappings.
const CHUNK_BYTES: usize = 48;
/// Bytes counted for a reference to a chunk, with spare capacity of the list.
const REFERENCE_BYTES: usize = 16;

/// Bytes of several address spaces together; shared chunks count once.
#[derive(Clone, Debug, Default)]
struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    // ATOMICS: relaxed; the sum orders no other access.
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A run of mappings in address order, at least one.
#[derive(Debug)]
struct MappingChunk {
    mappings: Box<[Mapping]>,
    held: HeldBytes,
}

impl MappingChunk {
    fn new(mappings: &[Mapping], held: &HeldBytes) -> Arc<Self> {
        let chunk = Self { mappings: mappings.into(), held: held.clone() };
        held.add(chunk.bytes());
        Arc::new(chunk)
    }

    fn bytes(&self) -> usize {
        CHUNK_BYTES + size_of_val(&*self.mappings)
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

/// Mappings that don't overlap, in address order. Copies share all chunks that neither changes.
#[derive(Debug, Default)]
struct SharedMappings {
    chunks: Vec<Arc<MappingChunk>>,
    /// Mappings in all chunks.
    len: usize,
    held: HeldBytes,
}

impl Clone for SharedMappings {
    fn clone(&self) -> Self {
        Self::new(self.chunks.clone(), self.len, &self.held)
    }
}

impl Drop for SharedMappings {
    fn drop(&mut self) {
        self.held.remove(self.chunks.len() * REFERENCE_BYTES);
    }
}

impl SharedMappings {
    fn new(chunks: Vec<Arc<MappingChunk>>, len: usize, held: &HeldBytes) -> Self {
        held.add(chunks.len() * REFERENCE_BYTES);
        Self { chunks, len, held: held.clone() }
    }

    fn held(&self) -> &HeldBytes {
        &self.held
    }

    fn mappings(&self) -> impl DoubleEndedIterator<Item = &Mapping> {
        self.chunks.iter().flat_map(|chunk| &chunk.mappings)
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        let behind = self.chunks.partition_point(|chunk| chunk.start() <= address);
        let mappings = &self.chunks.get(behind.checked_sub(1)?)?.mappings;
        let behind = mappings.partition_point(|mapping| mapping.start <= address);
        mappings.get(behind.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// Whether a mapping overlaps this range.
    fn has_any(&self, start: u64, end: u64) -> bool {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= start);
        let Some(chunk) = self.chunks.get(first) else { return false };
        let at = chunk.mappings.partition_point(|mapping| mapping.end <= start);
        chunk.mappings.get(at).is_some_and(|mapping| mapping.start < end)
    }

    /// Replaces a range by a mapping or by nothing, and cuts mappings that overlap it. Returns
    /// `false` and changes nothing if there could be more than [`limits::MAPPINGS`] then.
    fn replace(&mut self, start: u64, end: u64, new: Option<Mapping>) -> bool {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= start);
        let last = first + self.chunks[first..].partition_point(|chunk| chunk.start() < end);
        // A range that overlaps no chunk joins the chunk before it, or else the first chunk.
        let changed = if first < last {
            first..last
        } else {
            first.saturating_sub(1)..first.max(1).min(self.chunks.len())
        };
        let chunks = &self.chunks[changed.clone()];
        let mut mappings: Vec<Mapping> =
            chunks.iter().flat_map(|chunk| chunk.mappings.iter().copied()).collect();
        let before_len = mappings.len();
        let first = mappings.partition_point(|old| old.end <= start);
        let last = first + mappings[first..].partition_point(|old| old.start < end);
        // An overlapped mapping can remain as two parts around the new one.
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
        // Chunks of about equal size.
        let number = mappings.len().div_ceil(MAX_CHUNK_MAPPINGS).max(1);
        let each = mappings.len().div_ceil(number).max(1);
        let held = &self.held;
        let made = mappings.chunks(each).map(|mappings| MappingChunk::new(mappings, held));
        let places = self.chunks.len();
        self.chunks.splice(changed, made);
        held.add(self.chunks.len() * REFERENCE_BYTES);
        held.remove(places * REFERENCE_BYTES);
        true
    }
}

/// Changes the numbers of DSOs in all address spaces, and keeps chunks shared.
struct Renumbering<'a> {
    now: &'a DsoRenumbering,
    // With the old lists and chunks: while these exist, no other can have their address.
    lists: HashMap<*const SharedMappings, [Arc<SharedMappings>; 2]>,
    chunks: HashMap<*const MappingChunk, (Arc<MappingChunk>, Option<Arc<MappingChunk>>)>,
}

impl<'a> Renumbering<'a> {
    fn new(now: &'a DsoRenumbering) -> Self {
        Self { now, lists: HashMap::new(), chunks: HashMap::new() }
    }

    /// Returns the mappings with new numbers, without the DSOs that have none.
    fn renumber(&mut self, old: &Arc<SharedMappings>) -> Arc<SharedMappings> {
        if let Some([_, new]) = self.lists.get(&Arc::as_ptr(old)) {
            return Arc::clone(new);
        }
        let chunks: Vec<Arc<MappingChunk>> =
            old.chunks.iter().filter_map(|chunk| self.renumber_chunk(chunk)).collect();
        let len = chunks.iter().map(|chunk| chunk.mappings.len()).sum();
        let new = Arc::new(SharedMappings::new(chunks, len, &old.held));
        self.lists.insert(Arc::as_ptr(old), [Arc::clone(old), Arc::clone(&new)]);
        new
    }

    fn renumber_chunk(&mut self, old: &Arc<MappingChunk>) -> Option<Arc<MappingChunk>> {
        let renumbered =
            |mapping: &Mapping| Some(Mapping { dso: self.now.get(mapping.dso)?, ..*mapping });
        let (_, new) = self.chunks.entry(Arc::as_ptr(old)).or_insert_with(|| {
            let mappings: Vec<Mapping> = old.mappings.iter().filter_map(renumbered).collect();
            let new = (!mappings.is_empty()).then(|| MappingChunk::new(&mappings, &old.held));
            (Arc::clone(old), new)
        });
        new.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64, pgoff: u64, dso: u32) -> Mapping {
        Mapping { start, end, pgoff, dso: DsoId::from_index(dso), is_code: true }
    }

    fn all(space: &AddressSpace) -> Vec<Mapping> {
        space.mappings().copied().collect()
    }

    #[test]
    fn a_later_mapping_cuts_what_it_overlaps() {
        let mut space = AddressSpace::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.add(map(0x2000, 0x3000, 0x100, 2));
        assert_eq!(
            all(&space),
            [
                map(0x1000, 0x2000, 0, 1),
                map(0x2000, 0x3000, 0x100, 2),
                map(0x3000, 0x5000, 0x2000, 1)
            ]
        );
        space.add(map(0x0, 0x4000, 0, 3));
        assert_eq!(all(&space), [map(0, 0x4000, 0, 3), map(0x4000, 0x5000, 0x3000, 1)]);
        assert_eq!(space.find(0x3fff).map(|mapping| mapping.dso), Some(DsoId::from_index(3)));
        assert_eq!((space.find(0x5000), AddressSpace::default().find(1)), (None, None));
        assert_eq!(space.find(0x4010).map(|mapping| mapping.to_dso(0x4010)), Some(0x3010));
    }

    #[test]
    fn removing_a_range_keeps_the_rest() {
        let mut space = AddressSpace::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.remove(0x2000, 0x3000);
        assert_eq!(all(&space), [map(0x1000, 0x2000, 0, 1), map(0x3000, 0x5000, 0x2000, 1)]);
    }

    #[test]
    fn bounds_nested_mappings() {
        let mut space = AddressSpace::default();
        space.add(map(0, u64::MAX, 0, 1));
        for at in 0..limits::MAPPINGS as u64 {
            space.add(map(at * 16 + 8, at * 16 + 12, 0, 2));
        }
        let number = space.mappings().count();
        assert!(number <= limits::MAPPINGS, "{number}");
    }

    #[test]
    fn bounds_copies_of_many_mappings() {
        let mut spaces = AddressSpaces::default();
        for at in 0..100_000 {
            spaces.add(1, map(at * 0x1000, at * 0x1000 + 1, 0, 1));
        }
        let before = spaces.held_bytes();
        for child in 2..10_000 {
            spaces.fork(1, child);
            spaces.add(child, map(5, 6, 0, 2));
            assert!(spaces.held_bytes() <= spaces.allowed_bytes() + (1 << 16));
        }
        assert!(spaces.find_user(9_999, 0x1000).is_some(), "the parent's are shared");
        assert!(spaces.left_out() > 0, "there are too many");
        (2..10_000).for_each(|pid| spaces.remove(pid));
        assert_eq!(spaces.held_bytes(), before);
        spaces.remove(1);
        assert_eq!(spaces.held_bytes(), 0);
    }

    /// A process with many mappings forks workers, and each adds a mapping.
    #[test]
    fn copies_share_what_they_do_not_change() {
        let mut spaces = AddressSpaces::default();
        for at in 0..2_000 {
            spaces.add(1, map(at * 0x1000, at * 0x1000 + 1, 0, 1));
        }
        let one = spaces.held_bytes();
        let workers = 1_000;
        for child in 2..2 + workers {
            spaces.fork(1, child);
            spaces.add(child, map(5, 6, 0, 2));
        }
        let each = (spaces.held_bytes() - one) / usize::try_from(workers).unwrap();
        assert!(each < one / 10, "{each} bytes for each worker, {one} for their parent");
        assert_eq!(spaces.left_out(), 0);
    }

    /// Adds and removes mappings at random places.
    #[test]
    fn chunks_behave_like_a_plain_list() {
        let mut space = AddressSpace::default();
        let mut plain = vec![0; 4096];
        let mut number = 1_u64;
        for dso in 1..3_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let start = number >> 33 & 0xfff;
            let len = 1 + (number >> 50 & 0xf);
            let end = (start + len).min(4096);
            if dso % 5 == 0 {
                space.remove(start, end);
            } else {
                space.add(map(start, end, 0, dso));
            }
            let place = |at| usize::try_from(at).unwrap();
            plain[place(start)..place(end)].fill(if dso % 5 == 0 { 0 } else { dso });
        }
        let found = |at: u64| space.find(at).map_or(0, |mapping| mapping.dso.index());
        let spaces: Vec<_> = (0..4096).map(found).collect();
        assert!(plain.iter().zip(&spaces).all(|(dso, found)| *dso as usize == *found));
        assert!(space.mappings().is_sorted_by(|one, next| one.end <= next.start));
    }

    #[test]
    fn a_child_starts_with_its_parents_mappings() {
        let mut spaces = AddressSpaces::default();
        spaces.add(1, map(0x1000, 0x2000, 0, 1));
        spaces.fork(1, 2);
        spaces.add(1, map(0x3000, 0x4000, 0, 2));
        assert!(spaces.find_user(2, 0x1000).is_some() && spaces.find_user(2, 0x3000).is_none());
        spaces.remove(2);
        assert!(spaces.find_user(2, 0x1000).is_none() && spaces.find_user(1, 0x1000).is_some());
    }

    /// Adds these mappings of a program (`p`), of anonymous memory (`m`) and of a memory file (`f`),
    /// each with start, end and offset in pages, and returns the DSO and the offset of page 2.
    fn text_at_page_2(added: &[(char, u64, u64, u64)]) -> (char, u64) {
        let mut dsos = DsoTable::default();
        let mut intern = |kind, name: &str| {
            dsos.intern(Dso { kind, name: name.into(), build_id: None }).unwrap()
        };
        let ids = [
            ('p', intern(DsoKind::Elf, "/usr/bin/node")),
            ('m', intern(DsoKind::PerfMap { pid: 1 }, "/tmp/perf-1.map")),
            ('f', intern(DsoKind::Elf, "/memfd:text (deleted)")),
        ];
        let mut spaces = AddressSpaces::default();
        for (name, start, end, pgoff) in added {
            let dso = ids.iter().find(|(id, _)| id == name).unwrap().1;
            let [start, end, pgoff] = [start, end, pgoff].map(|pages| pages << 12);
            spaces.add_with_text(1, Mapping { start, end, pgoff, dso, is_code: true }, &dsos);
        }
        let found = spaces.find_user(1, 0x2000).unwrap();
        (ids.iter().find(|(_, dso)| *dso == found.dso).unwrap().0, found.to_dso(0x2000) >> 12)
    }

    #[test]
    fn memory_in_the_hole_of_a_files_text_is_the_file() {
        let whole = ('p', 1, 5, 11);
        assert_eq!(text_at_page_2(&[whole, ('m', 2, 3, 2)]), ('p', 12));
        assert_eq!(text_at_page_2(&[whole, ('f', 2, 4, 0)]), ('p', 12));
        assert_eq!(text_at_page_2(&[whole, ('m', 3, 4, 3), ('f', 2, 3, 0)]), ('p', 12));
        let listed = [('p', 1, 2, 11), ('m', 2, 3, 2), ('f', 3, 4, 0), ('p', 4, 5, 14)];
        assert_eq!(text_at_page_2(&listed), ('p', 12));
        let moved = [('p', 1, 2, 11), ('m', 2, 4, 2), ('p', 4, 5, 15)];
        assert_eq!(text_at_page_2(&moved), ('m', 2), "other offsets");
        assert_eq!(text_at_page_2(&[whole, ('m', 2, 5, 2)]), ('m', 2), "nothing behind it");
        assert_eq!(text_at_page_2(&[whole, ('m', 1, 3, 1)]), ('m', 2), "nothing before it");
        let apart = [('p', 0, 1, 10), ('m', 2, 4, 2), ('p', 4, 5, 14)];
        assert_eq!(text_at_page_2(&apart), ('m', 2), "a gap");
    }

    #[test]
    fn ignores_impossible_mappings() {
        let mut space = AddressSpace::default();
        space.add(map(5, 5, 0, 1));
        space.add(map(u64::MAX, 0, 0, 1));
        space.add(map(0, u64::MAX, u64::MAX, 1));
        assert_eq!(space.find(7).map(|mapping| mapping.to_dso(7)), Some(6));
    }

    #[test]
    fn equal_versions_mean_equal_mappings() {
        let mut spaces = AddressSpaces::default();
        assert_eq!((spaces.user_version(1), spaces.kernel_version()), (0, 0));
        spaces.add(1, map(0x1000, 0x2000, 0, 1));
        let first = spaces.user_version(1);
        spaces.fork(1, 2);
        assert_eq!(spaces.user_version(2), first);
        spaces.add(2, map(0x3000, 0x4000, 0, 1));
        spaces.add_kernel(map(0x9000, 0xa000, 0, 2));
        let versions = [first, spaces.user_version(2), spaces.kernel_version(), 0];
        assert_eq!(spaces.user_version(1), first);
        let mut distinct = versions.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), versions.len(), "{versions:?}");
    }
}
