//! Decodes samples and thread records into trace records.

use std::collections::{HashMap, HashSet};

use tare_format::abi::bindings::{PERF_CONTEXT_MAX, PERF_SAMPLE_REGS_ABI_32};
use tare_format::record::{Events, RawRecord, Record, Sample, Switch, kind};
use tare_format::tracepoint::NoNames;
use tare_format::{Endian, printable};
use tare_kernel::bpf::{Call, CallBeginning, CallRecord, FollowedTasks, SignalFate, TaskEvent};

use super::open::{OpenTracepoints, TraceEventKind, argument_registers};
use crate::names::CallNames;
use crate::record::{InterveningEvent, TraceRecord};
use crate::stacks::Stacks;

const SIGKILL: u32 = 9;
/// A status that wait(2) never has for a task that has ended. It stands for: killed by some signal.
pub(crate) const KILLED: u32 = 0x7f;

/// State of a thread.
#[derive(Debug)]
struct ThreadState {
    /// The call in progress, and its start in nanoseconds of `CLOCK_MONOTONIC`.
    call: Option<(Call, u64)>,
    /// How the call is known that returns without a recorded beginning; `None` for a new thread,
    /// which returns from its parent's fork first.
    unrecorded: Option<CallBeginning>,
    /// The exit code that the thread passed to exit(2).
    exit_code: Option<u32>,
    /// The last signal, if it had no handler.
    deadly_signal: Option<u32>,
    /// Time it left a CPU, in nanoseconds of `CLOCK_MONOTONIC`.
    off_since_ns: Option<u64>,
}

impl Default for ThreadState {
    fn default() -> Self {
        Self {
            call: None,
            unrecorded: Some(CallBeginning::BeforeTrace),
            exit_code: None,
            deadly_signal: None,
            off_since_ns: None,
        }
    }
}

/// Turns samples and records about threads into trace records.
#[derive(Debug)]
pub(super) struct Decoder {
    kinds: Vec<TraceEventKind>,
    layouts: Events,
    /// The child before its execve, which isn't part of the trace yet.
    waiting: Option<u32>,
    /// This process.
    own: u32,
    threads: HashMap<u32, ThreadState>,
    /// Exit codes that processes passed to `exit_group(2)`.
    exit_codes: HashMap<u32, u32>,
    calls: SpecialCalls,
    /// BPF programs report calls, forks and exits; only other events come from here.
    only_between: bool,
    stacks: Option<Stacks>,
    missing: u64,
}

/// Calls that change a task's state, each with its number in both ABIs.
#[derive(Debug)]
struct SpecialCalls {
    execve: HashSet<Call>,
    exit: HashSet<Call>,
    exit_group: HashSet<Call>,
}

impl SpecialCalls {
    fn new() -> Self {
        let names = CallNames::default();
        let numbers = |wanted: &str| {
            names.calls().filter(|(_, name)| *name == wanted).map(|(call, _)| call).collect()
        };
        Self { execve: numbers("execve"), exit: numbers("exit"), exit_group: numbers("exit_group") }
    }
}

/// Time and task of a sample.
#[derive(Clone, Copy)]
struct SampleHeader {
    time_ns: u64,
    tid: u32,
    process: u32,
    cgroup: u64,
}

impl SampleHeader {
    fn task_record<'a>(&self, event: TaskEvent<'a>) -> TraceRecord<'a> {
        let Self { time_ns, tid, process, cgroup } = *self;
        TraceRecord::Task { record: CallRecord { time_ns, tid, process, missed: 0, event }, cgroup }
    }

    fn between<'a>(&self, event: InterveningEvent<'a>) -> TraceRecord<'a> {
        let Self { time_ns, tid, process, .. } = *self;
        TraceRecord::Between { time_ns, tid, process, event }
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
            threads: HashMap::new(),
            exit_codes: HashMap::new(),
            calls: SpecialCalls::new(),
            only_between: !opened
                .kinds
                .iter()
                .any(|kind| matches!(kind, TraceEventKind::Enter | TraceEventKind::Raw(_))),
            stacks,
            missing: 0,
        }
    }

    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    pub(super) fn stacks(&mut self) -> Option<&mut Stacks> {
        self.stacks.as_mut()
    }

    /// Calls `each` with what a record describes, if anything.
    pub(super) fn decode<E>(
        &mut self,
        record: &RawRecord<'_>,
        time_ns: u64,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if record.kind == kind::PERF_RECORD_SAMPLE {
            return self.decode_sample(record, each);
        }
        self.decode_thread_record(record, time_ns, each)
    }

    /// Decodes a record other than a sample.
    fn decode_thread_record<E>(
        &mut self,
        record: &RawRecord<'_>,
        time_ns: u64,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let layout = self.layouts.layouts().first().copied().unwrap_or_default();
        let id = layout.sample_id(record);
        let number = |id: Option<i32>| id.unwrap_or(0).unsigned_abs();
        let header =
            SampleHeader { time_ns, tid: number(id.tid), process: number(id.pid), cgroup: 0 };
        // A record that can't be decoded is shorter than the kernel makes it.
        let Ok(decoded) = record.decode() else { return Ok(()) };
        self.learn_mappings(&decoded);
        if let Record::Comm(comm) = &decoded
            && comm.is_exec
            && self.waiting == Some(comm.tid.unsigned_abs())
        {
            self.waiting = None; // execve may not be among the traced calls
        }
        match decoded {
            Record::Lost(lost) => {
                self.missing += lost.lost;
                each(TraceRecord::Missing(lost.lost))
            }
            _ if self.is_left_out(&header) => Ok(()),
            Record::Fork(_) | Record::Exit(_) if self.only_between => Ok(()),
            Record::Comm(comm) => each(TraceRecord::Name {
                tid: comm.tid.unsigned_abs(),
                process: comm.pid.unsigned_abs(),
                comm: comm.comm,
            }),
            Record::Fork(task) if task.ptid != 0 || task.ppid != 0 => {
                let header = SampleHeader {
                    tid: task.ptid.unsigned_abs(),
                    process: task.ppid.unsigned_abs(),
                    ..header
                };
                let tid = task.tid.unsigned_abs();
                let process = task.pid.unsigned_abs();
                if tid == process {
                    // The process with this id is a new one.
                    self.exit_codes.remove(&process);
                }
                self.threads.entry(tid).or_default().unrecorded = None;
                each(header.task_record(TaskEvent::Fork { tid, process }))
            }
            Record::Exit(task) => {
                let tid = task.tid.unsigned_abs();
                let process = task.pid.unsigned_abs();
                let status = self.take_status(tid, process);
                each(SampleHeader { tid, process, ..header }.task_record(TaskEvent::End(status)))
            }
            Record::Switch(switch) => self.switch(header, id.cpu.unwrap_or(0), switch, each),
            _ => Ok(()),
        }
    }

    /// Keeps the address spaces up to date.
    fn learn_mappings(&mut self, record: &Record<'_>) {
        let Some(stacks) = &mut self.stacks else { return };
        match record {
            Record::Mmap(mmap) => stacks.add_mapping(mmap),
            Record::Comm(comm) if comm.is_exec => stacks.forget(comm.pid),
            Record::Fork(task) => stacks.fork(task.ppid, task.pid),
            Record::Exit(task) if task.pid == task.tid => stacks.forget(task.pid),
            _ => {}
        }
    }

    /// Whether this is the child before its execve, or this process.
    fn is_left_out(&self, header: &SampleHeader) -> bool {
        self.waiting == Some(header.tid) || header.process == self.own
    }

    /// Begins a call. From its execve on, the child's calls belong to the command.
    pub(super) fn begin_call(&mut self, tid: u32, call: Call) {
        if self.waiting == Some(tid) && self.calls.execve.contains(&call) {
            self.waiting = None;
        }
    }

    fn switch<E>(
        &mut self,
        header: SampleHeader,
        cpu: u32,
        switch: Switch,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let off_since_ns = &mut self.threads.entry(header.tid).or_default().off_since_ns;
        if switch.is_out {
            let is_preempted = switch.is_preempted;
            *off_since_ns = Some(header.time_ns);
            return each(header.between(InterveningEvent::SwitchedOut { is_preempted }));
        }
        let off_ns = off_since_ns.take().map(|since_ns| header.time_ns.saturating_sub(since_ns));
        each(header.between(InterveningEvent::SwitchedIn { cpu, off_ns }))
    }

    /// Removes an exited thread. Returns its wait(2) status: from its own or its process's exit
    /// code, otherwise from its last signal.
    fn take_status(&mut self, tid: u32, process: u32) -> u32 {
        let thread = self.threads.remove(&tid).unwrap_or_default();
        let of_process = self.exit_codes.get(&process).copied();
        match (thread.exit_code.or(of_process), thread.deadly_signal) {
            (Some(code), _) => (code & 0xff) << 8,
            // The kernel delivers SIGKILL instead of the signal that ends the whole process, so the
            // signal is unknown.
            (None, Some(SIGKILL)) => KILLED,
            (None, Some(signal)) => signal,
            (None, None) => 0,
        }
    }

    fn decode_sample<E>(
        &mut self,
        record: &RawRecord<'_>,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(event) = self.layouts.index_of(record) else { return Ok(()) };
        let Ok(sample) = Sample::from_record(record, &self.layouts) else { return Ok(()) };
        let number = |id: Option<i32>| id.unwrap_or(0).unsigned_abs();
        let header = SampleHeader {
            time_ns: sample.head.time_ns.unwrap_or(0),
            tid: number(sample.head.tid),
            process: number(sample.head.pid),
            cgroup: sample.cgroup.unwrap_or(0),
        };
        if matches!(self.kinds.get(event), Some(TraceEventKind::Enter)) {
            return self.begin(header, &sample, each);
        }
        if let Some(TraceEventKind::Raw(event)) = self.kinds.get(event) {
            return self.pass_raw(header, *event, &sample, each);
        }
        if self.is_left_out(&header) {
            return Ok(());
        }
        let raw = sample.raw.unwrap_or_default();
        match self.kinds.get(event) {
            Some(TraceEventKind::Stack) => self.unwind(header, &sample, each),
            Some(TraceEventKind::Exit) => self.end(header, &sample, each),
            Some(TraceEventKind::Signal) => {
                let thread = self.threads.entry(header.tid).or_default();
                let signal = word(raw, 8);
                let handler = long(raw, 24);
                thread.deadly_signal = (handler == 0).then_some(signal);
                let info = raw.get(8..20).unwrap_or_default();
                if signal == SIGKILL {
                    return Ok(());
                }
                let fate = SignalFate::Arrived;
                each(header.task_record(TaskEvent::Signal { number: signal, fate, info }))
            }
            Some(TraceEventKind::Fault { major }) => {
                let address = sample.head.addr.unwrap_or(0);
                let ip = sample.head.ip.unwrap_or(0);
                each(header.between(InterveningEvent::Fault { is_major: *major, address, ip }))
            }
            Some(TraceEventKind::Tracepoint(point)) => {
                let mut text = Vec::new();
                if let Some(format) = &point.format {
                    format.print(raw, Endian::NATIVE, &mut NoNames, &mut text);
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                let text = printable(&text);
                each(
                    header.between(InterveningEvent::Tracepoint { name: &point.name, text: &text }),
                )
            }
            _ => Ok(()),
        }
    }

    fn pass_raw<E>(
        &self,
        header: SampleHeader,
        event: usize,
        sample: &Sample<'_>,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let chain = sample.callchain.iter().flat_map(|chain| (0..).map_while(|at| chain.get(at)));
        let chain: Vec<u64> = chain.filter(|address| *address < PERF_CONTEXT_MAX).collect();
        let SampleHeader { time_ns, tid, process, .. } = header;
        each(TraceRecord::Raw {
            time_ns,
            cpu: sample.head.cpu.unwrap_or(0),
            tid,
            process,
            is_left_out: self.is_left_out(&header),
            event,
            raw: sample.raw.unwrap_or_default(),
            chain: &chain,
        })
    }

    fn begin<E>(
        &mut self,
        header: SampleHeader,
        sample: &Sample<'_>,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let raw = sample.raw.unwrap_or_default();
        let compat =
            sample.regs_user.is_some_and(|regs| regs.abi == u64::from(PERF_SAMPLE_REGS_ABI_32));
        let call = call(long(raw, 8), compat);
        self.begin_call(header.tid, call);
        if self.is_left_out(&header) {
            return Ok(());
        }
        self.unwind(header, sample, each)?;
        let mut values: [u64; 6] = std::array::from_fn(|at| long(raw, 16 + 8 * at));
        if compat {
            values = values.map(|value| value & 0xffff_ffff);
        }
        let code = u32::try_from(values[0] & 0xff).unwrap_or(0);
        let thread = self.threads.entry(header.tid).or_default();
        thread.call = Some((call, header.time_ns));
        if self.calls.exit.contains(&call) {
            thread.exit_code = Some(code);
        }
        if self.calls.exit_group.contains(&call) {
            self.exit_codes.insert(header.process, code);
        }
        let beginning = CallBeginning::Seen;
        each(header.task_record(TaskEvent::Enter { call, values, memory: &[], beginning }))
    }

    fn unwind<E>(
        &mut self,
        header: SampleHeader,
        sample: &Sample<'_>,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(stacks) = &mut self.stacks else { return Ok(()) };
        each(TraceRecord::Stack { tid: header.tid, frames: &stacks.lines(sample) })
    }

    fn end<E>(
        &mut self,
        header: SampleHeader,
        sample: &Sample<'_>,
        each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let raw = sample.raw.unwrap_or_default();
        let result = long(raw, 16).cast_signed();
        let thread = self.threads.entry(header.tid).or_default();
        let unrecorded = thread.unrecorded.replace(CallBeginning::Answered);
        if let Some((call, began_ns)) = thread.call.take() {
            let duration_ns = header.time_ns.saturating_sub(began_ns);
            let exit = TaskEvent::Exit { call, result, duration_ns, memory: &[] };
            return each(header.task_record(exit));
        }
        // Of a 32-bit call, other registers hold the arguments.
        let registers = sample
            .regs_user
            .filter(|registers| registers.abi != u64::from(PERF_SAMPLE_REGS_ABI_32));
        let arguments = argument_registers().zip(registers);
        let Some(((names, registers), beginning)) = arguments.zip(unrecorded) else {
            return Ok(());
        };
        let call = call(long(raw, 8), false);
        let values = names.map(|name| registers.get(name).unwrap_or(0));
        each(header.task_record(TaskEvent::Enter { call, values, memory: &[], beginning }))?;
        each(header.task_record(TaskEvent::Exit { call, result, duration_ns: 0, memory: &[] }))
    }
}

/// Returns the call with this number, which has 32 bits.
fn call(number: u64, compat: bool) -> Call {
    Call { number: u32::try_from(number & 0xffff_ffff).unwrap_or_default(), compat }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}
