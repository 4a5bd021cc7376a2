//! System calls by ptrace(2), for users who may use neither BPF programs nor perf events. A thread
//! of its own stops the traced tasks at each call, copies the arguments, and passes records on.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tare_kernel::bpf::{
    Call, CallBeginning, CallPlan, CallRecord, CopyMoment, FollowedTasks, SignalFate, TaskEvent,
    UserMemory,
};
use tare_kernel::ptrace::{self, TraceeStop};
use tare_kernel::timestamp::monotonic_ns;

use crate::names::CallNames;
use crate::record::TraceRecord;

/// Most records that wait for the reader; then the traced tasks wait, too.
const WAITING_RECORDS: usize = 10_000;
/// Longest time that a task waits for the reader. Without a limit, tare could wait for the end of a
/// task that waits for tare.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Records after which the reader is woken.
const WAKE_AFTER: u64 = 1000;

/// A record of a traced task.
#[derive(Debug)]
struct PtraceRecord {
    time_ns: u64,
    tid: u32,
    process: u32,
    event: PtraceEvent,
}

#[derive(Debug)]
enum PtraceEvent {
    Enter { call: Call, values: [u64; 6], memory: Vec<u8> },
    Exit { call: Call, result: i64, duration_ns: u64, memory: Vec<u8> },
    Fork { tid: u32, process: u32 },
    End(u32),
    Signal { number: u32, info: [u8; 48] },
}

impl PtraceEvent {
    fn as_task_event(&self) -> TaskEvent<'_> {
        match self {
            Self::Enter { call, values, memory } => TaskEvent::Enter {
                call: *call,
                values: *values,
                memory,
                beginning: CallBeginning::Seen,
            },
            Self::Exit { call, result, duration_ns, memory } => {
                TaskEvent::Exit { call: *call, result: *result, duration_ns: *duration_ns, memory }
            }
            Self::Fork { tid, process } => TaskEvent::Fork { tid: *tid, process: *process },
            Self::End(status) => TaskEvent::End(*status),
            Self::Signal { number, info } => {
                TaskEvent::Signal { number: *number, fate: SignalFate::Arrived, info }
            }
        }
    }
}

/// The calls of tasks that are traced by ptrace(2). Tracing ends with this process.
#[derive(Debug)]
pub(crate) struct PtraceCalls {
    records: Receiver<PtraceRecord>,
    wake: OwnedFd,
    missing: Arc<AtomicU64>,
}

impl PtraceCalls {
    /// Starts tracing. Only calls with a plan are recorded.
    ///
    /// # Errors
    /// `EPERM` if a task may not be traced or has another tracer, or if all tasks are to be traced;
    /// `ESRCH` if a task has exited; otherwise the error of the descriptor or the thread that can't
    /// be created.
    pub(crate) fn start(
        plans: HashMap<Call, CallPlan>,
        follow: &FollowedTasks,
    ) -> Result<Self, Errno> {
        let (targets, waiting) = match follow {
            FollowedTasks::Command(child) => (vec![(*child, *child)], Some(*child)),
            FollowedTasks::Processes(pids) => {
                (pids.iter().flat_map(|pid| threads(*pid)).collect(), None)
            }
            FollowedTasks::All(_) => return Err(Errno::PERM),
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (sender, records) = sync_channel(WAITING_RECORDS);
        let (started, start) = sync_channel(1);
        let missing = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&missing);
        let waker = wake.try_clone().map_err(|_| Errno::MFILE)?;
        let run = move || {
            let execve = CallNames::default();
            let execve = execve.calls().filter(|(_, name)| *name == "execve").map(|(call, _)| call);
            let mut tracer = PtraceThread {
                plans,
                execve: execve.collect(),
                tasks: targets.iter().map(|(tid, pid)| (*tid, TracedTask::new(*pid))).collect(),
                memories: HashMap::new(),
                waiting,
                kept: waiting,
                output: RecordSender { sender, wake: waker, sent: 0, missing: lost },
            };
            let seized = targets.iter().try_for_each(|(tid, _)| ptrace::seize(*tid));
            let may_run = seized.is_ok();
            // The receiver is only gone if the trace is over.
            if started.send(seized).is_ok() && may_run {
                tracer.run();
            }
        };
        std::thread::Builder::new().spawn(run).map_err(|_| Errno::AGAIN)?;
        start.recv().unwrap_or(Err(Errno::AGAIN))?;
        Ok(Self { records, wake, missing })
    }

    /// Returns the descriptor that becomes readable when many records wait.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Number of records that the reader was too slow for.
    pub(crate) fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Calls `each` with the records so far.
    ///
    /// # Errors
    /// The first error of `each`.
    pub(crate) fn drain<E>(
        &mut self,
        mut each: impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Nothing to read is no error.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        while let Ok(owned) = self.records.try_recv() {
            let PtraceRecord { time_ns, tid, process, event } = &owned;
            let record = CallRecord {
                time_ns: *time_ns,
                tid: *tid,
                process: *process,
                missed: 0,
                event: event.as_task_event(),
            };
            each(TraceRecord::Task { record, cgroup: 0 })?;
        }
        Ok(())
    }
}

/// Returns the threads of a process, each with the process.
fn threads(pid: i32) -> Vec<(i32, i32)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tids = tasks.into_iter().flatten().flatten();
    tids.filter_map(|task| Some((task.file_name().to_str()?.parse().ok()?, pid))).collect()
}

/// Returns a thread's process.
fn process_of(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A traced task.
#[derive(Debug)]
struct TracedTask {
    process: i32,
    /// The call that it is in, its arguments, and its beginning.
    call: Option<(Call, [u64; 6], u64)>,
}

impl TracedTask {
    fn new(process: i32) -> Self {
        Self { process, call: None }
    }
}

/// Passes records to the reader.
#[derive(Debug)]
struct RecordSender {
    sender: SyncSender<PtraceRecord>,
    wake: OwnedFd,
    sent: u64,
    missing: Arc<AtomicU64>,
}

impl RecordSender {
    fn send(&mut self, time_ns: u64, task: (i32, i32), event: PtraceEvent) {
        let tid = task.0.cast_unsigned();
        let process = task.1.cast_unsigned();
        self.sent += 1;
        if self.sent.is_multiple_of(WAKE_AFTER) {
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
        let mut record = PtraceRecord { time_ns, tid, process, event };
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            match self.sender.try_send(record) {
                // Without a reader the trace is over, and the tasks run on.
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(_)) if Instant::now() > end => {
                    self.missing.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(TrySendError::Full(same)) => record = same,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The thread that traces.
#[derive(Debug)]
struct PtraceThread {
    plans: HashMap<Call, CallPlan>,
    execve: Vec<Call>,
    tasks: HashMap<i32, TracedTask>,
    /// By process.
    memories: HashMap<i32, UserMemory>,
    /// The child before its execve.
    waiting: Option<i32>,
    /// The child, whose exit status the main thread reads.
    kept: Option<i32>,
    output: RecordSender,
}

impl PtraceThread {
    /// Handles stops until no task is left.
    fn run(&mut self) {
        while let Ok((tid, stop)) = ptrace::wait_for_stop(self.kept) {
            let signal = match stop {
                TraceeStop::GroupStop => {
                    ptrace::listen(tid);
                    continue;
                }
                TraceeStop::Gone(status) => {
                    self.end(tid, status);
                    continue;
                }
                TraceeStop::Ending(status) => {
                    self.end(tid, status);
                    ptrace::detach(tid);
                    continue;
                }
                TraceeStop::Signal { number, info } => {
                    self.record(tid, PtraceEvent::Signal { number: number.cast_unsigned(), info });
                    number
                }
                TraceeStop::Enter { call, values } => {
                    self.enter(tid, call, values);
                    0
                }
                TraceeStop::Exit(result) => {
                    self.exit(tid, result);
                    0
                }
                TraceeStop::Started(new) => {
                    let process = self.task(new).process;
                    let new = new.cast_unsigned();
                    self.record(
                        tid,
                        PtraceEvent::Fork { tid: new, process: process.cast_unsigned() },
                    );
                    0
                }
                TraceeStop::Executed(former) => {
                    self.execute(tid, former);
                    0
                }
                TraceeStop::Other => 0,
            };
            ptrace::resume(tid, signal);
        }
    }

    /// Returns the task, which may not have been reported yet.
    fn task(&mut self, tid: i32) -> &mut TracedTask {
        self.tasks.entry(tid).or_insert_with(|| TracedTask::new(process_of(tid).unwrap_or(tid)))
    }

    /// Returns a call's plan. Numbers beyond the table have one in common.
    fn plan(&self, call: Call) -> Option<&CallPlan> {
        self.plans.get(&Call { number: call.number.min(Call::BEYOND), ..call })
    }

    fn record(&mut self, tid: i32, event: PtraceEvent) {
        if self.waiting != Some(tid) {
            let process = self.task(tid).process;
            self.output.send(monotonic_ns(), (tid, process), event);
        }
    }

    fn enter(&mut self, tid: i32, call: Call, values: [u64; 6]) {
        if self.waiting == Some(tid) {
            if !self.execve.contains(&call) {
                return;
            }
            self.waiting = None;
        }
        self.task(tid).call = Some((call, values, monotonic_ns()));
        if self.plan(call).is_some() {
            let memory = self.copy(tid, call, &values, CopyMoment::Enter);
            self.record(tid, PtraceEvent::Enter { call, values, memory });
        }
    }

    fn exit(&mut self, tid: i32, result: i64) {
        let Some((call, values, began_ns)) = self.task(tid).call.take() else { return };
        if self.plan(call).is_some() {
            let duration_ns = monotonic_ns().saturating_sub(began_ns);
            let memory = self.copy(tid, call, &values, CopyMoment::Exit(result));
            self.record(tid, PtraceEvent::Exit { call, result, duration_ns, memory });
        }
    }

    fn copy(&mut self, tid: i32, call: Call, values: &[u64; 6], moment: CopyMoment) -> Vec<u8> {
        let process = self.task(tid).process;
        if let std::collections::hash_map::Entry::Vacant(entry) = self.memories.entry(process) {
            UserMemory::open(tid, call.compat).map(|memory| entry.insert(memory));
        }
        let memory = self.memories.get(&process).zip(self.plan(call));
        memory.map(|(memory, plan)| memory.copy(plan, values, moment)).unwrap_or_default()
    }

    /// A process has another program. A thread other than its first, which called execve, has the
    /// first one's id from now on.
    fn execute(&mut self, tid: i32, former: i32) {
        let process = self.task(tid).process;
        self.memories.remove(&process);
        if former != tid
            && let Some(task) = self.tasks.remove(&former)
        {
            self.tasks.insert(tid, task);
        }
    }

    fn end(&mut self, tid: i32, status: u32) {
        if self.tasks.contains_key(&tid) {
            self.record(tid, PtraceEvent::End(status));
        }
        if let Some(task) = self.tasks.remove(&tid)
            && task.process == tid
        {
            self.memories.remove(&tid);
        }
    }
}
