//! The threads of a command whose events are opened on whole CPUs. In a series of files, each file
//! but the first begins with a list of them.

use std::collections::HashMap;

use tare_format::Endian;
use tare_format::record::{Record, Records};

/// Complete rounds for which a fork waits for its parent's fork, which another ring may hold, and
/// for which an exited thread stays a member, because rings may still hold its records. Both are
/// dropped at the end of the round after these.
const ROUNDS: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Member {
    since_ns: u64,
    /// The round in which the thread's exit was read, or another task's fork with the same number.
    ended_in: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Fork {
    time_ns: u64,
    tid: i32,
    parent: i32,
    /// The round in which the record was read.
    seen_in: u64,
}

/// The threads of a command. Records come from several rings, out of time order.
#[derive(Debug)]
pub(crate) struct Members {
    members: HashMap<i32, Member>,
    /// Forks whose parent is not a member so far.
    waiting: Vec<Fork>,
    ended: Vec<(u64, i32)>,
    round: u64,
}

impl Members {
    /// Begins with the command's process as the only member.
    pub(crate) fn new(root: i32) -> Self {
        let member = Member { since_ns: 0, ended_in: None };
        Self {
            members: HashMap::from([(root, member)]),
            waiting: Vec::new(),
            ended: Vec::new(),
            round: 0,
        }
    }

    /// Takes in whole records of a ring, and ignores all but forks and exits.
    pub(crate) fn see(&mut self, records: &[u8]) {
        for raw in Records::new(records, Endian::NATIVE) {
            match raw.decode() {
                Ok(Record::Fork(task)) => self.waiting.push(Fork {
                    time_ns: task.time_ns,
                    tid: task.tid,
                    parent: task.ptid,
                    seen_in: self.round,
                }),
                Ok(Record::Exit(task)) => self.ended.push((task.time_ns, task.tid)),
                _ => {}
            }
        }
    }

    /// Notes that every ring was read since the last call.
    pub(crate) fn end_round(&mut self) {
        self.settle();
        let oldest = self.round.saturating_sub(ROUNDS);
        self.waiting.retain(|fork| fork.seen_in >= oldest);
        self.members.retain(|_, member| member.ended_in.is_none_or(|round| round >= oldest));
        self.round += 1;
    }

    /// Returns the threads that may still run, or whose records may still come, sorted.
    pub(crate) fn now(&mut self) -> Vec<i32> {
        self.settle();
        let mut tids: Vec<i32> = self.members.keys().copied().collect();
        tids.sort_unstable();
        tids
    }

    /// Adds threads whose parents are members by now, and notes exits.
    fn settle(&mut self) {
        self.waiting.sort_unstable_by_key(|fork| fork.time_ns);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|fork| {
            let is_member = |member: &Member| member.since_ns <= fork.time_ns;
            let joins = self.members.get(&fork.parent).is_some_and(is_member);
            if joins {
                let member = Member { since_ns: fork.time_ns, ended_in: None };
                self.members.insert(fork.tid, member);
            } else if let Some(member) = self.members.get_mut(&fork.tid).filter(|m| is_member(m)) {
                // The kernel has reused the number, maybe for a stranger.
                member.ended_in.get_or_insert(self.round);
            }
            !joins
        });
        self.waiting = waiting;
        for (time_ns, tid) in std::mem::take(&mut self.ended) {
            if let Some(member) = self.members.get_mut(&tid).filter(|m| m.since_ns <= time_ns) {
                member.ended_in.get_or_insert(self.round);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::{PERF_RECORD_EXIT, PERF_RECORD_FORK};

    use super::*;

    fn task(kind: u32, tid: i32, parent: i32, time_ns: u64) -> Vec<u8> {
        let header = [&kind.to_ne_bytes()[..], &[0; 2], &32_u16.to_ne_bytes()].concat();
        let words = [tid, parent, tid, parent].map(i32::to_ne_bytes).concat();
        [header, words, time_ns.to_ne_bytes().to_vec()].concat()
    }

    fn fork(tid: i32, parent: i32, time_ns: u64) -> Vec<u8> {
        task(PERF_RECORD_FORK, tid, parent, time_ns)
    }

    #[test]
    fn descendants_become_members_in_any_order_of_records() {
        let mut members = Members::new(7);
        // Another ring brings the fork of 9's parent later.
        members.see(&[fork(9, 8, 20), fork(51, 50, 15)].concat());
        assert_eq!(members.now(), [7]);
        members.end_round();
        members.see(&fork(8, 7, 10));
        members.end_round();
        assert_eq!(members.now(), [7, 8, 9]);
        assert_eq!(members.waiting.len(), 1, "a stranger waits for a while");
        members.end_round();
        members.end_round();
        assert!(members.waiting.is_empty());
    }

    #[test]
    fn exited_threads_stay_for_two_rounds_and_numbers_are_reused() {
        let mut members = Members::new(7);
        members.see(&[fork(8, 7, 10), task(PERF_RECORD_EXIT, 8, 7, 20)].concat());
        members.end_round();
        // Forked before the exit, read after it.
        members.see(&fork(9, 8, 15));
        members.end_round();
        assert_eq!(members.now(), [7, 8, 9]);
        members.see(&fork(9, 50, 40));
        for _ in 0..4 {
            members.end_round();
        }
        assert_eq!(members.now(), [7], "8 is gone, and 9 is a stranger");
    }
}
