//! Whose samples are a command's, where a recording holds more than that: told for any moment, in
//! whatever order it became known.

use std::collections::HashMap;

use tare_format::file::Description;
use tare_format::record::Record;

use tare_format::ledger::{FollowMode, Ledger};

/// Forks between a task and the command. A longer chain may be a circle.
const LONGEST_DESCENT: usize = 1 << 12;

/// The tasks of a command over time. What a recording doesn't mark is all kept.
///
/// ```text
/// root    -- forked by tare --| exec: from here on a member
/// task    ------------ of a stranger ------------| forked by a member: from here on a member
/// ```
#[derive(Debug, Default)]
pub(crate) struct Family {
    root: i32,
    /// Whether the recording has samples of other tasks, too.
    has_strangers: bool,
    /// When the command's program began.
    exec_ns: Option<u64>,
    /// When a task began with this number, and which task it came from; in order of time.
    forks: HashMap<i32, Vec<(u64, i32)>>,
    notes: usize,
}

impl Family {
    /// Looks for the note that says how the command was followed.
    pub(crate) fn learn(&mut self, description: &Description) {
        let notes = description.notes();
        for note in notes.iter().skip(self.notes) {
            if let Some(follow) = Ledger::from_note(note).and_then(|ledger| ledger.follow) {
                // Inherited events begin with the program.
                self.root = if follow.mode == FollowMode::Inherit { 0 } else { follow.root };
                self.has_strangers = follow.mode == FollowMode::System;
            }
        }
        self.notes = notes.len();
    }

    /// Takes in what a record tells of tasks.
    pub(crate) fn see(&mut self, record: &Record<'_>, time_ns: u64) {
        match record {
            Record::Comm(comm) if comm.tid == self.root && comm.is_exec => {
                self.exec_ns = Some(self.exec_ns.map_or(time_ns, |before| before.min(time_ns)));
            }
            Record::Fork(task) if self.has_strangers => {
                let forks = self.forks.entry(task.tid).or_default();
                let behind = forks.partition_point(|(from, _)| *from <= time_ns);
                forks.insert(behind, (time_ns, task.ptid));
            }
            _ => {}
        }
    }

    /// Whether a sample is the command's. A task is known by its number until that is another's:
    /// what a task does when it ends comes after its EXIT record.
    pub(crate) fn keeps(&self, tid: Option<i32>, time_ns: Option<u64>) -> bool {
        if self.root == 0 {
            return true;
        }
        let time_ns = time_ns.unwrap_or(u64::MAX);
        match tid {
            Some(tid) if tid == self.root => self.exec_ns.is_some_and(|exec_ns| exec_ns <= time_ns),
            Some(tid) => !self.has_strangers || self.descends(tid, time_ns),
            None => !self.has_strangers,
        }
    }

    fn descends(&self, mut tid: i32, mut time_ns: u64) -> bool {
        for _ in 0..LONGEST_DESCENT {
            if tid == self.root {
                return self.exec_ns.is_some_and(|exec_ns| exec_ns <= time_ns);
            }
            let Some(forks) = self.forks.get(&tid) else { return false };
            let behind = forks.partition_point(|(from, _)| *from <= time_ns);
            let Some(&(from, parent)) = behind.checked_sub(1).and_then(|before| forks.get(before))
            else {
                return false;
            };
            (tid, time_ns) = (parent, from);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use tare_format::record::{Comm, Task};

    use super::*;

    fn fork(tid: i32, ptid: i32, time_ns: u64) -> Record<'static> {
        Record::Fork(Task { pid: tid, ppid: ptid, tid, ptid, time_ns })
    }

    fn see(family: &mut Family, records: &[(u64, Record<'_>)]) {
        records.iter().for_each(|(time_ns, record)| family.see(record, *time_ns));
    }

    const EXEC: Record<'static> = Record::Comm(Comm { pid: 7, tid: 7, comm: b"sh", is_exec: true });

    #[test]
    fn strangers_are_left_out_and_so_is_what_came_before_exec() {
        let mut family = Family { root: 7, has_strangers: true, ..Family::default() };
        see(
            &mut family,
            &[
                (30, fork(9, 8, 30)),
                (20, fork(8, 7, 20)),
                (60, EXEC),
                (10, EXEC),
                (40, fork(9, 50, 40)),
                (15, fork(51, 50, 15)),
            ],
        );
        let keeps = |tid, time_ns| family.keeps(Some(tid), Some(time_ns));
        assert!(!keeps(7, 9) && keeps(7, 10) && keeps(8, 20) && !keeps(8, 19) && keeps(9, 39));
        assert!(!keeps(9, 40), "the number is another task's now");
        assert!(!keeps(51, 90) && !keeps(50, 90) && !family.keeps(None, Some(90)));
    }

    #[test]
    fn in_its_own_cgroup_all_but_what_came_before_exec_is_the_commands() {
        let mut family = Family { root: 7, ..Family::default() };
        assert!(!family.keeps(Some(7), Some(5)), "killed before it executed anything");
        see(&mut family, &[(10, EXEC)]);
        assert!(
            family.keeps(Some(99), Some(5))
                && family.keeps(None, None)
                && family.keeps(Some(7), Some(10))
                && !family.keeps(Some(7), Some(9))
        );
        assert!(Family::default().keeps(Some(7), Some(0)));
    }

    #[test]
    fn tasks_that_descend_from_each_other_are_nobodys() {
        let mut family = Family { root: 7, has_strangers: true, ..Family::default() };
        see(&mut family, &[(5, fork(1, 2, 5)), (5, fork(2, 1, 5))]);
        assert!(!family.keeps(Some(1), Some(9)));
    }
}
