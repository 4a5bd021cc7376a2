//! Records as lines, as in strace: a call that nothing interrupts is one line; otherwise it is
//! printed as unfinished and resumed later. `events` formats what happens between calls.

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

/// Column of the result.
const COLUMN: usize = 40;
/// Nanoseconds after which a call that hasn't returned is printed as unfinished.
const PATIENCE_NS: u64 = 100_000_000;

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
}

/// A call in progress.
#[derive(Debug)]
struct Pending {
    call: Call,
    values: [u64; 6],
    memory: Vec<u8>,
    time_ns: u64,
    prefix: bool,
    /// The text printed so far.
    written: Option<String>,
}

#[derive(Debug, Default)]
struct Task {
    pending: Option<Pending>,
    /// Signals that arrived during the call; they are printed when it returns.
    signals: Vec<String>,
    /// The call chain, if call chains are printed.
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
    /// The thread whose call began last, if nothing was printed since.
    open: Option<u32>,
    /// The last line of the output is unfinished.
    partial: bool,
    /// Strings that couldn't be read, neither at the call nor at the return.
    unreadable: u64,
    /// Pointers are printed as addresses: no memory was copied.
    only_pointers: bool,
}

impl Lines {
    /// Creates the formatter.
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

    /// Prints pointers as addresses from now on.
    pub fn show_pointers(&mut self) {
        self.only_pointers = true;
    }

    /// Returns what the kernel has to copy for each selected call.
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

    /// Number of arguments whose memory could be read neither at the call nor at the return.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Appends the lines of a record.
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
            // Perf events record all calls, so the selection is applied here.
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

    /// Ends the last line as unfinished, because another record follows.
    fn interrupt(&mut self, out: &mut String) {
        let Some(tid) = self.open.take() else { return };
        if !std::mem::take(&mut self.partial) {
            self.begin(tid, out);
        }
        out.push_str(" <unfinished ...>\n");
    }

    /// Prints the beginning of a call.
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

    /// Prints the beginning of a call that hasn't returned for a while; `now_ns` is
    /// `CLOCK_MONOTONIC`.
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

    /// Appends the calls that are still in progress.
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

    /// Prints a call up to and including ` = `.
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
                // The beginning of the line has been printed.
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

    /// Counts the arguments that certainly are pointers but whose memory couldn't be read.
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
