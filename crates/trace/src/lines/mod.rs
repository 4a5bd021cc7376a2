//! Records as lines, as in strace: a call that nothing interrupts is one line; otherwise it is
//! printed as unfinished and resumed later. In JSON, each call is one object. `formatter` turns a
//! call into text, `events` words other events.

mod events;
mod formatter;
mod stamps;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use tare_kernel::bpf::{Call, CallBeginning, CallPlan, CallRecord, SignalFate, TaskEvent};

use self::events::{quoted, write_frames};
use self::formatter::CallFormatter;
use self::stamps::LineClock;
pub use self::stamps::{LineStamps, LineTime};
use crate::chosen::{CallSelection, SignalSelection};
use crate::invocation::DescriptorInfo;
use crate::names::Abi;
use crate::record::{InterveningEvent, TraceRecord};
use crate::result::result;
use crate::structs;
use crate::text::HexStrings;

/// SIGKILL's number, the same on every architecture.
const SIGKILL: u32 = 9;

/// Result of a call that `restart_syscall` resumes: `-ERESTART_RESTARTBLOCK` of
/// `include/linux/errno.h`.
const RESTART_BLOCK: i64 = -516;

/// Column of the result, as in strace.
const RESULT_COLUMN: usize = 40;
/// Nanoseconds after which the beginning of a call that hasn't returned is printed.
const UNFINISHED_AFTER_NS: u64 = 100_000_000;

/// Stands after a call that began before the trace.
const BEGUN_BEFORE: &str = " <begun before the trace>";

/// Which calls are printed, and how.
#[derive(Clone, Debug)]
pub struct LineOptions {
    /// The selected calls.
    pub calls: CallSelection,
    /// Bytes of strings and buffers to print; paths are printed whole.
    pub string: usize,
    /// Whether to print each call's duration after its result.
    pub durations: bool,
    /// Whether to print failed calls only.
    pub failures: bool,
    /// Shortest duration of a printed call, in nanoseconds.
    pub min_duration_ns: u64,
    /// Whether to print JSON objects instead of text.
    pub json: bool,
    /// How descriptors are printed.
    pub descriptors: DescriptorInfo,
    /// The selected signals.
    pub signals: SignalSelection,
    /// The times that lines begin with.
    pub stamps: LineStamps,
    /// If not empty, only calls are printed that name one of these paths, or a descriptor of it.
    pub paths: Vec<Vec<u8>>,
    /// Which strings are printed in hexadecimal.
    pub hex: HexStrings,
    /// Whether the environments of executed programs are printed.
    pub environments: bool,
    /// Whether each call's number is printed before its name.
    pub numbers: bool,
}

/// A call in progress.
#[derive(Debug)]
struct PendingCall {
    call: Call,
    /// The thread's process.
    process: u32,
    values: [u64; 6],
    /// The memory that was copied when the call began.
    memory: Vec<u8>,
    /// Its beginning; if that wasn't seen, the time at which the call became known.
    time_ns: u64,
    beginning: CallBeginning,
    /// Whether the line names the thread.
    prefix: bool,
    /// The arguments printed so far, once the beginning of the line is printed.
    written: Option<String>,
    /// For `restart_syscall`, the call that it resumes, if known.
    resumed: Option<String>,
}

/// What a thread has yet to print.
#[derive(Debug, Default)]
struct ThreadLines {
    pending: Option<PendingCall>,
    /// Signals not printed yet. Those that arrived during a call are printed when it returns, and
    /// ignored ones outside of a call when the next one begins. With their times in nanoseconds.
    signals: Vec<(u64, String)>,
    /// The call chain, if call chains are printed.
    stack: Vec<String>,
    /// The thread's process.
    process: u32,
    /// The call that a signal interrupted and `restart_syscall` resumes.
    interrupted: Option<String>,
}

/// Turns records into lines.
#[derive(Debug)]
pub struct Lines {
    options: LineOptions,
    formatter: CallFormatter,
    clock: LineClock,
    threads: HashMap<u32, ThreadLines>,
    /// Threads that haven't exited. With more than one, each line names its thread.
    living: HashSet<u32>,
    /// The thread whose call began last, if no other line was printed since. Unused if calls are
    /// printed once they have returned.
    open: Option<u32>,
    /// Whether the last line of the output is the unfinished line of `open`.
    partial: bool,
    /// Lines of signals that were sent to a process, by the process and their number, until they
    /// arrive. One that ends the process doesn't.
    sent: HashMap<(u32, u32), String>,
    /// Arguments whose memory could be read neither at the call nor at the return.
    unreadable: u64,
}

impl Lines {
    /// Creates the formatter.
    #[must_use]
    pub fn new(options: LineOptions) -> Self {
        Self {
            formatter: CallFormatter::new(&options),
            clock: LineClock::new(options.stamps),
            options,
            threads: HashMap::new(),
            living: HashSet::new(),
            open: None,
            partial: false,
            sent: HashMap::new(),
            unreadable: 0,
        }
    }

    /// From now on prints pointers as addresses, and drops calls that aren't selected: the records
    /// come from perf events.
    pub fn show_pointers(&mut self) {
        self.formatter.only_pointers = true;
    }

    /// Returns the memory that the tracer copies for each selected call.
    pub fn plans(&self) -> impl Iterator<Item = (Call, CallPlan)> + '_ {
        self.formatter.plans(&self.options.calls)
    }

    /// Number of arguments whose memory could be read neither at the call nor at the return.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Appends the lines of a record.
    pub fn add(&mut self, record: &TraceRecord<'_>, out: &mut String) {
        match record {
            TraceRecord::Task { record, .. } => self.add_task_record(record, out),
            TraceRecord::Between { time_ns, tid, process, event } => {
                self.add_between(*time_ns, *process, *tid, event, out);
            }
            TraceRecord::Missing(records) => self.add_missing(None, *records, out),
            TraceRecord::Stack { tid, frames } => {
                self.threads.entry(*tid).or_default().stack = frames.to_vec();
            }
            TraceRecord::Name { .. } | TraceRecord::Raw { .. } => {}
        }
    }

    fn add_task_record(&mut self, record: &CallRecord<'_>, out: &mut String) {
        if record.missed > 0 {
            self.add_missing(Some(record.tid), record.missed.into(), out);
        }
        self.living.insert(record.tid);
        match record.event {
            // Perf events record all calls, so the selection is applied here.
            TaskEvent::Enter { call, .. }
                if self.formatter.only_pointers
                    && !self.options.calls.has_call(&self.formatter.names, call) => {}
            TaskEvent::Enter { call, values, memory, beginning } => {
                if self.is_same_earlier_call(record.tid, call, beginning) {
                    self.update_arguments(record.tid, values, memory);
                    return;
                }
                let prefix = self.living.len() > 1;
                self.flush_signals(record.tid, out);
                let thread = self.threads.entry(record.tid).or_default();
                thread.process = record.process;
                let is_restart = self.formatter.names.find(call) == Some("restart_syscall");
                let resumed = thread.interrupted.take().filter(|_| is_restart);
                let pending = PendingCall {
                    call,
                    values,
                    memory: memory.to_vec(),
                    process: record.process,
                    time_ns: record.time_ns,
                    beginning,
                    prefix,
                    written: None,
                    resumed,
                };
                if !self.prints_whole_calls() {
                    self.interrupt(out);
                    self.open = Some(record.tid);
                }
                self.threads.entry(record.tid).or_default().pending = Some(pending);
            }
            TaskEvent::Exit { call, result, duration_ns, memory } => {
                self.end_call(record, call, (result, memory), duration_ns, out);
                self.flush_signals(record.tid, out);
            }
            TaskEvent::Fork { tid, .. } => {
                self.living.insert(tid);
            }
            TaskEvent::End(status) => self.end_thread(record, status, out),
            TaskEvent::Signal { number, fate, info } => {
                self.add_signal(record, number, fate, info, out);
            }
        }
    }

    /// Whether the record repeats the call that the thread was in when the trace began: it is
    /// recorded again when it returns.
    fn is_same_earlier_call(&self, tid: u32, call: Call, beginning: CallBeginning) -> bool {
        let pending = self.threads.get(&tid).and_then(|thread| thread.pending.as_ref());
        let is_same =
            |pending: &PendingCall| pending.call == call && pending.beginning == beginning;
        beginning == CallBeginning::BeforeTrace && pending.is_some_and(is_same)
    }

    fn update_arguments(&mut self, tid: u32, values: [u64; 6], memory: &[u8]) {
        let pending = self.threads.get_mut(&tid).and_then(|thread| thread.pending.as_mut());
        if let Some(pending) = pending {
            pending.values = values;
            pending.memory = memory.to_vec();
        }
    }

    /// Whether a call can only be printed once it has returned.
    fn prints_whole_calls(&self) -> bool {
        self.options.failures
            || self.options.min_duration_ns > 0
            || self.options.json
            || !self.options.paths.is_empty()
    }

    /// Ends the line of the open call as unfinished, because another line follows.
    fn interrupt(&mut self, out: &mut String) {
        let Some(tid) = self.open.take() else { return };
        if !std::mem::take(&mut self.partial) {
            self.begin(tid, out);
        }
        let pending = self.threads.get(&tid).and_then(|thread| thread.pending.as_ref());
        if pending.is_some_and(|pending| pending.beginning == CallBeginning::BeforeTrace) {
            out.push_str(BEGUN_BEFORE);
        }
        out.push_str(" <unfinished ...>\n");
    }

    /// Prints the beginning of a call.
    fn begin(&mut self, tid: u32, out: &mut String) {
        let Self { formatter, threads, living, clock, .. } = self;
        let pending = threads.get_mut(&tid).and_then(|thread| thread.pending.as_mut());
        let Some(pending) = pending else { return };
        // All threads that were in a call when the trace began became known at once.
        pending.prefix |= pending.beginning == CallBeginning::BeforeTrace && living.len() > 1;
        let name = formatter.names.name(pending.call);
        let invocation = formatter.invocation(pending, &name, None);
        let arguments = formatter.arguments(pending, &invocation);
        let prefix = prefix(tid, pending.prefix);
        let stamp = clock.stamp(pending.time_ns);
        let number = formatter.number(pending.call);
        let _ = write!(out, "{prefix}{stamp}{number}{name}({arguments}");
        pending.written = Some(arguments);
    }

    /// Prints the beginning of the last call if it hasn't returned for 100 ms. `now_ns` is the time
    /// by `CLOCK_MONOTONIC`.
    pub fn print_waiting_call(&mut self, now_ns: u64, out: &mut String) {
        let Some(tid) = self.open.filter(|_| !self.partial) else { return };
        let pending = self.threads.get(&tid).and_then(|thread| thread.pending.as_ref());
        let is_long =
            |pending: &PendingCall| now_ns.saturating_sub(pending.time_ns) > UNFINISHED_AFTER_NS;
        if pending.is_some_and(is_long) {
            self.begin(tid, out);
            self.partial = true;
        }
    }

    /// Ends the line of a call that is still in progress. In JSON, writes the calls of all threads
    /// that haven't returned.
    pub fn finish(&mut self, out: &mut String) {
        self.interrupt(out);
        let shows_few = self.options.failures || !self.options.paths.is_empty();
        if !self.options.json || shows_few || self.options.min_duration_ns > 0 {
            return;
        }
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|(tid, _)| **tid);
        for (tid, thread) in threads {
            let Some(pending) = &thread.pending else { continue };
            let name = self.formatter.names.name(pending.call);
            let invocation = self.formatter.invocation(pending, &name, None);
            let arguments = self.formatter.arguments(pending, &invocation);
            self.write_object(*tid, pending, &name, &arguments, None, out);
        }
    }

    fn end_call(
        &mut self,
        record: &CallRecord<'_>,
        call: Call,
        returned: (i64, &[u8]),
        duration_ns: u64,
        out: &mut String,
    ) {
        let Some(pending) = self.take_pending(record, call) else { return };
        let name = self.formatter.names.name(pending.call);
        if returned.0 == RESTART_BLOCK {
            let interrupted = pending.resumed.clone().unwrap_or_else(|| name.to_string());
            self.threads.entry(record.tid).or_default().interrupted = Some(interrupted);
        }
        self.unreadable += self.formatter.count_unreadable(&pending, returned.1) as u64;
        let invocation = self.formatter.invocation(&pending, &name, Some(returned));
        // Of a call that began before the trace, the time since then is known.
        let known_ns = match pending.beginning {
            CallBeginning::BeforeTrace => record.time_ns.saturating_sub(pending.time_ns),
            CallBeginning::Seen | CallBeginning::Answered => duration_ns,
        };
        if self.options.failures && !invocation.has_failed()
            || known_ns < self.options.min_duration_ns
            || !self.formatter.names_path(&invocation)
        {
            return;
        }
        let arguments = self.formatter.arguments(&pending, &invocation);
        let result = result(&invocation, &self.formatter.errnos);
        if self.options.json {
            self.write_object(
                record.tid,
                &pending,
                &name,
                &arguments,
                Some((returned.0, duration_ns)),
                out,
            );
            return;
        }
        let took = match pending.beginning {
            CallBeginning::Seen if self.options.durations => {
                format!(" <{}.{:06}>", duration_ns / 1_000_000_000, duration_ns / 1000 % 1_000_000)
            }
            CallBeginning::Seen | CallBeginning::Answered => String::new(),
            CallBeginning::BeforeTrace => BEGUN_BEFORE.to_owned(),
        };
        self.complete((record.tid, record.time_ns), &pending, &name, &arguments, out);
        let _ = writeln!(out, "{result}{took}");
        self.write_stack(record.tid, out);
    }

    /// Takes the call that returns. A thread that executes a program takes over the id of its
    /// process's first thread before the call returns (`de_thread` in `fs/exec.c`).
    fn take_pending(&mut self, record: &CallRecord<'_>, call: Call) -> Option<PendingCall> {
        let own = self.threads.get_mut(&record.tid).and_then(|thread| thread.pending.take());
        if let Some(own) = own.filter(|own| own.call.has_slot_of(call)) {
            return Some(own);
        }
        let old = self.executing_thread(record.process, record.tid)?;
        let mut thread = self.threads.remove(&old)?;
        self.living.remove(&old);
        if self.open == Some(old) {
            self.open = Some(record.tid);
        }
        let pending = thread.pending.take().filter(|pending| pending.call.has_slot_of(call))?;
        self.threads.insert(record.tid, ThreadLines { process: record.process, ..thread });
        Some(pending)
    }

    /// Returns the thread of a process, other than its first one, that is executing a program.
    fn executing_thread(&self, process: u32, first: u32) -> Option<u32> {
        if process != first {
            return None;
        }
        let is_executing = |thread: &ThreadLines| {
            let call = thread.pending.as_ref().map(|pending| pending.call);
            let name = call.and_then(|call| self.formatter.names.find(call));
            thread.process == process && matches!(name, Some("execve" | "execveat"))
        };
        let found =
            self.threads.iter().find(|(tid, thread)| **tid != first && is_executing(thread));
        found.map(|(tid, _)| *tid)
    }

    /// Prints a call up to and including ` = `. `end`: its thread, and the time of its end.
    fn complete(
        &mut self,
        end: (u32, u64),
        pending: &PendingCall,
        name: &str,
        arguments: &str,
        out: &mut String,
    ) {
        let tid = end.0;
        let mut line = String::new();
        let mut begun = 0;
        let number = self.formatter.number(pending.call);
        match (&pending.written, self.open == Some(tid)) {
            (Some(written), true) => {
                // The beginning of the line has been printed.
                let before = prefix(tid, pending.prefix).len() + self.clock.width() + number.len();
                begun = before + name.len() + 1 + written.len();
                line.push_str(arguments.strip_prefix(&written[..]).unwrap_or(arguments));
            }
            (Some(written), false) => {
                self.interrupt(out);
                let rest = arguments.strip_prefix(&written[..]).unwrap_or(arguments);
                let _ = write!(
                    line,
                    "{}{}{number}<... {name} resumed>{rest}",
                    prefix(tid, self.living.len() > 1),
                    self.clock.stamp(end.1)
                );
            }
            (None, is_open) => {
                if !is_open {
                    self.interrupt(out);
                }
                let stamp = self.clock.stamp(pending.time_ns);
                let prefix = prefix(tid, pending.prefix);
                let _ = write!(line, "{prefix}{stamp}{number}{name}({arguments}");
            }
        }
        if self.open == Some(tid) {
            self.open = None;
            self.partial = false;
        }
        line.push_str(") ");
        let width = RESULT_COLUMN.saturating_sub(begun);
        let _ = write!(out, "{line:width$}= ");
    }

    /// Writes the call chain of a call, if there is one.
    fn write_stack(&mut self, tid: u32, out: &mut String) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        write_frames(thread.stack.drain(..), out);
    }

    /// Reports records that were lost just before.
    fn add_missing(&mut self, tid: Option<u32>, records: u64, out: &mut String) {
        self.interrupt(out);
        let plural = if records == 1 { "" } else { "s" };
        let _ = match (self.options.json, tid) {
            (true, Some(tid)) => writeln!(out, "{{\"tid\":{tid},\"missing_records\":{records}}}"),
            (true, None) => writeln!(out, "{{\"missing_records\":{records}}}"),
            (false, Some(tid)) => {
                writeln!(out, "[pid {tid:5}] <... {records} record{plural} missing>")
            }
            (false, None) => writeln!(out, "<... {records} record{plural} missing>"),
        };
    }

    /// Writes an event other than a call of this process and thread.
    fn add_between(
        &mut self,
        time_ns: u64,
        process: u32,
        tid: u32,
        event: &InterveningEvent<'_>,
        out: &mut String,
    ) {
        self.living.insert(tid);
        self.interrupt(out);
        let _ = if self.options.json {
            let fields = events::json(event);
            writeln!(
                out,
                "{{\"time_ns\":{time_ns},\"pid\":{process},\"tid\":{tid},\"event\":{fields}}}"
            )
        } else {
            let prefix = prefix(tid, self.living.len() > 1);
            let stamp = self.clock.stamp(time_ns);
            writeln!(out, "{prefix}{stamp}--- {} ---", events::text(event))
        };
    }

    fn end_thread(&mut self, record: &CallRecord<'_>, status: u32, out: &mut String) {
        let mut thread = self.threads.remove(&record.tid).unwrap_or_default();
        if let Some(pending) = thread.pending.take() {
            let name = self.formatter.names.name(pending.call);
            let invocation = self.formatter.invocation(&pending, &name, None);
            let arguments = self.formatter.arguments(&pending, &invocation);
            if self.options.json {
                self.write_object(record.tid, &pending, &name, &arguments, None, out);
            } else if !self.prints_whole_calls() {
                self.complete((record.tid, record.time_ns), &pending, &name, &arguments, out);
                out.push_str("?\n");
                write_frames(thread.stack.drain(..), out);
            }
        }
        if self.options.failures || self.options.min_duration_ns > 0 {
            self.living.remove(&record.tid);
            return;
        }
        self.interrupt(out);
        let prefix = prefix(record.tid, self.living.len() > 1);
        self.living.remove(&record.tid);
        if let Some(line) = self.sent.remove(&(record.process, status & 0x7f)) {
            let start = if self.options.json {
                String::new()
            } else {
                format!("{prefix}{}", self.clock.stamp(record.time_ns))
            };
            let _ = writeln!(out, "{start}{line}");
        }
        if record.tid == record.process {
            self.sent.retain(|(process, _), _| *process != record.process);
        }
        let superseded_by = self.executing_thread(record.process, record.tid);
        let end = match superseded_by {
            // The process goes on under this id.
            Some(by) => format!("superseded by execve in pid {by}"),
            None => events::end(&self.formatter.flags, status),
        };
        let _ = if self.options.json {
            let CallRecord { time_ns, tid, process, .. } = record;
            let end = match superseded_by {
                Some(by) => format!("\"superseded_by\":{by}"),
                None => format!("\"end\":{}", quoted(&end)),
            };
            writeln!(out, "{{\"time_ns\":{time_ns},\"pid\":{process},\"tid\":{tid},{end}}}")
        } else {
            let stamp = self.clock.stamp(record.time_ns);
            writeln!(out, "{prefix}{stamp}+++ {end} +++")
        };
    }

    fn add_signal(
        &mut self,
        record: &CallRecord<'_>,
        number: u32,
        fate: SignalFate,
        info: &[u8],
        out: &mut String,
    ) {
        if number == SIGKILL || !self.options.signals.has(number) {
            return; // as in strace; the line of the thread's end names it
        }
        let flags = &self.formatter.flags;
        let name = structs::signal(flags, number);
        let info = if info.is_empty() { "NULL".to_owned() } else { structs::siginfo(flags, info) };
        let line = if self.options.json {
            let CallRecord { time_ns, tid, process, .. } = record;
            let info = quoted(&info);
            let ignored = fate == SignalFate::Ignored;
            format!(
                "{{\"time_ns\":{time_ns},\"pid\":{process},\"tid\":{tid},\"signal\":\"{name}\",\"ignored\":{ignored},\"info\":{info}}}"
            )
        } else {
            format!("--- {name} {info} ---")
        };
        if fate == SignalFate::Sent {
            self.sent.insert((record.process, number), line);
            return;
        }
        self.sent.remove(&(record.process, number));
        let thread = self.threads.entry(record.tid).or_default();
        thread.signals.push((record.time_ns, line));
        if fate == SignalFate::Arrived && thread.pending.is_none() {
            self.flush_signals(record.tid, out);
        }
    }

    /// Writes a thread's signals that aren't printed yet.
    fn flush_signals(&mut self, tid: u32, out: &mut String) {
        let Some(thread) = self.threads.get_mut(&tid).filter(|thread| !thread.signals.is_empty())
        else {
            return;
        };
        let signals = std::mem::take(&mut thread.signals);
        self.interrupt(out);
        let shown = self.living.len() > 1 && !self.options.json;
        for (time_ns, line) in signals {
            let stamp = if self.options.json { String::new() } else { self.clock.stamp(time_ns) };
            let _ = writeln!(out, "{}{stamp}{line}", prefix(tid, shown));
        }
    }

    /// Writes a call as a JSON object. `returned`: its result, and its duration in nanoseconds.
    fn write_object(
        &self,
        tid: u32,
        pending: &PendingCall,
        name: &str,
        arguments: &str,
        returned: Option<(i64, u64)>,
        out: &mut String,
    ) {
        let _ = write!(
            out,
            "{{\"time_ns\":{},\"pid\":{},\"tid\":{},\"abi\":\"{}\",\"call\":\"{name}\",\"arguments\":{}",
            pending.time_ns,
            pending.process,
            tid,
            Abi::for_call(pending.call),
            quoted(arguments)
        );
        if let Some((result, duration_ns)) = returned {
            let _ = write!(out, ",\"result\":{result}");
            if pending.beginning == CallBeginning::Seen {
                let _ = write!(out, ",\"duration_ns\":{duration_ns}");
            }
            if (-4095..0).contains(&result) {
                let error = self.formatter.errnos.name(u32::try_from(-result).unwrap_or(0));
                let _ = write!(out, ",\"error\":\"{error}\"");
            }
        }
        match pending.beginning {
            CallBeginning::Seen => {}
            CallBeginning::BeforeTrace => out.push_str(",\"begun_before\":true"),
            CallBeginning::Answered => out.push_str(",\"executed\":false"),
        }
        let stack = self.threads.get(&tid).map_or(&[][..], |thread| &thread.stack);
        if !stack.is_empty() {
            let frames: Vec<_> = stack.iter().map(|frame| quoted(frame)).collect();
            let _ = write!(out, ",\"stack\":[{}]", frames.join(","));
        }
        out.push_str("}\n");
    }
}

/// Returns the prefix that names a line's thread, if it is shown.
fn prefix(tid: u32, is_shown: bool) -> String {
    if is_shown { format!("[pid {tid:5}] ") } else { String::new() }
}
