//! Chrome's trace events: each thread's functions over time, for Perfetto and chrome://tracing.
//!
//! A sample shows where a thread was at one moment. The outer functions that two consecutive
//! samples of a thread have in common are drawn as running between them. If the recording has
//! context switches, each CPU has a track with its task.
//!
//! Source: the 'Trace Event Format' document of the Chromium project.

use std::collections::BTreeMap;
use std::io;

use indexmap::IndexMap;
use serde::Serialize;
use tare_format::ledger::Ledger;
use tare_profile::{FrameId, Profile, StringId, ThreadId};

use super::cached::Cached;
use super::sums::event_name;
use super::{ExportFormat, ExportWriter, Exporter};
use crate::json::json_text;
use crate::samples::{
    CpuSwitch, FrameKind, FrameText, LocatedSample, RecordingOrigin, RecordingSummary, SampleSink,
};

/// Longest time for which a sample's functions are drawn if the thread's next sample comes later or
/// never, in nanoseconds. For a clock it is twice the period instead.
const HOLD_NS: u64 = 10_000_000;

/// Upper limit of that time, in nanoseconds.
const LONGEST_HOLD_NS: u64 = 1_000_000_000;

/// Writes trace events as samples arrive.
pub struct Chrome {
    out: ExportWriter,
    has_begun: bool,
    threads: IndexMap<ThreadId, OpenThread, foldhash::fast::RandomState>,
    frames: Cached<FrameId, NamedFunction>,
    chain: Vec<FrameId>,
    /// By CPU number: whether a task is open on its track.
    cpus: BTreeMap<u32, bool>,
    last_ns: u64,
}

/// The process id of the CPUs' tracks, which no real process has.
const CPUS: i32 = -1;

/// A thread's open functions.
#[derive(Default)]
struct OpenThread {
    pid: i32,
    tid: i32,
    comm: Option<StringId>,
    /// The open functions, the outermost first.
    frames: Vec<FrameId>,
    /// Time of its last sample.
    last_ns: u64,
    /// Longest time for which that sample's functions are drawn.
    hold_ns: u64,
}

/// A function's name, file and category.
struct NamedFunction {
    name: String,
    dso: Option<String>,
    kind: FrameKind,
}

impl NamedFunction {
    fn new(profile: &Profile, frame: FrameId) -> Self {
        let place = FrameText::new(profile, frame);
        let dso = place.dso.map(std::borrow::Cow::into_owned);
        Self { name: place.name.into_owned(), dso, kind: place.kind }
    }
}

#[derive(Serialize)]
struct TraceEvent<'a> {
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    pid: i32,
    tid: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<FrameKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args<'a>>,
}

#[derive(Serialize)]
struct Args<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct OtherData<'a> {
    session: &'a RecordingOrigin,
    losses: Vec<String>,
    ledger: Option<&'a Ledger>,
}

impl ExportFormat for Chrome {
    const NAME: &'static str = "chrome";
    const HELP: &'static str = "trace events: functions over time";
    const READERS: &'static str = "Perfetto, chrome://tracing";
    const EXTENSION: &'static str = "json";
    const HAS_TRACES: bool = true;

    fn create(out: ExportWriter) -> io::Result<Self> {
        Ok(Self {
            out,
            has_begun: false,
            threads: IndexMap::default(),
            frames: Cached::default(),
            chain: Vec::new(),
            cpus: BTreeMap::new(),
            last_ns: 0,
        })
    }
}

/// Writes events and the text between them.
struct TraceWriter<'a> {
    out: &'a mut ExportWriter,
    has_begun: &'a mut bool,
}

impl TraceWriter<'_> {
    fn put(&mut self, event: &TraceEvent<'_>) -> io::Result<()> {
        let begin =
            if std::mem::replace(self.has_begun, true) { ",\n" } else { "{\"traceEvents\":[\n" };
        self.out.write_all(begin.as_bytes())?;
        json_text(&mut *self.out, event)?;
        Ok(())
    }

    /// Closes all functions of a thread except the outermost `kept`.
    fn close(&mut self, open: &mut OpenThread, kept: usize, time_ns: u64) -> io::Result<()> {
        let pid = open.pid;
        let tid = open.tid;
        let ts = microseconds(time_ns);
        for _ in kept..open.frames.len() {
            let ph = "E";
            let name = None;
            let cat = None;
            let s = None;
            let args = None;
            self.put(&TraceEvent { ph, ts, pid, tid, name, cat, s, args })?;
            open.frames.pop();
        }
        Ok(())
    }
}

impl Chrome {
    /// Replaces the task on a CPU's track.
    fn write_switch(&mut self, switch: &CpuSwitch, time_ns: u64) -> io::Result<()> {
        let Self { out, has_begun, cpus, .. } = self;
        let mut events = TraceWriter { out, has_begun };
        let pid = CPUS;
        let tid = switch.cpu.cast_signed();
        let ts = microseconds(time_ns);
        let has_task = cpus.entry(switch.cpu).or_default();
        let name = None;
        let cat = None;
        let s = None;
        let args = None;
        if std::mem::replace(has_task, switch.tid != 0) {
            events.put(&TraceEvent { ph: "E", ts, pid, tid, name, cat, s, args })?;
        }
        if switch.tid == 0 {
            return Ok(());
        }
        let comm = switch.comm.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = format!("{}[{}]", String::from_utf8_lossy(comm), switch.tid);
        events.put(&TraceEvent { ph: "B", ts, pid, tid, name: Some(&name), cat, s, args: None })
    }

    /// Closes the tasks on the CPUs' tracks, and names the tracks.
    fn finish_cpus(&mut self) -> io::Result<()> {
        let Self { out, has_begun, cpus, last_ns, .. } = self;
        let mut events = TraceWriter { out, has_begun };
        let pid = CPUS;
        let cat = None;
        let s = None;
        if !cpus.is_empty() {
            events.put(&name_event("process_name", 0, "CPUs"))?;
        }
        for (cpu, has_task) in cpus {
            let tid = cpu.cast_signed();
            if *has_task {
                let ts = microseconds(*last_ns);
                let name = None;
                let args = None;
                events.put(&TraceEvent { ph: "E", ts, pid, tid, name, cat, s, args })?;
            }
            events.put(&name_event("thread_name", tid, &format!("CPU {cpu}")))?;
        }
        Ok(())
    }
}

/// Returns the event that names a CPU's track, or the process of these tracks.
fn name_event<'a>(title: &'static str, tid: i32, name: &'a str) -> TraceEvent<'a> {
    let args = Some(Args { dso: None, fields: None, name: Some(name) });
    TraceEvent { ph: "M", ts: 0.0, pid: CPUS, tid, name: Some(title), cat: None, s: None, args }
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl SampleSink for Chrome {
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        if let (Some(switch), Some(time_ns)) = (&sample.switch, sample.time_ns) {
            self.write_switch(switch, time_ns)?;
        }
        self.last_ns = self.last_ns.max(sample.time_ns.unwrap_or(0));
        let Self { out, has_begun, threads, frames, chain, .. } = self;
        let Some(id) = sample.row.thread else { return Ok(()) };
        let Some(time_ns) = sample.time_ns else { return Ok(()) };
        let Some(thread) = profile.thread(id) else { return Ok(()) };
        profile.frames_of_row(&sample.row, chain);
        chain.reverse();
        let open = threads.entry(id).or_default();
        open.pid = thread.pid;
        open.tid = thread.tid;
        open.comm = sample.row.comm;
        let mut events = TraceWriter { out, has_begun };
        let end_ns = open.last_ns.saturating_add(open.hold_ns).min(time_ns);
        let same = open.frames.iter().zip(chain.iter()).take_while(|(a, b)| a == b).count();
        let kept = if end_ns < time_ns { 0 } else { same };
        events.close(open, kept, end_ns)?;
        let pid = thread.pid;
        let tid = thread.tid;
        let ts = microseconds(time_ns);
        for frame in chain.iter().skip(kept) {
            let named = frames.get(*frame, || NamedFunction::new(profile, *frame));
            events.put(&TraceEvent {
                ph: "B",
                ts,
                pid,
                tid,
                name: Some(&named.name),
                cat: Some(named.kind),
                s: None,
                args: named.dso.as_deref().map(|dso| Args {
                    dso: Some(dso),
                    fields: None,
                    name: None,
                }),
            })?;
            open.frames.push(*frame);
        }
        let name = event_name(profile, sample.row.event);
        let is_clock = ["cpu-clock", "task-clock"].iter().any(|clock| name.starts_with(clock));
        let hold_ns = if is_clock { sample.weight.period.saturating_mul(2) } else { HOLD_NS };
        open.last_ns = time_ns;
        open.hold_ns = hold_ns.min(LONGEST_HOLD_NS);
        let Some(fields) = sample.row.trace else { return Ok(()) };
        let fields = String::from_utf8_lossy(profile.string(fields));
        let args = Some(Args { dso: None, fields: Some(&fields), name: None });
        let name = Some(&name[..]);
        let s = Some("t");
        events.put(&TraceEvent { ph: "i", ts, pid, tid, name, cat: None, s, args })
    }
}

impl Exporter for Chrome {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        self.finish_cpus()?;
        let Self { out, has_begun, threads, .. } = &mut *self;
        let mut events = TraceWriter { out, has_begun };
        for open in threads.values_mut() {
            let end_ns = open.last_ns.saturating_add(open.hold_ns);
            events.close(open, 0, end_ns)?;
            let comm = open.comm.map(|comm| whole.profile.string(comm)).unwrap_or_default();
            let comm = String::from_utf8_lossy(comm);
            let pid = open.pid;
            let tid = open.tid;
            let titles = [("thread_name", true), ("process_name", pid == tid)];
            for (title, _) in titles.into_iter().filter(|(_, is_written)| *is_written) {
                let args = Some(Args { dso: None, fields: None, name: Some(&comm) });
                let name = Some(title);
                let cat = None;
                let s = None;
                events.put(&TraceEvent { ph: "M", ts: 0.0, pid, tid, name, cat, s, args })?;
            }
        }
        let session = whole.session;
        let ledger = whole.ledger;
        let other = OtherData { session, losses: whole.loss_lines(), ledger };
        let begin = if *has_begun { "" } else { "{\"traceEvents\":[" };
        write!(out, "{begin}\n],\"displayTimeUnit\":\"ms\",\"otherData\":")?;
        json_text(&mut *out, &other)?;
        writeln!(out, "}}")?;
        out.flush()
    }
}
