//! The scheduler's tracepoints as perf events of the whole machine, because a task is woken, and
//! switched in, while another one runs.
//!
//! Some kernels deliver no samples of the tracepoints from the idle threads of all CPUs but the
//! first (seen on Linux 6.18, in perf's recordings as well). A thread that gets an idle CPU is
//! therefore known by its switch record.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;

use tare_format::tracepoint::Format;
use tare_kernel::bpf::{FollowedTasks, TaskEvent};
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_kernel::tracefs::Tracefs;

use super::decode::Tracepoints;
use super::event::{SchedAction, State, Task};
use crate::perf::{PerfError, PerfEvents, PerfOptions};
use crate::record::{InterveningEvent, TraceRecord};

const EVENTS: [(&str, &str); 4] = [
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_migrate_task"),
];

/// The start of an idle thread's name.
const IDLE: &[u8] = b"swapper";

/// The open events, and the followed threads.
#[derive(Debug)]
pub(super) struct PerfSched {
    events: PerfEvents,
    tracepoints: Tracepoints,
    followed: FollowedThreads,
    running: RunningThreads,
}

/// The thread that each CPU runs, as far as the tracepoint's samples and switch records say.
#[derive(Debug, Default)]
struct RunningThreads(HashMap<u32, i32>);

impl RunningThreads {
    /// Takes in a sample of the tracepoint.
    fn sampled(&mut self, action: &SchedAction<'_>) {
        if let SchedAction::Switch { cpu, next, .. } = action {
            self.0.insert(*cpu, next.tid);
        }
    }

    /// Takes in a thread's switch record. Returns whether the switch had no sample.
    fn switched_in(&mut self, cpu: u32, tid: i32) -> bool {
        tid != 0 && self.0.insert(cpu, tid) != Some(tid)
    }
}

/// The selected threads.
#[derive(Debug)]
struct FollowedThreads {
    all: bool,
    own: i32,
    /// The child that will execute the command.
    waiting: Option<i32>,
    tids: HashSet<i32>,
    /// Process of each thread seen.
    processes: HashMap<i32, i32>,
    /// Each thread's name when it last had a CPU, up to a NUL byte.
    names: HashMap<i32, [u8; 16]>,
}

impl PerfSched {
    pub(super) fn start(
        follow: &FollowedTasks,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<Self, PerfError> {
        let mut followed = FollowedThreads {
            all: matches!(follow, FollowedTasks::All(_)),
            own: rustix::process::getpid().as_raw_nonzero().get(),
            waiting: match follow {
                FollowedTasks::Command(child) => Some(*child),
                FollowedTasks::All(child) => *child,
                FollowedTasks::Processes(_) => None,
            },
            tids: HashSet::new(),
            processes: HashMap::new(),
            names: HashMap::new(),
        };
        followed.processes.insert(followed.own, followed.own);
        if let FollowedTasks::Processes(pids) = follow {
            for &pid in pids {
                let threads = procfs::threads(host, pid).map_err(|_| PerfError::NoProcess(pid))?;
                followed.tids.extend(&threads);
                followed.processes.extend(threads.into_iter().map(|tid| (tid, pid)));
            }
        }
        let tracefs = Tracefs::find(host)?;
        let mut tracepoints = Tracepoints::default();
        for (system, name) in EVENTS {
            let format = tracefs.format(system, name)?;
            let format = Format::parse(&String::from_utf8_lossy(&format));
            tracepoints.push(&format!("{system}:{name}"), format.as_ref());
        }
        let wanted = PerfOptions { raw: EVENTS.to_vec(), switches: true, ..PerfOptions::default() };
        let whole = FollowedTasks::All(followed.waiting);
        let events = PerfEvents::start(&wanted, &whole, ring_bytes, host)?;
        Ok(Self { events, tracepoints, followed, running: RunningThreads::default() })
    }

    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.files()
    }

    pub(super) fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(u64, &SchedAction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { events, tracepoints, followed, running } = self;
        if is_over {
            events.stop();
        }
        events.drain(is_over, |seen| match seen {
            TraceRecord::Raw { time_ns, cpu, tid, process, event, raw, .. } => {
                let tid = tid.cast_signed();
                let name = followed.names.get(&tid).copied().unwrap_or_default();
                let comm = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let current = Task { tid, comm, ..Task::default() };
                followed.processes.insert(current.tid, process.cast_signed());
                let Some(mut action) = tracepoints.decode(event, raw, current, cpu) else {
                    return Ok(());
                };
                followed.complete(&mut action);
                followed.learn_names(&action);
                running.sampled(&action);
                each(time_ns, &action)
            }
            TraceRecord::Between { time_ns, tid, process, event } => {
                let InterveningEvent::SwitchedIn { cpu, .. } = event else { return Ok(()) };
                let tid = tid.cast_signed();
                if !running.switched_in(cpu, tid) {
                    return Ok(());
                }
                followed.processes.insert(tid, process.cast_signed());
                let name = followed.names.get(&tid).copied().unwrap_or_default();
                let comm = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let next = Task { tid, comm, ..Task::default() };
                let prev = Task { comm: IDLE, ..Task::default() };
                let mut action = SchedAction::Switch { cpu, prev, state: State(0), next };
                followed.complete(&mut action);
                each(time_ns, &action)
            }
            TraceRecord::Name { tid, comm, .. } => {
                followed.rename(tid.cast_signed(), comm);
                Ok(())
            }
            TraceRecord::Task { record, .. } => match record.event {
                TaskEvent::Fork { tid, process } => {
                    followed.fork(
                        record.tid.cast_signed(),
                        tid.cast_signed(),
                        process.cast_signed(),
                    );
                    let task =
                        Task { tid: tid.cast_signed(), is_selected: true, ..Task::default() };
                    each(record.time_ns, &SchedAction::Begin(task))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        })
    }

    pub(super) fn missing(&self) -> u64 {
        self.events.missing()
    }
}

impl FollowedThreads {
    /// Takes in a thread's new name. The command's execve renames it.
    fn rename(&mut self, tid: i32, comm: &[u8]) {
        if self.waiting == Some(tid) {
            self.waiting = None;
            self.tids.insert(tid);
        }
        self.name(tid, comm);
    }

    fn name(&mut self, tid: i32, comm: &[u8]) {
        let mut name = [0; 16];
        name.iter_mut().zip(comm).for_each(|(to, from)| *to = *from);
        self.names.insert(tid, name);
    }

    /// Adds a new thread. Its id may have been another thread's.
    fn fork(&mut self, parent: i32, tid: i32, process: i32) {
        self.processes.insert(tid, process);
        // Until it renames itself it has its parent's name.
        if let Some(name) = self.names.get(&parent) {
            self.names.insert(tid, *name);
        }
        if self.tids.contains(&parent) {
            self.tids.insert(tid);
        } else {
            self.tids.remove(&tid);
        }
    }

    fn learn_names(&mut self, action: &SchedAction<'_>) {
        let SchedAction::Switch { prev, next, .. } = action else { return };
        for task in [prev, next] {
            self.name(task.tid, task.comm);
        }
    }

    fn complete(&self, action: &mut SchedAction<'_>) {
        let complete = |task: &mut Task<'_>| {
            task.pid = self.processes.get(&task.tid).copied();
            let is_others = task.pid != Some(self.own) && self.waiting != Some(task.tid);
            task.is_selected = (self.all || self.tids.contains(&task.tid)) && is_others;
        };
        match action {
            SchedAction::Switch { prev, next, .. } => {
                complete(prev);
                complete(next);
            }
            SchedAction::Wakeup { waker: other, task, .. }
            | SchedAction::Migrate { mover: other, task, .. } => {
                complete(other);
                complete(task);
            }
            SchedAction::Begin(task) => complete(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gets_an_idle_cpu_is_switched_in_by_its_record() {
        let switch = |prev, next| SchedAction::Switch {
            cpu: 1,
            prev: Task { tid: prev, ..Task::default() },
            state: State(1),
            next: Task { tid: next, ..Task::default() },
        };
        let mut running = RunningThreads::default();
        running.sampled(&switch(7, 0));
        assert!(running.switched_in(1, 7), "the idle thread had no sample");
        running.sampled(&switch(7, 8));
        assert!(!running.switched_in(1, 8), "this one had");
        running.sampled(&switch(8, 0));
        assert!(!running.switched_in(1, 0), "the idle thread itself");
        assert!(running.switched_in(1, 8), "the same thread once more");
        assert!(running.switched_in(0, 8), "another CPU");
    }
}
