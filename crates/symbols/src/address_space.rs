//! Address spaces: which DSO is mapped where, as time goes on.

use std::collections::HashMap;
use std::sync::Arc;

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

/// An address space: mappings that don't overlap. A copy shares its mappings until one of both
/// changes. What would be more than [`limits::MAPPINGS`] is left out.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// By start.
    mappings: Arc<Vec<Mapping>>,
    /// See [`AddressSpaces::user_version`].
    version: u64,
}

impl AddressSpace {
    /// Adds a mapping. Of older ones there remains what lies outside of it.
    pub fn add(&mut self, mapping: Mapping) {
        if mapping.end > mapping.start {
            self.replace(mapping.start, mapping.end, Some(mapping));
        }
    }

    fn replace(&mut self, start: u64, end: u64, new: Option<Mapping>) {
        let mappings = Arc::make_mut(&mut self.mappings);
        let first = mappings.partition_point(|old| old.end <= start);
        let last = first + mappings[first..].partition_point(|old| old.start < end);
        // One that is overlapped may remain in two parts, with the new one between them.
        if mappings.len() - (last - first) + 3 > limits::MAPPINGS {
            return;
        }
        let overlapped = &mappings[first..last];
        let before = overlapped.first().filter(|old| old.start < start);
        let before = before.map(|old| Mapping { end: start, ..*old });
        let after = overlapped.last().filter(|old| old.end > end);
        let after = after.map(|old| Mapping { start: end, pgoff: old.to_dso(end), ..*old });
        mappings.splice(first..last, before.into_iter().chain(new).chain(after));
    }

    /// How many mappings no other address space shares.
    fn own_mappings(&self) -> usize {
        if Arc::strong_count(&self.mappings) == 1 { self.mappings.len() } else { 0 }
    }

    /// Removes what lies in this range; what lies outside of it remains.
    pub fn remove(&mut self, start: u64, end: u64) {
        if end > start && self.mappings.iter().any(|old| old.start < end && start < old.end) {
            self.replace(start, end, None);
        }
    }

    /// The mapping that an address lies in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let behind = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings.get(behind.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// All mappings, by start.
    #[must_use]
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }
}

/// The address spaces of all processes, and the kernel's.
#[derive(Clone, Debug, Default)]
pub struct AddressSpaces {
    /// The kernel's own, which all processes share.
    kernel: AddressSpace,
    by_pid: HashMap<i32, AddressSpace, foldhash::fast::RandomState>,
    /// Mappings of all processes, those that several share once.
    held: usize,
    /// The last version that was given.
    versions: u64,
}

impl AddressSpaces {
    /// Adds a mapping to a process. What would be more than [`limits::ALL_MAPPINGS`] is left out.
    pub fn add(&mut self, pid: i32, mapping: Mapping) {
        let space = self.by_pid.entry(pid).or_default();
        let own = space.own_mappings();
        let copied = if own == 0 { space.mappings().len() } else { 0 };
        if self.held + copied < limits::ALL_MAPPINGS {
            space.add(mapping);
            self.held = (self.held - own) + space.own_mappings();
        }
        self.versions += 1;
        space.version = self.versions;
    }

    /// Gives a process's address space another version: what lies at its addresses has changed
    /// otherwise than by mappings.
    pub fn renew(&mut self, pid: i32) {
        self.versions += 1;
        self.by_pid.entry(pid).or_default().version = self.versions;
    }

    /// Adds a mapping to the kernel.
    pub fn add_kernel(&mut self, mapping: Mapping) {
        self.kernel.add(mapping);
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
            let space = self.by_pid.get(&parent).cloned().unwrap_or_default();
            self.remove(child);
            self.by_pid.insert(child, space);
        }
    }

    /// A process is forgotten.
    pub fn remove(&mut self, pid: i32) {
        let space = self.by_pid.remove(&pid);
        self.held -= space.map_or(0, |space| space.own_mappings());
    }

    /// Calls `see` for each DSO that is mapped anywhere, once or more.
    pub fn each_dso(&self, mut see: impl FnMut(DsoId)) {
        let all = self.by_pid.values().chain([&self.kernel]);
        all.flat_map(AddressSpace::mappings).for_each(|mapping| see(mapping.dso));
    }

    /// DSOs have other numbers. Mappings of those without one go.
    pub fn renumber(&mut self, now: &RenumberedDsos) {
        let mut shared: HashMap<*const Vec<Mapping>, Arc<Vec<Mapping>>> = HashMap::new();
        let mut old = Vec::new();
        for space in self.by_pid.values_mut().chain([&mut self.kernel]) {
            let renumbered =
                |mapping: &Mapping| Some(Mapping { dso: now.get(mapping.dso)?, ..*mapping });
            let mappings = shared.entry(Arc::as_ptr(&space.mappings)).or_insert_with(|| {
                Arc::new(space.mappings.iter().filter_map(renumbered).collect())
            });
            // They live until all are renumbered: no other has their addresses.
            old.push(std::mem::replace(&mut space.mappings, Arc::clone(mappings)));
        }
        drop((shared, old));
        self.held = self.by_pid.values().map(AddressSpace::own_mappings).sum();
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

    #[test]
    fn a_later_mapping_replaces_what_it_overlaps() {
        let mut space = AddressSpace::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.add(map(0x2000, 0x3000, 0x100, 2));
        assert_eq!(
            space.mappings(),
            [
                map(0x1000, 0x2000, 0, 1),
                map(0x2000, 0x3000, 0x100, 2),
                map(0x3000, 0x5000, 0x2000, 1)
            ]
        );
        space.add(map(0x0, 0x4000, 0, 3));
        assert_eq!(space.mappings(), [map(0, 0x4000, 0, 3), map(0x4000, 0x5000, 0x3000, 1)]);
        assert_eq!(space.find(0x3fff).map(|mapping| mapping.dso), Some(DsoId::from_index(3)));
        assert_eq!((space.find(0x5000), AddressSpace::default().find(1)), (None, None));
        assert_eq!(space.find(0x4010).map(|mapping| mapping.to_dso(0x4010)), Some(0x3010));
    }

    #[test]
    fn removing_leaves_what_is_outside() {
        let mut space = AddressSpace::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.remove(0x2000, 0x3000);
        assert_eq!(space.mappings(), [map(0x1000, 0x2000, 0, 1), map(0x3000, 0x5000, 0x2000, 1)]);
    }

    #[test]
    fn mappings_within_each_other_are_bounded_too() {
        let mut space = AddressSpace::default();
        space.add(map(0, u64::MAX, 0, 1));
        for at in 0..limits::MAPPINGS as u64 {
            space.add(map(at * 16 + 8, at * 16 + 12, 0, 2));
        }
        assert!(space.mappings().len() <= limits::MAPPINGS, "{}", space.mappings().len());
    }

    #[test]
    fn copies_of_many_mappings_are_bounded() {
        let mut spaces = AddressSpaces::default();
        for at in 0..100_000 {
            spaces.add(1, map(at * 0x1000, at * 0x1000 + 1, 0, 1));
        }
        for child in 2..1000 {
            spaces.fork(1, child);
            spaces.add(child, map(5, 6, 0, 2));
        }
        assert!(spaces.held <= limits::ALL_MAPPINGS, "{}", spaces.held);
        assert!(spaces.find_user(999, 0x1000).is_some(), "the parent's are shared");
        (1..1000).for_each(|pid| spaces.remove(pid));
        assert_eq!(spaces.held, 0);
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
