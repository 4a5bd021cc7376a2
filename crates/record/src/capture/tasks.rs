//! The tasks that ran while a command was recorded, with the sums of their samples' periods.

use std::collections::{HashMap, HashSet};

use tare_format::record::{Record, Task};

/// The tasks in the records of one ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    events: usize,
    places: HashMap<i32, usize>,
    /// Sums of periods: one per event for the first task, then for the second.
    periods: Vec<u64>,
    /// The task of the last sample, with its place: consecutive samples are mostly of one task.
    last: Option<(i32, usize)>,
    /// Tasks that were forked, and their parents.
    born: Vec<(i32, i32)>,
    /// Number of tasks that exited.
    ended: u64,
}

/// The tasks of a command, summed up over all rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandTasks {
    pub(crate) tasks: u64,
    /// Number of tasks without a sample.
    pub(crate) unseen: u64,
    /// Sum of the samples' periods, by event.
    pub(crate) periods: Vec<u64>,
    /// Number of recorded tasks, also other than the command's, that have not exited. A thread that
    /// executes a program takes over the number of its process's first thread, so only the count is
    /// reliable.
    pub(crate) not_ended: u64,
}

impl Tasks {
    pub(crate) fn for_events(events: usize) -> Self {
        Self { events, ..Self::default() }
    }

    /// Adds a sample of a task.
    pub(crate) fn sample(&mut self, tid: i32, event: usize, period: u64) {
        let place = match self.last {
            Some((last, place)) if last == tid => place,
            _ => {
                let new = self.places.len();
                let events = self.events;
                let place = *self.places.entry(tid).or_insert(new);
                if place == new {
                    self.periods.resize((new + 1) * events, 0);
                }
                self.last = Some((tid, place));
                place
            }
        };
        if let Some(sum) = self.periods.get_mut(place * self.events + event) {
            *sum = sum.saturating_add(period);
        }
    }

    /// Notes the task and the parent of a fork, and counts exits. Ignores other records.
    pub(crate) fn see(&mut self, record: &Record<'_>) {
        match record {
            Record::Fork(Task { tid, ptid, .. }) => self.born.push((*tid, *ptid)),
            Record::Exit(_) => self.ended += 1,
            _ => {}
        }
    }
}

impl CommandTasks {
    /// Sums up the tasks of all rings. `only_descendants`: events were recorded for all tasks, so
    /// only `root` and its descendants count. A number that a task of the command and others have
    /// had counts for the command.
    pub(crate) fn sum_up<'a>(
        rings: impl Iterator<Item = &'a Tasks> + Clone,
        root: i32,
        events: usize,
        only_descendants: bool,
    ) -> Self {
        let born: Vec<(i32, i32)> =
            rings.clone().flat_map(|tasks| tasks.born.iter().copied()).collect();
        let members = members(&born, root, only_descendants);
        let mut family = Self { periods: vec![0; events], ..Self::default() };
        let mut seen = HashSet::new();
        for tasks in rings {
            for (&tid, &place) in
                tasks.places.iter().filter(|(tid, _)| !only_descendants || members.contains(tid))
            {
                seen.insert(tid);
                let periods = tasks.periods.get(place * events..).unwrap_or_default();
                family
                    .periods
                    .iter_mut()
                    .zip(periods)
                    .for_each(|(sum, period)| *sum = sum.saturating_add(*period));
            }
            family.not_ended = family.not_ended.saturating_add(tasks.ended);
        }
        let births = born.iter().filter(|(tid, _)| members.contains(tid)).count() as u64;
        family.tasks = births + 1;
        family.unseen = members.iter().filter(|tid| !seen.contains(tid)).count() as u64;
        family.not_ended = (born.len() as u64 + 1).saturating_sub(family.not_ended);
        family
    }
}

/// Returns the tasks of the command. Rings don't show in which order tasks were forked on different
/// CPUs, so descendants are found through their parents.
fn members(born: &[(i32, i32)], root: i32, only_descendants: bool) -> HashSet<i32> {
    let mut members = HashSet::from([root]);
    if !only_descendants {
        members.extend(born.iter().map(|(tid, _)| *tid));
        return members;
    }
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    born.iter().for_each(|(tid, ptid)| children.entry(*ptid).or_default().push(*tid));
    let mut to_do = vec![root];
    while let Some(parent) = to_do.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if members.insert(child) {
                to_do.push(child);
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(tid: i32, ptid: i32) -> Record<'static> {
        Record::Fork(Task { pid: tid, ppid: ptid, tid, ptid, time_ns: 0 })
    }

    fn exit(tid: i32) -> Record<'static> {
        Record::Exit(Task { pid: tid, ppid: 0, tid, ptid: 0, time_ns: 0 })
    }

    /// Task 7 forks 8 and 9, 9 forks 10; 50 and 51 are strangers. The fork of 10 is in the second
    /// ring.
    #[test]
    fn only_descendants_of_the_command_count() {
        let mut one = Tasks::for_events(2);
        let mut two = Tasks::for_events(2);
        [fork(8, 7), fork(9, 7), fork(51, 50), exit(8)].iter().for_each(|record| one.see(record));
        [fork(10, 9), exit(7), exit(10)].iter().for_each(|record| two.see(record));
        one.sample(7, 0, 100);
        one.sample(50, 0, 1000);
        two.sample(10, 1, 5);
        two.sample(10, 0, 20);
        let system = CommandTasks::sum_up([&one, &two].into_iter(), 7, 2, true);
        assert_eq!(
            system,
            CommandTasks { tasks: 4, unseen: 2, periods: vec![120, 5], not_ended: 2 }
        );
        let all = CommandTasks::sum_up([&one, &two].into_iter(), 7, 2, false);
        assert_eq!((all.tasks, all.periods, all.not_ended), (5, vec![1120, 5], 2));
    }
}
