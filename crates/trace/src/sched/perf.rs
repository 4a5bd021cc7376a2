//! The scheduler's tracepoints as perf events of the whole machine, because a task is woken, and
//! switched in, while another one runs.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;

use tare_format::tracepoint::Format;
use tare_kernel::bpf::{FollowedTasks, TaskEvent};
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_kernel::tracefs::Tracefs;

use super::decode::Tracepoints;
use super::event::{SchedAction, Task};
use crate::perf::{PerfError, PerfEvents, PerfOptions};
use crate::record::TraceRecord;

const EVENTS: [(&str, &str); 4] = [
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_migrate_task"),
];

/// The open events, and the followed threads.
#[derive(Debug)]
pub(super) struct PerfSched {
    events: PerfEvents,
    tracepoints: Tracepoints,
    followed: FollowedThreads,
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
        let wanted = PerfOptions { raw: EVENTS.to_vec(), ..PerfOptions::default() };
        let whole = FollowedTasks::All(followed.waiting);
        let events = PerfEvents::start(&wanted, &whole, ring_bytes, host)?;
        Ok(Self { events, tracepoints, followed })
    }

    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.files()
    }

    pub(super) fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(u64, &SchedAction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { events, tracepoints, followed } = self;
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
                each(time_ns, &action)
            }
            // The command's execve renames it.
            TraceRecord::Name { tid, .. } if followed.waiting == Some(tid.cast_signed()) => {
                followed.waiting = None;
                followed.tids.insert(tid.cast_signed());
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
    /// Adds a new thread. Its id may have been another thread's.
    fn fork(&mut self, parent: i32, tid: i32, process: i32) {
        self.processes.insert(tid, process);
        if self.tids.contains(&parent) {
            self.tids.insert(tid);
        } else {
            self.tids.remove(&tid);
        }
    }

    fn learn_names(&mut self, action: &SchedAction<'_>) {
        let SchedAction::Switch { prev, next, .. } = action else { return };
        for task in [prev, next] {
            let mut name = [0; 16];
            name.iter_mut().zip(task.comm).for_each(|(to, from)| *to = *from);
            self.names.insert(task.tid, name);
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
