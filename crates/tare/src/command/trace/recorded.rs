//! `tare trace -i`: the system calls of a recording as lines. A recording holds the calls' arguments,
//! but not the memory that these point to.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use tare_format::Endian;
use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_format::file::Description;
use tare_format::file::features::ARCH;
use tare_format::record::{Record, Sample, Task};
use tare_kernel::bpf::{Call, CallBeginning, CallRecord, TaskEvent};
use tare_replay::{
    EventFilter, Machine, Replay, ReplayOptions, Replayed, SampleDetail, Sink, Tracepoints,
};
use tare_symbols::SymbolOptions;
use tare_trace::{CallNames, Lines, TraceRecord};
use tare_tui::ProgressLine;

use super::calls::write_lines;
use crate::Outcome;
use crate::cli::resolved::trace::{CallLines, Trace};
use crate::command::output::create;
use crate::command::recording::open;
use crate::exit::{Exit, Refusal, say};

const ENTER: &[u8] = b"raw_syscalls:sys_enter";
const EXIT: &[u8] = b"raw_syscalls:sys_exit";

pub(super) fn run(trace: &Trace, input: &Path, wanted: &CallLines) -> Outcome {
    let progress = ProgressLine::beside_stdout();
    let mut recording = open(input, &mut SymbolOptions::default(), &progress)?;
    let out = create(trace.output.as_deref().unwrap_or(Path::new("-")))?;
    let mut lines = Lines::new(wanted.lines.clone());
    lines.show_pointers();
    let mut sink = CallSink {
        out,
        lines,
        left: wanted.max_lines,
        text: String::new(),
        tracepoints: Tracepoints::default(),
        threads: HashMap::new(),
        exit_codes: HashMap::new(),
        exits: exit_calls(),
        has_calls: false,
    };
    let options = ReplayOptions { detail: SampleDetail::Samples, ..ReplayOptions::default() };
    let losses = Replay::new(options).run(&mut recording, &mut sink)?;
    drop(progress);
    let name = input.display();
    if let Ok(arch) = recording.description().features().text(ARCH)
        && arch != std::env::consts::ARCH.as_bytes()
    {
        let arch = tare_format::printable(arch);
        say(&format!("{name}: recorded on {arch}: numbers of calls have this machine's names"));
    }
    if !sink.has_calls {
        let message = format!(
            "{name}: it has no samples of raw_syscalls:sys_enter (`tare trace --data FILE` records them)"
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    tare_render::loss_lines(&losses).iter().for_each(|line| say(line));
    Ok(Exit::Success)
}

/// Calls that end a thread or a process; their first argument is the exit code.
fn exit_calls() -> HashSet<Call> {
    let names = CallNames::default();
    let is_exit = |name: &str| name == "exit" || name == "exit_group";
    names.calls().filter(|(_, name)| is_exit(name)).map(|(call, _)| call).collect()
}

/// Pairs the beginnings and ends of calls, and writes their lines.
struct CallSink {
    out: Box<dyn Write + Send>,
    lines: Lines,
    /// Number of lines that may still be written.
    left: Option<u64>,
    text: String,
    tracepoints: Tracepoints,
    /// The call that each thread is in, and its beginning in nanoseconds.
    threads: HashMap<u32, (Call, u64)>,
    /// The exit code of each process, once it called exit(2) or `exit_group(2)`.
    exit_codes: HashMap<u32, u32>,
    exits: HashSet<Call>,
    has_calls: bool,
}

/// A record's time and task.
#[derive(Clone, Copy)]
struct TaskMoment {
    time_ns: u64,
    tid: u32,
    process: u32,
}

impl CallSink {
    fn add(&mut self, moment: TaskMoment, event: TaskEvent<'_>) {
        let TaskMoment { time_ns, tid, process } = moment;
        let record = CallRecord { time_ns, tid, process, missed: 0, event };
        self.lines.add(&TraceRecord::Task { record, cgroup: 0 }, &mut self.text);
    }

    fn begin_call(&mut self, moment: TaskMoment, raw: &[u8], endian: Endian) {
        let call = call(raw, endian);
        let values: [u64; 6] = std::array::from_fn(|at| long(raw, 16 + 8 * at, endian));
        self.has_calls = true;
        self.threads.insert(moment.tid, (call, moment.time_ns));
        if self.exits.contains(&call) {
            let code = u32::try_from(values[0] & 0xff).unwrap_or(0);
            self.exit_codes.insert(moment.process, code);
        }
        let beginning = CallBeginning::Seen;
        self.add(moment, TaskEvent::Enter { call, values, memory: &[], beginning });
    }

    /// Ends a call whose beginning was recorded.
    fn end_call(&mut self, moment: TaskMoment, raw: &[u8], endian: Endian) {
        let Some((call, began_ns)) = self.threads.remove(&moment.tid) else { return };
        let result = long(raw, 16, endian).cast_signed();
        let duration_ns = moment.time_ns.saturating_sub(began_ns);
        self.add(moment, TaskEvent::Exit { call, result, duration_ns, memory: &[] });
    }

    /// Ends a thread, if its exit code is known.
    fn end_thread(&mut self, time_ns: u64, task: &Task) {
        let tid = task.tid.unsigned_abs();
        let process = task.pid.unsigned_abs();
        self.threads.remove(&tid);
        if let Some(code) = self.exit_codes.get(&process) {
            let status = TaskEvent::End(code << 8);
            self.add(TaskMoment { time_ns, tid, process }, status);
        }
    }

    /// Writes the lines so far. Breaks after the last line that may be written.
    fn write(&mut self) -> anyhow::Result<ControlFlow<()>> {
        write_lines(&mut self.out, &mut self.text, &mut self.left)?;
        Ok(if self.left == Some(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

impl Sink for CallSink {
    type Error = anyhow::Error;

    fn event_filter(&self) -> Option<EventFilter> {
        let mut tracepoints = Tracepoints::default();
        Some(EventFilter::new(move |description: &Description, event| {
            tracepoints.learn(description);
            let described = description.events().get(event);
            described.is_some_and(|event| {
                event.attr.kind == PERF_TYPE_TRACEPOINT
                    && [ENTER, EXIT].contains(&&*tracepoints.event_name(event))
            })
        }))
    }

    fn wants_callchain(&self, _sample: &Replayed<'_, Sample<'_>>) -> bool {
        false
    }

    fn sample(
        &mut self,
        _machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        self.tracepoints.learn(sample.description);
        let event = sample.event.and_then(|event| sample.description.events().get(event));
        let Some((event, raw)) = event.zip(sample.fields.raw) else {
            return Ok(ControlFlow::Continue(()));
        };
        let head = &sample.fields.head;
        let moment = TaskMoment {
            time_ns: sample.time_ns.unwrap_or(0),
            tid: head.tid.unwrap_or(0).unsigned_abs(),
            process: head.pid.unwrap_or(0).unsigned_abs(),
        };
        let endian = sample.raw.endian;
        match &*self.tracepoints.event_name(event) {
            ENTER => self.begin_call(moment, raw, endian),
            EXIT => self.end_call(moment, raw, endian),
            _ => {}
        }
        self.write()
    }

    fn record(
        &mut self,
        _machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let Some(time_ns) = record.time_ns else { return Ok(ControlFlow::Continue(())) };
        match record.fields {
            Record::Fork(task) => {
                let parent = TaskMoment {
                    time_ns,
                    tid: task.ptid.unsigned_abs(),
                    process: task.ppid.unsigned_abs(),
                };
                let tid = task.tid.unsigned_abs();
                let process = task.pid.unsigned_abs();
                self.add(parent, TaskEvent::Fork { tid, process });
            }
            Record::Exit(task) => self.end_thread(time_ns, task),
            _ => {}
        }
        self.write()
    }

    fn end(&mut self, _machine: &mut Machine) -> anyhow::Result<()> {
        self.lines.finish(&mut self.text);
        let _is_last = self.write()?;
        Ok(self.out.flush()?)
    }
}

/// Returns the call of a sample: its number follows the eight bytes that all tracepoints have.
fn call(raw: &[u8], endian: Endian) -> Call {
    let number = u32::try_from(long(raw, 8, endian)).unwrap_or(Call::BEYOND);
    Call { number: number.min(Call::BEYOND), compat: false }
}

fn long(bytes: &[u8], at: usize, endian: Endian) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, |bytes| endian.u64(bytes))
}
