//! Threads and their names as time goes on.

use std::collections::{HashMap, VecDeque};

use tare_format::record::{Comm, Task};

/// Threads that have ended and are still known: what is recorded of a thread can be younger than
/// its end.
const KEPT_ENDED: usize = 1 << 16;

/// The names of threads.
#[derive(Debug)]
pub(crate) struct Tasks {
    by_tid: HashMap<i32, Thread>,
    ended: VecDeque<(i32, u64)>,
    generation: u64,
}

#[derive(Debug)]
struct Thread {
    pid: i32,
    /// `None`: nothing has named it yet.
    comm: Option<Box<[u8]>>,
    generation: u64,
}

impl Default for Tasks {
    fn default() -> Self {
        let idle = Thread { pid: 0, comm: Some(Box::from(&b"swapper"[..])), generation: 0 };
        Self { by_tid: HashMap::from([(0, idle)]), ended: VecDeque::new(), generation: 0 }
    }
}

impl Tasks {
    /// The name of a thread, where it is known. Untrusted.
    pub(crate) fn comm(&self, tid: i32) -> Option<&[u8]> {
        self.by_tid.get(&tid)?.comm.as_deref()
    }

    pub(super) fn name(&mut self, comm: &Comm<'_>) {
        self.generation += 1;
        self.by_tid.insert(
            comm.tid,
            Thread { pid: comm.pid, comm: Some(comm.comm.into()), generation: self.generation },
        );
    }

    /// A thread began, with its parent's name.
    pub(super) fn fork(&mut self, task: &Task) {
        self.generation += 1;
        let comm = self.by_tid.get(&task.ptid).and_then(|parent| parent.comm.clone());
        self.by_tid.insert(task.tid, Thread { pid: task.pid, comm, generation: self.generation });
    }

    /// A thread ended. The thread that is forgotten for it, if any.
    pub(super) fn exit(&mut self, task: &Task) -> Option<(i32, i32)> {
        let generation = self.by_tid.get(&task.tid)?.generation;
        self.ended.push_back((task.tid, generation));
        let (tid, generation) =
            if self.ended.len() > KEPT_ENDED { self.ended.pop_front()? } else { return None };
        let is_same =
            self.by_tid.get(&tid).is_some_and(|thread| thread.generation == generation && tid != 0);
        let thread = if is_same { self.by_tid.remove(&tid) } else { None };
        thread.map(|thread| (thread.pid, tid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: i32, ptid: i32) -> Task {
        Task { pid: tid, ppid: ptid, tid, ptid, time_ns: 1 }
    }

    #[test]
    fn a_child_has_its_parents_name_until_it_gets_its_own() {
        let mut tasks = Tasks::default();
        assert_eq!((tasks.comm(0), tasks.comm(1)), (Some(&b"swapper"[..]), None));
        tasks.name(&Comm { pid: 1, tid: 1, comm: b"sh", is_exec: false });
        tasks.fork(&task(2, 1));
        assert_eq!(tasks.comm(2), Some(&b"sh"[..]));
        tasks.name(&Comm { pid: 2, tid: 2, comm: b"ls", is_exec: true });
        assert_eq!((tasks.comm(2), tasks.comm(1)), (Some(&b"ls"[..]), Some(&b"sh"[..])));
    }

    #[test]
    fn ended_threads_are_forgotten_in_time_but_not_those_that_took_their_number() {
        let mut tasks = Tasks::default();
        for tid in [1, 2] {
            tasks.fork(&task(tid, 0));
            assert_eq!(tasks.exit(&task(tid, 0)), None);
        }
        tasks.fork(&task(2, 0));
        let mut forgotten = Vec::new();
        for tid in 3..i32::try_from(KEPT_ENDED).unwrap() + 3 {
            tasks.fork(&task(tid, 0));
            forgotten.extend(tasks.exit(&task(tid, 0)));
        }
        assert_eq!(forgotten, [(1, 1)]);
        assert!(tasks.comm(1).is_none() && tasks.comm(2).is_some());
    }
}
