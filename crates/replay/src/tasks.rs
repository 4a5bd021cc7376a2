//! Lists the tasks of a recording, with their parents and mappings.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use tare_format::abi::bindings::{
    PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_FORK_EXEC, PERF_RECORD_MISC_USER,
};
use tare_format::record::{FileId, Mmap, Record, Sample};

use crate::error::Error;
use crate::machine::{Machine, is_of_unknown_task};
use crate::replayed::Replayed;
use crate::sink::Sink;

/// Limit of mappings per process.
const MAPPINGS: usize = 1 << 16;

/// A task.
#[derive(Clone, Debug, Default)]
pub struct TaskEntry {
    /// Its process; -1 is unknown.
    pub pid: i32,
    /// Its parent process; -1 is unknown.
    pub ppid: i32,
    /// Its last name. Untrusted.
    pub comm: Rc<[u8]>,
}

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMapping {
    /// End address, exclusive.
    pub end: u64,
    /// `PROT_*`; 0 where it wasn't recorded.
    pub prot: u32,
    /// `MAP_*`; 0 where it wasn't recorded.
    pub flags: u32,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// The file's inode; 0 where it wasn't recorded.
    pub inode: u64,
    /// The file's path. Untrusted.
    pub path: Rc<[u8]>,
}

/// A sink that lists all tasks of a recording in their last state.
#[derive(Debug)]
pub struct TaskList {
    tasks: BTreeMap<i32, TaskEntry>,
    /// By process, then by start address.
    mappings: BTreeMap<i32, BTreeMap<u64, TaskMapping>>,
}

impl Default for TaskList {
    /// Starts with the idle thread, which no record names.
    fn default() -> Self {
        let idle = TaskEntry { pid: 0, ppid: -1, comm: (*b"swapper").into() };
        Self { tasks: BTreeMap::from([(0, idle)]), mappings: BTreeMap::new() }
    }
}

impl TaskList {
    /// Returns the tasks by thread id.
    pub fn tasks(&self) -> impl Iterator<Item = (i32, &TaskEntry)> {
        self.tasks.iter().map(|(tid, task)| (*tid, task))
    }

    /// Returns the mappings of a process by start address.
    pub fn mappings(&self, pid: i32) -> impl Iterator<Item = (u64, &TaskMapping)> {
        let mappings = self.mappings.get(&pid).into_iter().flatten();
        mappings.map(|(start, mapping)| (*start, mapping))
    }

    fn find_or_add_task(&mut self, pid: i32, tid: i32) -> &mut TaskEntry {
        let new = || TaskEntry { pid, ppid: -1, comm: format!(":{tid}").into_bytes().into() };
        self.tasks.entry(tid).or_insert_with(new)
    }

    /// Adds a mapping, which replaces the parts of others that it covers. Above [`MAPPINGS`] it is
    /// left out.
    fn add_mapping(&mut self, mmap: &Mmap<'_>) {
        let mappings = self.mappings.entry(mmap.pid).or_default();
        let start = mmap.start;
        let end = start.saturating_add(mmap.len);
        let covered: Vec<(u64, TaskMapping)> = mappings
            .range(..end)
            .filter(|(_, mapping)| mapping.end > start)
            .map(|(first, mapping)| (*first, mapping.clone()))
            .collect();
        for (first, mapping) in covered {
            mappings.remove(&first);
            if mapping.end > end {
                let pgoff = mapping.pgoff.wrapping_add(end - first);
                mappings.insert(end, TaskMapping { pgoff, ..mapping.clone() });
            }
            if first < start {
                mappings.insert(first, TaskMapping { end: start, ..mapping });
            }
        }
        if mappings.len() < MAPPINGS {
            let inode = if let FileId::Inode { inode, .. } = mmap.file { inode } else { 0 };
            let Mmap { prot, flags, pgoff, path, .. } = *mmap;
            mappings
                .insert(start, TaskMapping { end, prot, flags, pgoff, inode, path: path.into() });
        }
    }
}

impl Sink for TaskList {
    type Error = Error;

    fn wants_callchain(&self, _: &Replayed<'_, Sample<'_>>) -> bool {
        false
    }

    fn sample(
        &mut self,
        _: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        if let (Some(pid), Some(tid)) = (sample.fields.head.pid, sample.fields.head.tid) {
            self.find_or_add_task(pid, tid);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        _: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        if is_of_unknown_task(&record.raw, record.fields) {
            return Ok(ControlFlow::Continue(()));
        }
        match record.fields {
            Record::Comm(comm) => self.find_or_add_task(comm.pid, comm.tid).comm = comm.comm.into(),
            Record::Fork(task) => {
                let comm = self.tasks.get(&task.ptid).map(|parent| parent.comm.clone());
                let child = self.find_or_add_task(task.pid, task.tid);
                child.ppid = task.ppid;
                child.comm = comm.unwrap_or_else(|| child.comm.clone());
                let is_new = task.pid != task.ppid
                    && u32::from(record.raw.misc) & PERF_RECORD_MISC_FORK_EXEC == 0;
                let inherited = self.mappings.get(&task.ppid).filter(|_| is_new).cloned();
                if let Some(inherited) = inherited {
                    self.mappings.insert(task.pid, inherited);
                }
            }
            Record::Mmap(mmap)
                if u32::from(record.raw.misc) & PERF_RECORD_MISC_CPUMODE_MASK
                    == PERF_RECORD_MISC_USER =>
            {
                self.find_or_add_task(mmap.pid, mmap.pid);
                self.add_mapping(mmap);
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mmap(start: u64, len: u64, path: &[u8]) -> Mmap<'_> {
        let file = FileId::None;
        let prot = 5;
        let flags = 2;
        Mmap { pid: 7, tid: 7, start, len, pgoff: 0, file, prot, flags, path, is_data: false }
    }

    #[test]
    fn a_mapping_replaces_the_parts_that_it_covers() {
        let mut list = TaskList::default();
        list.add_mapping(&mmap(0x1000, 0x4000, b"/a"));
        list.add_mapping(&mmap(0x2000, 0x1000, b"/b"));
        let shown: Vec<_> =
            list.mappings(7).map(|(start, map)| (start, map.end, map.pgoff, map.path[1])).collect();
        let expected =
            [(0x1000, 0x2000, 0, b'a'), (0x2000, 0x3000, 0, b'b'), (0x3000, 0x5000, 0x2000, b'a')];
        assert_eq!(shown, expected);
    }
}
