//! What lies where in a process, as time goes on.

use std::collections::HashMap;
use std::sync::Arc;

use crate::files::FileId;
use crate::limits;

/// A piece of a file in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// What the file calls `start`: bytes from its front; for the kernel an address.
    pub pgoff: u64,
    /// The file.
    pub file: FileId,
}

impl Map {
    /// What the file calls `address`, which lies in this map.
    #[must_use]
    pub fn to_file(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.pgoff)
    }
}

/// An address space: maps that don't overlap. A copy shares its maps until one of both changes.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// By start.
    maps: Arc<Vec<Map>>,
}

impl Space {
    /// Adds a map. Of older ones there remains what lies outside of it.
    pub fn add(&mut self, map: Map) {
        if map.end <= map.start {
            return;
        }
        let maps = Arc::make_mut(&mut self.maps);
        let first = maps.partition_point(|old| old.end <= map.start);
        let last = first + maps[first..].partition_point(|old| old.start < map.end);
        if maps.len() >= limits::MAPS && first == last {
            return;
        }
        let before = maps[first..last]
            .first()
            .filter(|old| old.start < map.start)
            .map(|old| Map { end: map.start, ..*old });
        let after = maps[first..last].last().filter(|old| old.end > map.end);
        let after = after.map(|old| Map { start: map.end, pgoff: old.to_file(map.end), ..*old });
        maps.splice(first..last, before.into_iter().chain([map]).chain(after));
    }

    /// Removes what lies in this range, the rest of the maps stays.
    pub fn remove(&mut self, start: u64, end: u64) {
        if end > start && self.maps.iter().any(|map| map.start < end && start < map.end) {
            self.add(Map { start, end, pgoff: 0, file: FileId::NONE });
            Arc::make_mut(&mut self.maps).retain(|map| map.file != FileId::NONE);
        }
    }

    /// The map that an address lies in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Map> {
        let behind = self.maps.partition_point(|map| map.start <= address);
        self.maps.get(behind.checked_sub(1)?).filter(|map| address < map.end)
    }

    /// All maps, by start.
    #[must_use]
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }
}

/// The address spaces of all processes, and the kernel's.
#[derive(Clone, Debug, Default)]
pub struct Spaces {
    /// The kernel's own, which all processes share.
    pub kernel: Space,
    by_pid: HashMap<i32, Space>,
}

impl Spaces {
    /// Adds a map to a process.
    pub fn add(&mut self, pid: i32, map: Map) {
        self.by_pid.entry(pid).or_default().add(map);
    }

    /// A process began as a copy of another.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent != child {
            let space = self.by_pid.get(&parent).cloned().unwrap_or_default();
            self.by_pid.insert(child, space);
        }
    }

    /// A process is forgotten.
    pub fn remove(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }

    /// The address space of a process.
    #[must_use]
    pub fn of(&self, pid: i32) -> Option<&Space> {
        self.by_pid.get(&pid)
    }

    /// The map of a process that an address lies in.
    #[must_use]
    pub fn find_user(&self, pid: i32, address: u64) -> Option<&Map> {
        self.by_pid.get(&pid)?.find(address)
    }

    /// The map of the kernel that an address lies in.
    #[must_use]
    pub fn find_kernel(&self, address: u64) -> Option<&Map> {
        self.kernel.find(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64, pgoff: u64, file: u32) -> Map {
        Map { start, end, pgoff, file: FileId::from_index(file) }
    }

    #[test]
    fn a_later_map_replaces_what_it_overlaps() {
        let mut space = Space::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.add(map(0x2000, 0x3000, 0x100, 2));
        assert_eq!(
            space.maps(),
            [
                map(0x1000, 0x2000, 0, 1),
                map(0x2000, 0x3000, 0x100, 2),
                map(0x3000, 0x5000, 0x2000, 1)
            ]
        );
        space.add(map(0x0, 0x4000, 0, 3));
        assert_eq!(space.maps(), [map(0, 0x4000, 0, 3), map(0x4000, 0x5000, 0x3000, 1)]);
        assert_eq!(space.find(0x3fff).map(|map| map.file), Some(FileId::from_index(3)));
        assert_eq!((space.find(0x5000), Space::default().find(1)), (None, None));
        assert_eq!(space.find(0x4010).map(|map| map.to_file(0x4010)), Some(0x3010));
    }

    #[test]
    fn removing_leaves_what_is_outside() {
        let mut space = Space::default();
        space.add(map(0x1000, 0x5000, 0, 1));
        space.remove(0x2000, 0x3000);
        assert_eq!(space.maps(), [map(0x1000, 0x2000, 0, 1), map(0x3000, 0x5000, 0x2000, 1)]);
    }

    #[test]
    fn a_child_has_its_parents_maps_and_then_its_own() {
        let mut spaces = Spaces::default();
        spaces.add(1, map(0x1000, 0x2000, 0, 1));
        spaces.fork(1, 2);
        spaces.add(1, map(0x3000, 0x4000, 0, 2));
        assert!(spaces.find_user(2, 0x1000).is_some() && spaces.find_user(2, 0x3000).is_none());
        spaces.remove(2);
        assert!(spaces.find_user(2, 0x1000).is_none() && spaces.find_user(1, 0x1000).is_some());
    }

    #[test]
    fn impossible_maps_are_left_out() {
        let mut space = Space::default();
        space.add(map(5, 5, 0, 1));
        space.add(map(u64::MAX, 0, 0, 1));
        space.add(map(0, u64::MAX, u64::MAX, 1));
        assert_eq!(space.find(7).map(|map| map.to_file(7)), Some(6));
    }
}
