//! Address spaces: which DSO is mapped where, as time goes on.

mod pieces;

use std::collections::HashMap;
use std::sync::Arc;

use self::pieces::{Renumbering, SharedMappings};
use crate::dso::{DsoId, RenumberedDsos};
use crate::limits;

/// A part of a DSO in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// What the DSO calls `start`: an offset in the file; for the kernel an address.
    pub pgoff: u64,
    /// What is mapped.
    pub dso: DsoId,
}

impl Mapping {
    /// What the DSO calls `address`, which lies in this mapping.
    #[must_use]
    pub fn to_dso(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.pgoff)
    }
}

/// An address space: mappings that don't overlap. A copy shares its mappings, and of what is changed
/// then the rest. What would be more than [`limits::MAPPINGS`] is left out.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    pieces: Arc<SharedMappings>,
    /// See [`AddressSpaces::user_version`].
    version: u64,
}

impl AddressSpace {
    /// Adds a mapping. Of older ones there remains what lies outside of it. `false`: there are too
    /// many.
    pub fn add(&mut self, mapping: Mapping) -> bool {
        mapping.end <= mapping.start
            || Arc::make_mut(&mut self.pieces).replace(mapping.start, mapping.end, Some(mapping))
    }

    /// Removes what lies in this range; what lies outside of it remains.
    pub fn remove(&mut self, start: u64, end: u64) {
        if end > start && self.pieces.has_any(start, end) {
            Arc::make_mut(&mut self.pieces).replace(start, end, None);
        }
    }

    /// The mapping that an address lies in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        self.pieces.find(address)
    }

    /// All mappings, by start.
    pub fn mappings(&self) -> impl DoubleEndedIterator<Item = &Mapping> {
        self.pieces.mappings()
    }
}

/// The address spaces of all processes, and the kernel's.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    /// The kernel's own, which all processes share.
    kernel: AddressSpace,
    by_pid: HashMap<i32, AddressSpace, foldhash::fast::RandomState>,
    /// Of a process of which nothing is known. Its copies count what all processes hold.
    empty: AddressSpace,
    /// Mappings that were added, each of which stands for a record that was read.
    added: usize,
    /// Of them, those that were left out.
    left_out: u64,
    /// The last version that was given.
    versions: u64,
}

impl AddressSpaces {
    /// Adds a mapping to a process. What would be more than records of so many mappings make out is
    /// left out: see [`limits::MAPPING_BYTES`].
    pub fn add(&mut self, pid: i32, mapping: Mapping) {
        self.added += 1;
        let has_room = self.held_bytes() < self.allowed_bytes();
        let space = self.by_pid.entry(pid).or_insert_with(|| self.empty.clone());
        self.left_out += u64::from(!(has_room && space.add(mapping)));
        self.versions += 1;
        space.version = self.versions;
    }

    /// Bytes of the mappings of all processes, those that several share once.
    fn held_bytes(&self) -> usize {
        self.empty.pieces.held().bytes()
    }

    fn allowed_bytes(&self) -> usize {
        let of_records = self.added.saturating_mul(limits::MAPPING_RECORD_BYTES);
        of_records.saturating_add(limits::MAPPING_BYTES).min(limits::ALL_MAPPING_BYTES)
    }

    /// Mappings that were left out, as there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Gives a process's address space another version: what lies at its addresses has changed
    /// otherwise than by mappings.
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

    /// Removes what lies in this range of the kernel.
    pub fn remove_kernel(&mut self, start: u64, end: u64) {
        self.kernel.remove(start, end);
        self.versions += 1;
        self.kernel.version = self.versions;
    }

    /// The version of a process's address space: while it is the same, so are the mappings, also
    /// in another process. An empty one has version 0.
    #[must_use]
    pub fn user_version(&self, pid: i32) -> u64 {
        self.of(pid).map_or(0, |space| space.version)
    }

    /// The version of the kernel's address space, which no process's has.
    #[must_use]
    pub fn kernel_version(&self) -> u64 {
        self.kernel.version
    }

    /// A process began as a copy of another.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent != child {
            let space = self.by_pid.get(&parent).unwrap_or(&self.empty).clone();
            self.by_pid.insert(child, space);
        }
    }

    /// A process is forgotten.
    pub fn remove(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }

    /// Calls `see` for each DSO that is mapped anywhere, once or more.
    pub fn each_dso(&self, mut see: impl FnMut(DsoId)) {
        let all = self.by_pid.values().chain([&self.kernel]);
        all.flat_map(AddressSpace::mappings).for_each(|mapping| see(mapping.dso));
    }

    /// DSOs have other numbers. Mappings of those without one go.
    pub fn renumber(&mut self, now: &RenumberedDsos) {
        let mut renumbering = Renumbering::new(now);
        for space in self.by_pid.values_mut().chain([&mut self.kernel]) {
            space.pieces = renumbering.of(&space.pieces);
        }
    }

    /// The address space of a process.
    #[must_use]
    pub fn of(&self, pid: i32) -> Option<&AddressSpace> {
        self.by_pid.get(&pid)
    }

    /// The mapping of a process that an address lies in.
    #[must_use]
    pub fn find_user(&self, pid: i32, address: u64) -> Option<&Mapping> {
        self.by_pid.get(&pid)?.find(address)
    }

    /// The mapping of the kernel that an address lies in.
    #[must_use]
    pub fn find_kernel(&self, address: u64) -> Option<&Mapping> {
        self.kernel.find(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64, pgoff: u64, dso: u32) -> Mapping {
        Mapping { start, end, pgoff, dso: DsoId::from_index(dso) }
    }

    fn all(space: &AddressSpace) -> Vec<Mapping> {
        space.mappings().copied().collect()
    }

    #[test]
    fn a_later_mapping_replaces_what_it_overlaps() {
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
    fn removing_leaves_what_is_outside() {
        let mut space = AddressSpace::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.remove(0x2000, 0x3000);
        assert_eq!(all(&space), [map(0x1000, 0x2000, 0, 1), map(0x3000, 0x5000, 0x2000, 1)]);
    }

    #[test]
    fn mappings_within_each_other_are_bounded_too() {
        let mut space = AddressSpace::default();
        space.add(map(0, u64::MAX, 0, 1));
        for at in 0..limits::MAPPINGS as u64 {
            space.add(map(at * 16 + 8, at * 16 + 12, 0, 2));
        }
        let number = space.mappings().count();
        assert!(number <= limits::MAPPINGS, "{number}");
    }

    #[test]
    fn copies_of_many_mappings_are_bounded() {
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

    /// A process of many mappings that forks workers, each of which maps something itself.
    #[test]
    fn what_a_copy_does_not_change_is_shared() {
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

    /// Mappings in any order, within and across pieces, are those of a plain list.
    #[test]
    fn pieces_are_as_a_plain_list() {
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
    fn a_child_has_its_parents_mappings_and_then_its_own() {
        let mut spaces = AddressSpaces::default();
        spaces.add(1, map(0x1000, 0x2000, 0, 1));
        spaces.fork(1, 2);
        spaces.add(1, map(0x3000, 0x4000, 0, 2));
        assert!(spaces.find_user(2, 0x1000).is_some() && spaces.find_user(2, 0x3000).is_none());
        spaces.remove(2);
        assert!(spaces.find_user(2, 0x1000).is_none() && spaces.find_user(1, 0x1000).is_some());
    }

    #[test]
    fn impossible_mappings_are_left_out() {
        let mut space = AddressSpace::default();
        space.add(map(5, 5, 0, 1));
        space.add(map(u64::MAX, 0, 0, 1));
        space.add(map(0, u64::MAX, u64::MAX, 1));
        assert_eq!(space.find(7).map(|mapping| mapping.to_dso(7)), Some(6));
    }

    #[test]
    fn a_version_is_that_of_equal_mappings_alone() {
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
