//! Tracks the name of each thread, and whether it belongs to the recorded command.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tare_format::file::Description;
use tare_format::ledger::{Follow, FollowMode, Ledger};
use tare_format::record::{Comm, Record, Task};

/// Limit of exited threads that stay known, because some records of a thread follow its exit.
const ENDED: usize = 1 << 16;

/// Limit of known threads. Linux itself allows 4,194,304 on a machine.
const THREADS: usize = 1 << 22;

/// Number of recorded threads that run now, by the records of context switches. A recording begins
/// with one: the command, or the thread that the recorder attached to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningThreads(i64);

impl Default for RunningThreads {
    fn default() -> Self {
        Self(1)
    }
}

impl RunningThreads {
    /// Applies a switch. A thread that exits isn't switched out before.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        self.0 += match record {
            Record::Switch(switch) if !switch.is_out => 1,
            Record::Switch(_) | Record::Exit(_) => -1,
            _ => 0,
        };
    }

    /// Returns their number, at least 1: records may be out of order.
    pub(crate) fn count(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0).max(1)
    }
}

/// The threads of the recorded machine. Records apply in time order, and each changes one thread: a
/// new thread inherits its parent's name and command.
///
/// ```text
/// thread 7:  --- "sh" ---| FORK: name and command of thread 5 |--- COMM: "make" ---  time
/// root of the command:  --- forked by tare ---| COMM with exec: from here on the command's
/// ```
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) running: RunningThreads,
    by_tid: HashMap<i32, Thread, foldhash::fast::RandomState>,
    /// Thread id, version, and exit time in nanoseconds of the recording's clock.
    ended: VecDeque<(i32, u64, u64)>,
    versions: u64,
    command: Option<Command>,
    notes: usize,
}

/// A thread at a point in time.
#[derive(Clone, Debug)]
pub struct Thread {
    pid: i32,
    comm: Option<Arc<[u8]>>,
    version: u64,
    is_commands: bool,
}

impl Thread {
    /// Returns its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns its name, or `None` if no record has named it. Untrusted.
    #[must_use]
    pub fn comm(&self) -> Option<&[u8]> {
        self.comm.as_deref()
    }

    /// Returns its version. While it stays the same, so do name and process.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// The command of a recording that may hold samples of other tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Command {
    /// The thread that the recorder forked to execute the command.
    root: i32,
    /// Whether the events cover the whole system.
    is_system: bool,
}

impl Default for Threads {
    fn default() -> Self {
        let comm = Some(Arc::from(&b"swapper"[..]));
        let idle = Thread { pid: 0, comm, version: 0, is_commands: false };
        Self {
            running: RunningThreads::default(),
            by_tid: HashMap::from_iter([(0, idle)]),
            ended: VecDeque::new(),
            versions: 0,
            command: None,
            notes: 0,
        }
    }
}

impl Threads {
    /// Reads from the recorder's notes how it followed the command.
    pub(crate) fn learn(&mut self, description: &Description) {
        let notes = description.notes();
        for note in notes.iter().skip(self.notes) {
            if let Some(follow) = Ledger::from_note(note).and_then(|ledger| ledger.follow) {
                self.follow(follow);
            }
        }
        self.notes = notes.len();
    }

    fn follow(&mut self, follow: Follow) {
        let root = follow.root;
        let is_system = follow.mode == FollowMode::System;
        // Inherited events start with the command's execve.
        let has_others = follow.mode != FollowMode::Inherit && root != 0;
        self.command = has_others.then_some(Command { root, is_system });
        // This file isn't the first of its recording: an earlier one has the records that made
        // these threads the command's.
        if has_others && follow.exec_ns.is_some() {
            for tid in follow.members.into_iter().chain([root]) {
                let known = self.get(tid).map(|thread| (thread.pid, thread.comm.clone()));
                let (pid, comm) = known.unwrap_or((tid, None));
                self.insert(tid, pid, comm, true);
            }
        }
    }

    pub(crate) fn get(&self, tid: i32) -> Option<&Thread> {
        self.by_tid.get(&tid)
    }

    /// Sets a thread's name. With `is_exec`, it executed a new program.
    pub(crate) fn set_comm(&mut self, comm: &Comm<'_>) {
        let is_root = self.command.is_some_and(|command| command.root == comm.tid);
        let was_commands = self.get(comm.tid).is_some_and(|thread| thread.is_commands);
        let is_commands = was_commands || is_root && comm.is_exec;
        self.insert(comm.tid, comm.pid, Some(comm.comm.into()), is_commands);
    }

    /// Adds a thread, with the name of its parent.
    pub(crate) fn fork(&mut self, task: &Task) {
        // The recorder describes threads older than the file by records without a time. Their
        // parents may have changed since the fork.
        let is_described = task.time_ns == 0;
        // The idle task forks nothing: such a parent is outside of the recorder's pid namespace.
        let parent = self.get(task.ptid).filter(|_| is_described || task.ptid != 0);
        let comm = parent.and_then(|parent| parent.comm.clone());
        let is_commands = if is_described { self.get(task.tid) } else { parent };
        let is_commands = is_commands.is_some_and(|thread| thread.is_commands);
        self.insert(task.tid, task.pid, comm, is_commands);
    }

    fn insert(&mut self, tid: i32, pid: i32, comm: Option<Arc<[u8]>>, is_commands: bool) {
        if self.by_tid.len() >= THREADS && !self.by_tid.contains_key(&tid) {
            return;
        }
        self.versions += 1;
        let thread = Thread { pid, comm, version: self.versions, is_commands };
        self.by_tid.insert(tid, thread);
    }

    /// Notes a thread's exit. Returns process and thread of an exited thread that it drops to stay
    /// below the limit.
    pub(crate) fn exit(&mut self, task: &Task) -> Option<(i32, i32)> {
        let version = self.get(task.tid)?.version;
        self.ended.push_back((task.tid, version, task.time_ns));
        if self.ended.len() > ENDED { self.forget_oldest() } else { None }
    }

    /// Drops threads that exited before a time, in nanoseconds of the recording's clock. Calls
    /// `gone` with the process and thread of each.
    pub(crate) fn forget_ended_before(&mut self, time_ns: u64, mut gone: impl FnMut(i32, i32)) {
        while self.ended.front().is_some_and(|(.., ended_ns)| *ended_ns < time_ns) {
            if let Some((pid, tid)) = self.forget_oldest() {
                gone(pid, tid);
            }
        }
    }

    fn forget_oldest(&mut self) -> Option<(i32, i32)> {
        let (tid, version, _) = self.ended.pop_front()?;
        let is_same = self.get(tid).is_some_and(|thread| thread.version == version && tid != 0);
        let thread = if is_same { self.by_tid.remove(&tid) } else { None };
        thread.map(|thread| (thread.pid, tid))
    }

    /// Whether a sample belongs to the command. If the recording holds nothing else, all do. A
    /// thread that exited stays known for a while, because some of its samples follow its EXIT
    /// record.
    pub(crate) fn belongs_to_command(&self, tid: Option<i32>) -> bool {
        let Some(command) = self.command else { return true };
        match tid {
            Some(tid) if command.is_system || tid == command.root => {
                self.get(tid).is_some_and(|thread| thread.is_commands)
            }
            _ => !command.is_system,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: i32, ptid: i32) -> Task {
        Task { pid: tid, ppid: ptid, tid, ptid, time_ns: 1 }
    }

    fn exec(tid: i32, comm: &[u8]) -> Comm<'_> {
        Comm { pid: tid, tid, comm, is_exec: true }
    }

    fn following(root: i32, is_system: bool) -> Threads {
        Threads { command: Some(Command { root, is_system }), ..Threads::default() }
    }

    fn comm(threads: &Threads, tid: i32) -> Option<&[u8]> {
        threads.get(tid).and_then(Thread::comm)
    }

    #[test]
    fn a_child_has_its_parents_name_until_it_gets_its_own() {
        let mut threads = Threads::default();
        assert_eq!((comm(&threads, 0), comm(&threads, 1)), (Some(&b"swapper"[..]), None));
        threads.set_comm(&exec(1, b"sh"));
        threads.fork(&task(2, 1));
        assert_eq!(comm(&threads, 2), Some(&b"sh"[..]));
        threads.set_comm(&exec(2, b"ls"));
        assert_eq!((comm(&threads, 2), comm(&threads, 1)), (Some(&b"ls"[..]), Some(&b"sh"[..])));
    }

    #[test]
    fn forgets_the_oldest_ended_threads_but_no_reused_ids() {
        let mut threads = Threads::default();
        for tid in [1, 2] {
            threads.fork(&task(tid, 0));
            assert_eq!(threads.exit(&task(tid, 0)), None);
        }
        threads.fork(&task(2, 0));
        let mut forgotten = Vec::new();
        for tid in 3..i32::try_from(ENDED).unwrap() + 3 {
            threads.fork(&task(tid, 0));
            forgotten.extend(threads.exit(&task(tid, 0)));
        }
        assert_eq!(forgotten, [(1, 1)]);
        assert!(threads.get(1).is_none() && threads.get(2).is_some());
    }

    #[test]
    fn forgets_threads_that_ended_before_a_time() {
        let mut threads = Threads::default();
        for (tid, time_ns) in [(1, 10), (2, 20), (3, 30)] {
            threads.fork(&task(tid, 0));
            threads.exit(&Task { time_ns, ..task(tid, 0) });
        }
        threads.fork(&task(1, 0));
        let mut gone = Vec::new();
        threads.forget_ended_before(30, |pid, tid| gone.push((pid, tid)));
        assert_eq!(gone, [(2, 2)], "id 1 was reused");
        assert!(threads.get(1).is_some() && threads.get(3).is_some());
    }

    #[test]
    fn other_tasks_and_actions_before_exec_are_not_the_commands() {
        let mut threads = following(7, true);
        threads.fork(&task(8, 7));
        assert!(
            !threads.belongs_to_command(Some(7)) && !threads.belongs_to_command(Some(8)),
            "not executed yet"
        );
        threads.set_comm(&exec(7, b"sh"));
        assert!(
            threads.belongs_to_command(Some(7))
                && !threads.belongs_to_command(Some(8))
                && !threads.belongs_to_command(None)
        );
        threads.fork(&task(9, 7));
        threads.fork(&task(10, 9));
        threads.exit(&task(9, 7));
        assert!(threads.belongs_to_command(Some(9)) && threads.belongs_to_command(Some(10)));
        threads.fork(&task(9, 50));
        assert!(!threads.belongs_to_command(Some(9)), "another thread has the id now");
        assert!(!threads.belongs_to_command(Some(50)) && threads.belongs_to_command(Some(10)));
    }

    #[test]
    fn a_later_file_begins_with_the_threads_that_its_note_names() {
        let follow = Follow {
            mode: FollowMode::System,
            root: 7,
            exec_ns: Some(10),
            members: vec![8, 9],
            ..Follow::default()
        };
        let mut threads = Threads::default();
        threads.follow(follow);
        for tid in [7, 8, 50] {
            threads.fork(&Task { time_ns: 0, ..task(tid, 1) });
        }
        assert!(
            threads.belongs_to_command(Some(7))
                && threads.belongs_to_command(Some(8))
                && !threads.belongs_to_command(Some(50))
        );
        threads.fork(&task(11, 8));
        threads.fork(&task(9, 50));
        assert!(
            threads.belongs_to_command(Some(11)) && !threads.belongs_to_command(Some(9)),
            "another thread has the id"
        );
    }

    #[test]
    fn in_its_own_cgroup_only_actions_before_exec_are_not_the_commands() {
        let mut threads = following(7, false);
        assert!(!threads.belongs_to_command(Some(7)), "killed before it executed anything");
        threads.set_comm(&exec(7, b"sh"));
        assert!(
            threads.belongs_to_command(Some(99))
                && threads.belongs_to_command(None)
                && threads.belongs_to_command(Some(7))
        );
        assert!(Threads::default().belongs_to_command(Some(7)));
    }

    #[test]
    fn threads_that_descend_from_each_other_are_not_the_commands() {
        let mut threads = following(7, true);
        threads.fork(&task(1, 2));
        threads.fork(&task(2, 1));
        assert!(!threads.belongs_to_command(Some(1)));
    }
}
