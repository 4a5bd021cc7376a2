//! Decodes samples and thread records into task events.

use std::collections::{HashMap, HashSet};

use tare_format::abi::bindings::{PERF_CONTEXT_MAX, PERF_SAMPLE_REGS_ABI_32};
use tare_format::record::{Events, RawRecord, Record, Sample, kind};
use tare_format::tracepoint::NoNames;
use tare_format::{Endian, printable};
use tare_kernel::bpf::{Call, CallRecord, FollowedTasks, FutexStack, TaskEvent};
use tare_kernel::functions::ProbeCall;

use super::open::{Kind, OpenTracepoints};
use super::{InterveningEvent, PerfRecord};
use crate::names::CallNames;
use crate::stacks::Stacks;

/// Kind of records from BPF programs, which share the queue with the kernel's.
pub(super) const CALL: u32 = 0x7472_6163;
/// Kind of copied stacks from BPF programs.
pub(super) const COPY: u32 = 0x636f_7079;
/// Kind of records from BPF programs on functions.
pub(super) const FUNCTION: u32 = 0x7472_6164;

const SIGKILL: u32 = 9;
/// A status that wait(2) has only for tasks that continue. It stands for: killed by some signal.
pub(crate) const KILLED: u32 = 0x7f;

/// State of a thread.
#[derive(Debug, Default)]
struct Task {
    /// The call in progress, and its start.
    call: Option<(Call, u64)>,
    /// The exit code that the thread passed.
    exit: Option<u32>,
    /// The last signal without a handler.
    deadly: Option<u32>,
    /// Time it left a CPU, in nanoseconds of the events' clock.
    off: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Decoder {
    kinds: Vec<Kind>,
    layouts: Events,
    /// The child that will execute the command.
    waiting: Option<u32>,
    own: u32,
    tasks: HashMap<u32, Task>,
    /// Exit codes that processes passed.
    groups: HashMap<u32, u32>,
    calls: Numbers,
    /// BPF programs report calls, forks and exits; only events between calls come from here.
    only_between: bool,
    stacks: Option<Stacks>,
    missing: u64,
}

/// Numbers of the calls that are treated specially.
#[derive(Debug)]
struct Numbers {
    execve: HashSet<Call>,
    exit: HashSet<Call>,
    exit_group: HashSet<Call>,
}

impl Numbers {
    fn new() -> Self {
        let names = CallNames::default();
        let of = |wanted: &str| {
            names.calls().filter(|(_, name)| *name == wanted).map(|(call, _)| call).collect()
        };
        Self { execve: of("execve"), exit: of("exit"), exit_group: of("exit_group") }
    }
}

/// The part that every sample has.
#[derive(Clone, Copy)]
struct SampleHeader {
    time_ns: u64,
    tid: u32,
    process: u32,
    cgroup: u64,
}

impl SampleHeader {
    fn record<'a>(&self, event: TaskEvent<'a>) -> PerfRecord<'a> {
        let Self { time_ns, tid, process, cgroup } = *self;
        PerfRecord::Record {
            record: CallRecord { time_ns, tid, process, missed: 0, event },
            cgroup,
        }
    }

    fn between<'a>(&self, what: InterveningEvent<'a>) -> PerfRecord<'a> {
        let Self { time_ns, tid, process, .. } = *self;
        PerfRecord::Between { time_ns, tid, process, what }
    }
}

impl Decoder {
    pub(super) fn new(
        opened: &OpenTracepoints,
        follow: &FollowedTasks,
        stacks: Option<Stacks>,
    ) -> Self {
        let waiting = match follow {
            FollowedTasks::Command(child) | FollowedTasks::All(Some(child)) => {
                u32::try_from(*child).ok()
            }
            _ => None,
        };
        Self {
            kinds: opened.kinds.clone(),
            layouts: opened.rings.layouts().clone(),
            waiting,
            own: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
            tasks: HashMap::new(),
            groups: HashMap::new(),
            calls: Numbers::new(),
            only_between: !opened
                .kinds
                .iter()
                .any(|kind| matches!(kind, Kind::Enter | Kind::Raw(_))),
            stacks,
            missing: 0,
        }
    }

    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Calls `each` with the event that a record describes, if any.
    pub(super) fn decode<E>(
        &mut self,
        record: &RawRecord<'_>,
        time_ns: u64,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if record.kind == CALL {
            let Some(record) = CallRecord::parse(record.body) else { return Ok(()) };
            if let TaskEvent::Enter { call, .. } = record.event {
                self.begins(record.tid, call);
            }
            return each(PerfRecord::Record { record, cgroup: 0 });
        }
        if record.kind == COPY {
            let copy = FutexStack::parse(record.body).zip(self.stacks.as_mut());
            let Some((copy, stacks)) = copy else { return Ok(()) };
            return each(PerfRecord::Copied { chain: copy.chain, frames: &stacks.of_copy(&copy) });
        }
        if record.kind == FUNCTION {
            let Some(call) = ProbeCall::parse(record.body) else { return Ok(()) };
            let process = i32::try_from(call.process).unwrap_or(0);
            let frames = match (&mut self.stacks, &call.stack) {
                (Some(stacks), Some(stack)) => stacks.callers(process, stack),
                _ => Vec::new(),
            };
            return each(PerfRecord::Function { call, frames: &frames });
        }
        if record.kind == kind::PERF_RECORD_SAMPLE {
            return self.sample(record, each);
        }
        self.of_thread(record, time_ns, each)
    }

    /// Decodes a record other than a sample.
    fn of_thread<E>(
        &mut self,
        record: &RawRecord<'_>,
        time_ns: u64,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let layout = self.layouts.layouts().first().copied().unwrap_or_default();
        let id = layout.sample_id(record);
        let number = |id: Option<i32>| id.unwrap_or(0).unsigned_abs();
        let place =
            SampleHeader { time_ns, tid: number(id.tid), process: number(id.pid), cgroup: 0 };
        // A record that can't be decoded is shorter than the kernel makes it.
        let Ok(decoded) = record.decode() else { return Ok(()) };
        self.learn_mappings(&decoded);
        if let Record::Comm(comm) = &decoded
            && comm.is_exec
            && self.waiting == Some(comm.tid.unsigned_abs())
        {
            self.waiting = None; // its execve was not among the calls that are seen
        }
        match decoded {
            Record::Lost(lost) => {
                self.missing += lost.lost;
                each(PerfRecord::Missing(lost.lost))
            }
            _ if self.is_left_out(&place) => Ok(()),
            Record::Fork(_) | Record::Exit(_) if self.only_between => Ok(()),
            Record::Comm(comm) => each(PerfRecord::Name {
                tid: comm.tid.unsigned_abs(),
                process: comm.pid.unsigned_abs(),
                comm: comm.comm,
            }),
            Record::Fork(task) if task.ptid != 0 || task.ppid != 0 => {
                let place = SampleHeader {
                    tid: task.ptid.unsigned_abs(),
                    process: task.ppid.unsigned_abs(),
                    ..place
                };
                let tid = task.tid.unsigned_abs();
                let process = task.pid.unsigned_abs();
                if tid == process {
                    // The process with this id is a new one.
                    self.groups.remove(&process);
                }
                each(place.record(TaskEvent::Fork { tid, process }))
            }
            Record::Exit(task) => {
                let tid = task.tid.unsigned_abs();
                let process = task.pid.unsigned_abs();
                let status = self.status(tid, process);
                each(SampleHeader { tid, process, ..place }.record(TaskEvent::End(status)))
            }
            Record::Switch(switch) => self.switch(place, switch.is_out, switch.is_preempted, each),
            _ => Ok(()),
        }
    }

    /// Records what is mapped where.
    fn learn_mappings(&mut self, record: &Record<'_>) {
        let Some(stacks) = &mut self.stacks else { return };
        match record {
            Record::Mmap(mmap) => stacks.map(mmap),
            Record::Comm(comm) if comm.is_exec => stacks.forget(comm.pid),
            Record::Fork(task) => stacks.fork(task.ppid, task.pid),
            Record::Exit(task) if task.pid == task.tid => stacks.forget(task.pid),
            _ => {}
        }
    }

    /// Whether this is the child before its execve, or this process.
    fn is_left_out(&self, place: &SampleHeader) -> bool {
        self.waiting == Some(place.tid) || place.process == self.own
    }

    /// Begins a call. From the child's execve on, calls belong to the command.
    fn begins(&mut self, tid: u32, call: Call) {
        if self.waiting == Some(tid) && self.calls.execve.contains(&call) {
            self.waiting = None;
        }
    }

    fn switch<E>(
        &mut self,
        place: SampleHeader,
        is_out: bool,
        is_preempted: bool,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let off = &mut self.tasks.entry(place.tid).or_default().off;
        if is_out {
            *off = Some(place.time_ns);
            return each(place.between(InterveningEvent::SwitchedOut { is_preempted }));
        }
        let off_ns = off.take().map(|since| place.time_ns.saturating_sub(since));
        each(place.between(InterveningEvent::SwitchedIn { off_ns }))
    }

    /// Returns how a thread ended, as a wait(2) status: from its own or its process's exit code,
    /// else from the last signal.
    fn status(&mut self, tid: u32, process: u32) -> u32 {
        let task = self.tasks.remove(&tid).unwrap_or_default();
        let group = self.groups.get(&process).copied();
        match (task.exit.or(group), task.deadly) {
            (Some(code), _) => (code & 0xff) << 8,
            // The kernel delivers SIGKILL instead of the signal that ends the whole process, so the
            // signal is unknown.
            (None, Some(SIGKILL)) => KILLED,
            (None, Some(signal)) => signal,
            (None, None) => 0,
        }
    }

    fn sample<E>(
        &mut self,
        record: &RawRecord<'_>,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(event) = self.layouts.index_of(record) else { return Ok(()) };
        let Ok(sample) = Sample::from_record(record, &self.layouts) else { return Ok(()) };
        let number = |id: Option<i32>| id.unwrap_or(0).unsigned_abs();
        let place = SampleHeader {
            time_ns: sample.head.time_ns.unwrap_or(0),
            tid: number(sample.head.tid),
            process: number(sample.head.pid),
            cgroup: sample.cgroup.unwrap_or(0),
        };
        if matches!(self.kinds.get(event), Some(Kind::Enter)) {
            return self.enter(place, &sample, each);
        }
        if let Some(Kind::Raw(event)) = self.kinds.get(event) {
            return self.raw(place, *event, &sample, each);
        }
        if self.is_left_out(&place) {
            return Ok(());
        }
        let raw = sample.raw.unwrap_or_default();
        match self.kinds.get(event) {
            Some(Kind::Stack) => self.stack(place, &sample, each),
            Some(Kind::Exit) => self.exit(place, raw, each),
            Some(Kind::Signal) => {
                let task = self.tasks.entry(place.tid).or_default();
                let signal = word(raw, 8);
                let handler = long(raw, 24);
                task.deadly = (handler == 0).then_some(signal);
                let info = raw.get(8..20).unwrap_or_default();
                if signal == SIGKILL {
                    return Ok(());
                }
                each(place.record(TaskEvent::Signal { number: signal, ignored: false, info }))
            }
            Some(Kind::Fault { major }) => {
                let address = sample.head.addr.unwrap_or(0);
                let ip = sample.head.ip.unwrap_or(0);
                each(place.between(InterveningEvent::Fault { is_major: *major, address, ip }))
            }
            Some(Kind::Tracepoint(point)) => {
                let mut text = Vec::new();
                if let Some(format) = &point.format {
                    format.print(raw, Endian::NATIVE, &mut NoNames, &mut text);
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                let text = printable(&text);
                each(place.between(InterveningEvent::Tracepoint { name: &point.name, text: &text }))
            }
            _ => Ok(()),
        }
    }

    fn raw<E>(
        &self,
        place: SampleHeader,
        event: usize,
        sample: &Sample<'_>,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let chain = sample.callchain.iter().flat_map(|chain| (0..).map_while(|at| chain.get(at)));
        let chain: Vec<u64> = chain.filter(|address| *address < PERF_CONTEXT_MAX).collect();
        let SampleHeader { time_ns, tid, process, .. } = place;
        each(PerfRecord::Raw {
            time_ns,
            cpu: sample.head.cpu.unwrap_or(0),
            tid,
            process,
            is_left_out: self.is_left_out(&place),
            event,
            raw: sample.raw.unwrap_or_default(),
            chain: &chain,
        })
    }

    fn enter<E>(
        &mut self,
        place: SampleHeader,
        sample: &Sample<'_>,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let raw = sample.raw.unwrap_or_default();
        let compat =
            sample.regs_user.is_some_and(|regs| regs.abi == u64::from(PERF_SAMPLE_REGS_ABI_32));
        let call = call(long(raw, 8), compat);
        self.begins(place.tid, call);
        if self.is_left_out(&place) {
            return Ok(());
        }
        self.stack(place, sample, each)?;
        let mut values: [u64; 6] = std::array::from_fn(|at| long(raw, 16 + 8 * at));
        if compat {
            values = values.map(|value| value & 0xffff_ffff);
        }
        let code = u32::try_from(values[0] & 0xff).unwrap_or(0);
        let task = self.tasks.entry(place.tid).or_default();
        task.call = Some((call, place.time_ns));
        if self.calls.exit.contains(&call) {
            task.exit = Some(code);
        }
        if self.calls.exit_group.contains(&call) {
            self.groups.insert(place.process, code);
        }
        each(place.record(TaskEvent::Enter { call, values, memory: &[] }))
    }

    fn stack<E>(
        &mut self,
        place: SampleHeader,
        sample: &Sample<'_>,
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(stacks) = &mut self.stacks else { return Ok(()) };
        each(PerfRecord::Stack { tid: place.tid, frames: &stacks.lines(sample) })
    }

    fn exit<E>(
        &mut self,
        place: SampleHeader,
        raw: &[u8],
        each: &mut impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let task = self.tasks.entry(place.tid).or_default();
        // The call began before the trace.
        let Some((call, began_ns)) = task.call.take() else { return Ok(()) };
        let result = long(raw, 16).cast_signed();
        let duration_ns = place.time_ns.saturating_sub(began_ns);
        each(place.record(TaskEvent::Exit { call, result, duration_ns, memory: &[] }))
    }
}

/// Returns the call with this number, or the one that stands for all without a name.
fn call(number: u64, compat: bool) -> Call {
    let number = u32::try_from(number).unwrap_or(Call::BEYOND).min(Call::BEYOND);
    Call { number, compat }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}
