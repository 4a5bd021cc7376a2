//! The running processes of a followed command or of chosen targets, as the records describe them.
//! Each file of a series but the first begins with them. `/proc` couldn't tell: it lists strangers
//! too, and no longer knows a process that has just exited.

use std::collections::BTreeMap;
use std::sync::Arc;

use tare_format::Endian;
use tare_format::record::encode::{Encoder, TooLong};
use tare_format::record::{
    Comm, FileId, Layout, Mmap, NamespaceLink, Namespaces, Record, Records, SampleId, Task,
};

/// Complete rounds for which a record waits for the fork of its process, which another ring may
/// hold, and for which an exited thread stays, because rings may still hold its records.
const ROUNDS: u64 = 2;

/// Limit on the mappings of a process. Above it, the oldest one is dropped.
const MOST_MAPPINGS: usize = 1 << 16;

/// The processes. Records come from several rings, out of time order.
#[derive(Debug)]
pub(crate) struct TrackedProcesses {
    layout: Layout,
    processes: BTreeMap<i32, TrackedProcess>,
    /// Records that aren't taken in so far.
    waiting: Vec<WaitingRecord>,
    round: u64,
}

#[derive(Debug)]
struct WaitingRecord {
    time_ns: u64,
    bytes: Vec<u8>,
    /// The round in which the record was read.
    read_in: u64,
}

#[derive(Clone, Debug, Default)]
struct TrackedProcess {
    parent: i32,
    threads: BTreeMap<i32, TrackedThread>,
    /// Sorted by time. A forked process shares them with its parent until one of them changes.
    mappings: Arc<Vec<TrackedMapping>>,
    /// Time of the last execve, or of the fork.
    began_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct TrackedThread {
    comm: Vec<u8>,
    namespaces: Vec<NamespaceLink>,
    since_ns: u64,
    named_ns: u64,
    /// The round in which the exit was read.
    ended_in: Option<u64>,
}

#[derive(Clone, Debug)]
struct TrackedMapping {
    time_ns: u64,
    start: u64,
    len: u64,
    pgoff: u64,
    file: MappedFile,
    prot: u32,
    flags: u32,
    path: Vec<u8>,
    is_data: bool,
}

/// [`FileId`] with its own build id.
#[derive(Clone, Debug)]
enum MappedFile {
    None,
    Inode { major: u32, minor: u32, inode: u64, generation: u64 },
    BuildId(Vec<u8>),
}

impl TrackedProcesses {
    /// Begins with the process `root` of the command, if there is one. `layout`: of the records.
    pub(crate) fn new(root: Option<i32>, layout: Layout) -> Self {
        let process = |root| {
            let threads = BTreeMap::from([(root, TrackedThread::default())]);
            (root, TrackedProcess { threads, ..TrackedProcess::default() })
        };
        let processes = root.map(process).into_iter().collect();
        Self { layout, processes, waiting: Vec::new(), round: 0 }
    }

    /// Takes in descriptions of tasks that ran before the recording.
    pub(crate) fn describe(&mut self, records: &[u8]) {
        for raw in Records::new(records, Endian::NATIVE) {
            match raw.decode() {
                Ok(Record::Fork(task)) => self.begin_thread(&task, 0, TrackedProcess::default()),
                Ok(record) => _ = self.take_in(&record, 0),
                Err(_) => {}
            }
        }
    }

    /// Takes in whole records of a ring.
    pub(crate) fn see(&mut self, records: &[u8]) {
        let mut rest = records;
        for raw in Records::new(records, Endian::NATIVE) {
            let time_ns = self.layout.time_ns(&raw).unwrap_or(0);
            let (bytes, after) = rest.split_at(raw.size().min(rest.len()));
            rest = after;
            let bytes = bytes.to_owned();
            self.waiting.push(WaitingRecord { time_ns, bytes, read_in: self.round });
        }
    }

    /// Notes that every ring was read since the last call.
    pub(crate) fn end_round(&mut self) {
        self.settle();
        let oldest = self.round.saturating_sub(ROUNDS);
        self.waiting.retain(|record| record.read_in >= oldest);
        self.processes.retain(|_, process| {
            process.threads.retain(|_, thread| thread.ended_in.is_none_or(|round| round >= oldest));
            !process.threads.is_empty()
        });
        self.round += 1;
    }

    /// Takes in the waiting records of known processes, in the order of time.
    fn settle(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|record| record.time_ns);
        waiting.retain(|WaitingRecord { time_ns, bytes, .. }| {
            let raw = Records::new(bytes, Endian::NATIVE).next();
            match raw.map(|raw| raw.decode()) {
                Some(Ok(record)) => !self.take_in(&record, *time_ns),
                _ => false,
            }
        });
        self.waiting = waiting;
    }

    /// Takes in a record, unless its process is unknown. Returns whether it is known.
    fn take_in(&mut self, record: &Record<'_>, time_ns: u64) -> bool {
        match record {
            Record::Fork(task) => {
                let Some(parent) = self.processes.get(&task.ppid) else {
                    self.end_predecessor(task.tid, time_ns);
                    return false;
                };
                let inherited = parent.inherited_by(task.ptid);
                self.begin_thread(task, time_ns, inherited);
            }
            Record::Exit(Task { pid, tid, .. }) => {
                let Some(process) = self.processes.get_mut(pid) else { return false };
                let thread = process.threads.get_mut(tid).filter(|of| of.since_ns <= time_ns);
                if let Some(thread) = thread {
                    thread.ended_in.get_or_insert(self.round);
                }
            }
            Record::Comm(comm) => {
                let Some(process) = self.processes.get_mut(&comm.pid) else { return false };
                process.rename(comm, time_ns);
            }
            Record::Namespaces(namespaces @ Namespaces { pid, tid, .. }) => {
                let Some(process) = self.processes.get_mut(pid) else { return false };
                process.threads.entry(*tid).or_default().namespaces = namespaces.links().collect();
            }
            Record::Mmap(mmap) => {
                let Some(process) = self.processes.get_mut(&mmap.pid) else { return false };
                process.map(mmap, time_ns);
            }
            _ => {}
        }
        true
    }

    /// Ends a thread whose number the kernel has reused for a stranger's fork, if its exit was lost.
    fn end_predecessor(&mut self, tid: i32, forked_ns: u64) {
        let round = self.round;
        let threads =
            self.processes.values_mut().filter_map(|process| process.threads.get_mut(&tid));
        for thread in threads.filter(|thread| thread.since_ns < forked_ns) {
            thread.ended_in.get_or_insert(round);
        }
    }

    /// Returns the threads that may still run, or whose records may still come, sorted.
    pub(crate) fn threads(&mut self) -> Vec<i32> {
        self.settle();
        let threads = self.processes.values().flat_map(|process| process.threads.keys().copied());
        let mut threads: Vec<i32> = threads.collect();
        threads.sort_unstable();
        threads
    }

    /// Adds a thread. `inherited`: a process with the mappings and the only thread's name that the
    /// thread begins with.
    fn begin_thread(&mut self, task: &Task, time_ns: u64, inherited: TrackedProcess) {
        let Task { pid, ppid, tid, .. } = *task;
        let TrackedProcess { mappings, threads, .. } = inherited;
        let named = threads.into_values().next().unwrap_or_default();
        let thread = TrackedThread { since_ns: time_ns, named_ns: time_ns, ..named };
        if pid == ppid {
            self.processes.entry(pid).or_default().threads.insert(tid, thread);
        } else {
            let threads = BTreeMap::from([(tid, thread)]);
            let process = TrackedProcess { parent: ppid, threads, mappings, began_ns: time_ns };
            self.processes.insert(pid, process);
        }
    }

    /// Appends records that describe the processes to `into`, and the records that wait for the fork
    /// of their process. Returns the number of records that were too long.
    pub(crate) fn encode(&mut self, into: &mut Vec<u8>) -> u64 {
        self.settle();
        let encoder = Encoder::new(&self.layout, &SampleId::default());
        let mut left_out = 0;
        let mut count = |encoded: Result<(), TooLong>| left_out += u64::from(encoded.is_err());
        for (pid, process) in &self.processes {
            process.threads.iter().for_each(|(tid, thread)| {
                let parent = if tid == pid { process.parent } else { *pid };
                let TrackedThread { comm, namespaces: links, .. } = thread;
                let task = Task { pid: *pid, ppid: parent, tid: *tid, ptid: parent, time_ns: 0 };
                count(encoder.fork(into, &task, true));
                if !links.is_empty() {
                    count(encoder.namespaces(into, *pid, *tid, links));
                }
                count(encoder.comm(into, &Comm { pid: *pid, tid: *tid, comm, is_exec: false }));
            });
            let mappings = process.mappings.iter();
            mappings.for_each(|mapping| count(encoder.mmap(into, &mapping.record(*pid))));
        }
        self.waiting.iter().for_each(|record| into.extend_from_slice(&record.bytes));
        left_out
    }
}

impl TrackedProcess {
    /// Returns a process with this one's mappings and the thread `tid`: the state in which a thread
    /// or process that `tid` starts begins.
    fn inherited_by(&self, tid: i32) -> Self {
        let thread = self.threads.get(&tid).map(|thread| (tid, thread.clone()));
        let threads = thread.into_iter().collect();
        Self { threads, mappings: Arc::clone(&self.mappings), ..Self::default() }
    }

    /// Names a thread. An execve also drops the mappings from before it.
    fn rename(&mut self, comm: &Comm<'_>, time_ns: u64) {
        let thread = self.threads.entry(comm.tid).or_default();
        if thread.named_ns <= time_ns {
            thread.comm = comm.comm.to_owned();
            thread.named_ns = time_ns;
        }
        if comm.is_exec && self.began_ns <= time_ns {
            self.began_ns = time_ns;
            let kept = self.mappings.iter().filter(|mapping| mapping.time_ns >= time_ns);
            self.mappings = Arc::new(kept.cloned().collect());
        }
    }

    /// Adds a mapping, and drops older ones that it covers.
    fn map(&mut self, mmap: &Mmap<'_>, time_ns: u64) {
        if time_ns < self.began_ns {
            return;
        }
        let mapping = TrackedMapping::new(mmap, time_ns);
        let mappings = Arc::make_mut(&mut self.mappings);
        mappings.retain(|older| older.time_ns > time_ns || !mapping.covers(older));
        let at = mappings.partition_point(|older| older.time_ns <= time_ns);
        mappings.insert(at, mapping);
        if mappings.len() > MOST_MAPPINGS {
            mappings.remove(0);
        }
    }
}

impl TrackedMapping {
    fn new(mmap: &Mmap<'_>, time_ns: u64) -> Self {
        let file = match mmap.file {
            FileId::None => MappedFile::None,
            FileId::Inode { major, minor, inode, generation } => {
                MappedFile::Inode { major, minor, inode, generation }
            }
            FileId::BuildId(id) => MappedFile::BuildId(id.to_owned()),
        };
        Self {
            time_ns,
            start: mmap.start,
            len: mmap.len,
            pgoff: mmap.pgoff,
            file,
            prot: mmap.prot,
            flags: mmap.flags,
            path: mmap.path.to_owned(),
            is_data: mmap.is_data,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        let end = |mapping: &Self| mapping.start.saturating_add(mapping.len);
        self.start <= other.start && end(other) <= end(self)
    }

    fn record(&self, pid: i32) -> Mmap<'_> {
        let file = match &self.file {
            MappedFile::None => FileId::None,
            &MappedFile::Inode { major, minor, inode, generation } => {
                FileId::Inode { major, minor, inode, generation }
            }
            MappedFile::BuildId(id) => FileId::BuildId(id),
        };
        Mmap {
            pid,
            tid: pid,
            start: self.start,
            len: self.len,
            pgoff: self.pgoff,
            file,
            prot: self.prot,
            flags: self.flags,
            path: &self.path,
            is_data: self.is_data,
        }
    }
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::PERF_SAMPLE_TIME;

    use super::*;

    fn layout() -> Layout {
        Layout { sample_type: PERF_SAMPLE_TIME.into(), sample_id_all: true, ..Layout::default() }
    }

    fn encoder(time_ns: u64) -> Encoder {
        Encoder::new(&layout(), &SampleId { time_ns: Some(time_ns), ..SampleId::default() })
    }

    fn fork(pid: i32, ppid: i32, time_ns: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let task = Task { pid, ppid, tid: pid, ptid: ppid, time_ns };
        encoder(time_ns).fork(&mut bytes, &task, false).unwrap();
        bytes
    }

    fn exit(pid: i32, time_ns: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let task = Task { pid, ppid: 0, tid: pid, ptid: 0, time_ns };
        encoder(time_ns).exit(&mut bytes, &task).unwrap();
        bytes
    }

    fn exec(pid: i32, name: &str, time_ns: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let comm = Comm { pid, tid: pid, comm: name.as_bytes(), is_exec: true };
        encoder(time_ns).comm(&mut bytes, &comm).unwrap();
        bytes
    }

    fn map(pid: i32, start: u64, path: &str, time_ns: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mmap = Mmap {
            pid,
            tid: pid,
            start,
            len: 0x1000,
            pgoff: 0,
            file: FileId::Inode { major: 8, minor: 1, inode: 5, generation: 0 },
            prot: 5,
            flags: 2,
            path: path.as_bytes(),
            is_data: false,
        };
        encoder(time_ns).mmap(&mut bytes, &mmap).unwrap();
        bytes
    }

    /// Returns the processes' names, parents and mapped files, as described.
    fn described(processes: &mut TrackedProcesses) -> Vec<String> {
        let mut bytes = Vec::new();
        assert_eq!(processes.encode(&mut bytes), 0);
        let line = |record: Record<'_>| match record {
            Record::Fork(task) => format!("{} of {}", task.pid, task.ppid),
            Record::Comm(comm) => format!("{}: {}", comm.pid, String::from_utf8_lossy(comm.comm)),
            Record::Mmap(mmap) => format!("{} {}", mmap.pid, String::from_utf8_lossy(mmap.path)),
            other => format!("{other:?}"),
        };
        Records::new(&bytes, Endian::NATIVE).map(|raw| line(raw.decode().unwrap())).collect()
    }

    #[test]
    fn descendants_are_described_with_inherited_names_and_mappings() {
        let mut processes = TrackedProcesses::new(Some(7), layout());
        processes.see(&[exec(7, "sh", 10), map(7, 0x1000, "/bin/sh", 11)].concat());
        // Another ring brings the fork of 9's parent later, and a stranger forks.
        processes.see(&[fork(9, 8, 30), fork(51, 50, 15)].concat());
        processes.see(&fork(8, 7, 20));
        let expected = ["7 of 0", "7: sh", "7 /bin/sh", "8 of 7", "8: sh", "8 /bin/sh"];
        let described = described(&mut processes);
        assert_eq!(described[..6], expected);
        assert_eq!(described[6..9], ["9 of 8", "9: sh", "9 /bin/sh"]);
    }

    #[test]
    fn an_execve_drops_older_mappings_in_any_order_of_records() {
        let mut processes = TrackedProcesses::new(Some(7), layout());
        processes.see(&[exec(7, "sh", 10), map(7, 0x1000, "/bin/sh", 11)].concat());
        processes.end_round();
        processes.see(&map(7, 0x5000, "/bin/ls", 31));
        processes.end_round();
        processes.see(&exec(7, "ls", 30));
        assert_eq!(described(&mut processes), ["7 of 0", "7: ls", "7 /bin/ls"]);
    }

    #[test]
    fn a_mapping_replaces_those_that_it_covers() {
        let mut processes = TrackedProcesses::new(Some(7), layout());
        let maps = [map(7, 0x1000, "/a", 1), map(7, 0x1800, "/b", 2), map(7, 0x1000, "/c", 3)];
        processes.see(&maps.concat());
        assert_eq!(described(&mut processes)[1..], ["7: ", "7 /b", "7 /c"]);
    }

    #[test]
    fn an_exited_process_stays_for_two_rounds() {
        let mut processes = TrackedProcesses::new(Some(7), layout());
        processes.see(&[fork(8, 7, 10), exit(8, 20)].concat());
        processes.end_round();
        processes.end_round();
        assert!(described(&mut processes).contains(&"8 of 7".to_owned()));
        (0..2).for_each(|_| processes.end_round());
        assert_eq!(described(&mut processes), ["7 of 0", "7: "]);
    }

    #[test]
    fn a_number_that_a_stranger_has_now_is_no_longer_the_commands() {
        let mut processes = TrackedProcesses::new(Some(7), layout());
        processes.see(&[fork(8, 7, 10), fork(9, 8, 15)].concat());
        processes.end_round();
        assert_eq!(processes.threads(), [7, 8, 9]);
        // The exit of 9 was lost.
        processes.see(&[exit(8, 20), fork(9, 50, 40)].concat());
        for _ in 0..4 {
            processes.end_round();
        }
        assert_eq!(processes.threads(), [7], "8 is gone, and 9 is a stranger");
    }

    #[test]
    fn records_of_strangers_wait_for_two_rounds() {
        let mut processes = TrackedProcesses::new(Some(7), layout());
        // Another ring brings the fork of 9's parent later.
        processes.see(&[fork(9, 8, 20), fork(51, 50, 15)].concat());
        assert_eq!(processes.threads(), [7]);
        processes.end_round();
        processes.see(&fork(8, 7, 10));
        processes.end_round();
        assert_eq!(processes.threads(), [7, 8, 9]);
        assert_eq!(processes.waiting.len(), 1, "a stranger waits for a while");
        (0..2).for_each(|_| processes.end_round());
        assert!(processes.waiting.is_empty());
    }

    #[test]
    fn processes_that_ran_before_are_known_from_their_description() {
        let mut processes = TrackedProcesses::new(None, layout());
        processes.describe(&[fork(30, 1, 0), map(30, 0x1000, "/bin/cat", 0)].concat());
        processes.see(&fork(31, 30, 5));
        let expected = ["30 of 1", "30: ", "30 /bin/cat", "31 of 30", "31: ", "31 /bin/cat"];
        assert_eq!(described(&mut processes), expected);
    }
}
