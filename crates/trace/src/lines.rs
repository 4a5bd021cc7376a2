//! Records as lines: a call that nothing came between is one line, else it is unfinished first and
//! resumed later, as strace has it. What happens between calls is in `events`.

mod events;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use tare_kernel::bpf::{Call, CallPlan, CallRecord, TaskEvent, chunks};

use crate::chosen::CallSelection;
use crate::flags::Flags;
use crate::invocation::{DescriptorInfo, Invocation};
use crate::names::{CallNames, Errno};
use crate::perf::PerfRecord;
use crate::result::result;
use crate::signature::Signatures;

/// Where results begin.
const COLUMN: usize = 40;
/// After so many nanoseconds without a return a call is shown as it is.
const PATIENCE_NS: u64 = 100_000_000;

/// Which calls are shown, and how.
#[derive(Clone, Debug)]
pub struct LineOptions {
    /// Which calls.
    pub calls: CallSelection,
    /// How many bytes of strings and buffers; paths are shown whole.
    pub string: usize,
    /// How long each call took, behind its result.
    pub durations: bool,
    /// Only calls that failed.
    pub failures: bool,
    /// Only calls that took so long, in nanoseconds.
    pub min_duration_ns: u64,
    /// Objects of JSON instead of text.
    pub json: bool,
    /// What is shown of descriptors.
    pub descriptors: DescriptorInfo,
}

/// A call that goes on.
#[derive(Debug)]
struct Pending {
    call: Call,
    values: [u64; 6],
    memory: Vec<u8>,
    time_ns: u64,
    prefix: bool,
    /// What was written of it.
    written: Option<String>,
}

#[derive(Debug, Default)]
struct Task {
    pending: Option<Pending>,
    /// Signals that it doesn't notice: they are told when its call returns.
    signals: Vec<String>,
    /// The call chain of its call, where these are shown.
    stack: Vec<String>,
}

/// Turns records into lines.
#[derive(Debug)]
pub struct Lines {
    options: LineOptions,
    names: CallNames,
    signatures: Signatures,
    flags: Flags,
    errnos: Errno,
    tasks: HashMap<u32, Task>,
    living: HashSet<u32>,
    /// The thread whose call began last, with nothing written since.
    open: Option<u32>,
    /// Its line is on the output, without an end.
    partial: bool,
    /// Strings whose memory could not be read, neither at the begin nor at the end.
    unreadable: u64,
    /// Nothing was copied of what pointers lead to.
    only_pointers: bool,
}

impl Lines {
    /// Lines of the calls that are wanted.
    #[must_use]
    pub fn new(options: LineOptions) -> Self {
        Self {
            options,
            names: CallNames::default(),
            signatures: Signatures::default(),
            flags: Flags::default(),
            errnos: Errno::default(),
            tasks: HashMap::new(),
            living: HashSet::new(),
            open: None,
            partial: false,
            unreadable: 0,
            only_pointers: false,
        }
    }

    /// Nothing is copied of what pointers lead to: they are shown themselves.
    pub fn show_pointers(&mut self) {
        self.only_pointers = true;
    }

    /// What the kernel is to record.
    pub fn plans(&self) -> impl Iterator<Item = (Call, CallPlan)> + '_ {
        let string = u16::try_from(self.options.string).unwrap_or(u16::MAX);
        let numbers = (0..=Call::BEYOND)
            .flat_map(|number| [false, true].map(|compat| Call { number, compat }));
        numbers.filter(|call| self.options.calls.has_call(&self.names, *call)).map(move |call| {
            let descriptors = self.options.descriptors > DescriptorInfo::Number;
            let plan = |name| self.signatures.plan(name, call.compat, string, descriptors);
            (call, self.names.known(call).map_or_else(CallPlan::default, plan))
        })
    }

    /// How many arguments pointed to memory that could be read neither when the call began nor when
    /// it returned.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Appends what was seen.
    pub fn add(&mut self, seen: &PerfRecord<'_>, out: &mut String) {
        match seen {
            PerfRecord::Record { record, .. } => self.record(record, out),
            PerfRecord::Between { time_ns, tid, process, what } => {
                self.between(*time_ns, *process, *tid, what, out);
            }
            PerfRecord::Missing(records) => self.missing(None, *records, out),
            PerfRecord::Stack { tid, frames } => {
                self.tasks.entry(*tid).or_default().stack = frames.to_vec();
            }
            PerfRecord::Name { .. }
            | PerfRecord::Copied { .. }
            | PerfRecord::Raw { .. }
            | PerfRecord::Function { .. } => {}
        }
    }

    fn record(&mut self, record: &CallRecord<'_>, out: &mut String) {
        if record.missed > 0 {
            self.missing(Some(record.tid), record.missed.into(), out);
        }
        self.living.insert(record.tid);
        match record.event {
            // Perf events are of all calls.
            TaskEvent::Enter { call, .. }
                if self.only_pointers && !self.options.calls.has_call(&self.names, call) => {}
            TaskEvent::Enter { call, values, memory } => {
                let prefix = self.living.len() > 1;
                self.flush_signals(record.tid, out);
                let pending = Pending {
                    call,
                    values,
                    memory: memory.to_vec(),
                    time_ns: record.time_ns,
                    prefix,
                    written: None,
                };
                if !self.is_filtered() {
                    self.interrupt(out);
                    self.open = Some(record.tid);
                }
                self.tasks.entry(record.tid).or_default().pending = Some(pending);
            }
            TaskEvent::Exit { call, result, duration_ns, memory } => {
                self.exit(record, call, (result, memory), duration_ns, out);
                self.flush_signals(record.tid, out);
            }
            TaskEvent::Fork { tid, .. } => {
                self.living.insert(tid);
            }
            TaskEvent::End(status) => self.end(record, status, out),
            TaskEvent::Signal { number, ignored, info } => {
                self.signal(record, number, ignored, info, out);
            }
        }
    }

    fn is_filtered(&self) -> bool {
        self.options.failures || self.options.min_duration_ns > 0 || self.options.json
    }

    fn prefix(&self, tid: u32, shown: bool) -> String {
        if shown { format!("[pid {tid:5}] ") } else { String::new() }
    }

    /// The line of the call that began last is left unfinished, as something else comes.
    fn interrupt(&mut self, out: &mut String) {
        let Some(tid) = self.open.take() else { return };
        if !std::mem::take(&mut self.partial) {
            self.begin(tid, out);
        }
        out.push_str(" <unfinished ...>\n");
    }

    /// Writes the begin of a call.
    fn begin(&mut self, tid: u32, out: &mut String) {
        let Some(pending) = self.tasks.get(&tid).and_then(|task| task.pending.as_ref()) else {
            return;
        };
        let name = self.names.name(pending.call);
        let arguments = self.invocation(pending, &name, None).arguments();
        let prefix = self.prefix(tid, pending.prefix);
        let _ = write!(out, "{prefix}{name}({arguments}");
        if let Some(pending) = self.tasks.get_mut(&tid).and_then(|task| task.pending.as_mut()) {
            pending.written = Some(arguments);
        }
    }

    /// Shows a call that hasn't returned for a while; `now_ns` by `CLOCK_MONOTONIC`.
    pub fn idle(&mut self, now_ns: u64, out: &mut String) {
        let Some(tid) = self.open.filter(|_| !self.partial) else { return };
        let began = self
            .tasks
            .get(&tid)
            .and_then(|task| task.pending.as_ref())
            .map(|pending| pending.time_ns);
        if began.is_some_and(|began| now_ns.saturating_sub(began) > PATIENCE_NS) {
            self.begin(tid, out);
            self.partial = true;
        }
    }

    /// Appends what is still open.
    pub fn finish(&mut self, out: &mut String) {
        self.interrupt(out);
    }

    fn invocation<'a>(
        &'a self,
        pending: &'a Pending,
        name: &'a str,
        returned: Option<(i64, &'a [u8])>,
    ) -> Invocation<'a> {
        let known = self.names.known(pending.call);
        Invocation {
            name,
            kinds: known.and_then(|name| self.signatures.get(name)),
            values: pending.values,
            entered: &pending.memory,
            returned,
            string: self.options.string,
            flags: &self.flags,
            descriptors: self.options.descriptors,
            only_pointers: self.only_pointers,
        }
    }

    fn exit(
        &mut self,
        record: &CallRecord<'_>,
        call: Call,
        returned: (i64, &[u8]),
        duration_ns: u64,
        out: &mut String,
    ) {
        let Some(pending) = self.tasks.get_mut(&record.tid).and_then(|task| task.pending.take())
        else {
            return;
        };
        let name = self.names.name(pending.call);
        if pending.call != call {
            return;
        }
        self.count_unreadable(&pending, returned.1);
        let invocation = self.invocation(&pending, &name, Some(returned));
        if self.options.failures && !invocation.failed()
            || duration_ns < self.options.min_duration_ns
        {
            return;
        }
        let arguments = invocation.arguments();
        let result = result(&invocation, &self.errnos);
        if self.options.json {
            self.object(record, &pending, &name, &arguments, Some((returned.0, duration_ns)), out);
            return;
        }
        let took = if self.options.durations {
            format!(" <{}.{:06}>", duration_ns / 1_000_000_000, duration_ns / 1000 % 1_000_000)
        } else {
            String::new()
        };
        self.complete(record.tid, &pending, &name, &arguments, out);
        let _ = writeln!(out, "{result}{took}");
        self.write_stack(record.tid, out);
    }

    /// Writes a call up to and with ` = `.
    fn complete(
        &mut self,
        tid: u32,
        pending: &Pending,
        name: &str,
        arguments: &str,
        out: &mut String,
    ) {
        let mut line = String::new();
        let mut begun = 0;
        match (&pending.written, self.open == Some(tid)) {
            (Some(written), true) => {
                // The begin of the line is on the output.
                begun = self.prefix(tid, pending.prefix).len() + name.len() + 1 + written.len();
                line.push_str(arguments.strip_prefix(&written[..]).unwrap_or(arguments));
            }
            (Some(written), false) => {
                self.interrupt(out);
                let rest = arguments.strip_prefix(&written[..]).unwrap_or(arguments);
                let _ = write!(
                    line,
                    "{}<... {name} resumed>{rest}",
                    self.prefix(tid, self.living.len() > 1)
                );
            }
            (None, is_open) => {
                if !is_open {
                    self.interrupt(out);
                }
                let _ = write!(line, "{}{name}({arguments}", self.prefix(tid, pending.prefix));
            }
        }
        if self.open == Some(tid) {
            self.open = None;
            self.partial = false;
        }
        line.push_str(") ");
        let width = COLUMN.saturating_sub(begun);
        let _ = write!(out, "{line:width$}= ");
    }

    /// Counts arguments that surely point to memory, but to none that could be read.
    fn count_unreadable(&mut self, pending: &Pending, exit: &[u8]) {
        let name = self.names.known(pending.call).unwrap_or_default();
        let kinds = self.signatures.get(name).unwrap_or_default();
        let with = |payload: &[u8], readable: bool| -> HashSet<u8> {
            let chunks = chunks(payload).filter(|chunk| chunk.bytes.is_some() == readable);
            chunks.map(|chunk| chunk.argument).collect()
        };
        let read = with(exit, true);
        let lacking = with(&pending.memory, false);
        let is_pointer =
            |at: &&u8| kinds.get(usize::from(**at)).is_some_and(|kind| kind.is_pointer());
        self.unreadable += lacking.difference(&read).filter(is_pointer).count() as u64;
    }
}
