//! The line of a sample.

use std::cell::Cell;
use std::rc::Rc;

use tare_format::abi::{Attr, Sampling};
use tare_format::file::{Description, Event};
use tare_format::record::{Record, Sample, kind};

use super::chain::Chains;
use super::code::Code;
use super::events::{self, RecordTask};
use super::extra;
use super::inline;
use super::line;
use crate::cli::resolved::script::{Script, TimeStyle};
use tare_render::script::{Fields, Selection};
use tare_replay::{CodeAddress, CpuMode, Machine, Replayed, Tracepoints};

/// Writes samples.
pub(super) struct Printer<'a> {
    script: &'a Script,
    events: Vec<EventFormat>,
    name_width: usize,
    chains: Chains,
    code: Code,
    tracepoints: Tracepoints,
    /// The time that others are counted from.
    since_ns: Rc<Cell<Option<u64>>>,
}

/// An event as it is printed.
struct EventFormat {
    name: Vec<u8>,
    fields: Fields,
    has_chain: bool,
    has_data_address: bool,
    config: u64,
    /// Of samples that don't say their own.
    period: u64,
}

impl<'a> Printer<'a> {
    /// `arch` is the recorded machine's, as `uname -m` has it.
    pub(super) fn new(script: &'a Script, arch: &[u8]) -> Self {
        let chains = Chains::new(script);
        Self {
            script,
            events: Vec::new(),
            name_width: 0,
            chains,
            code: Code::new(arch, script.max_blocks),
            tracepoints: Tracepoints::default(),
            since_ns: Rc::default(),
        }
    }

    /// The same for another output: times are counted from the same one.
    pub(super) fn beside(&self, arch: &[u8]) -> Self {
        Self { since_ns: self.since_ns.clone(), ..Self::new(self.script, arch) }
    }

    /// Whether lines wait for debug info.
    pub(super) fn has_open_lines(&self) -> bool {
        !self.chains.open.is_empty()
    }

    /// Fills in the lines that wait for debug info.
    pub(super) fn fill(&mut self, machine: &Machine, text: &mut Vec<u8>) {
        self.chains.open.fill(machine, text);
    }

    /// Works out how the events are printed: of a pipe they come one after the other.
    fn learn(&mut self, description: &Description) -> Result<(), String> {
        if self.events.len() == description.events().len() {
            return Ok(());
        }
        self.tracepoints.learn(description);
        let names: Vec<_> =
            description.events().iter().map(|event| self.tracepoints.event_name(event)).collect();
        let mut selection: Selection = self.script.selection.clone();
        let with_name = |(event, name): (&'_ Event, &Vec<u8>)| {
            (event.attr.clone(), String::from_utf8_lossy(name).into_owned())
        };
        let attrs: Vec<(Attr, String)> =
            description.events().iter().zip(&names).map(with_name).collect();
        selection.fit(&attrs)?;
        self.name_width = names.iter().map(Vec::len).max().unwrap_or(0);
        let printed = |(event, name): (&Event, Vec<u8>)| EventFormat {
            name,
            fields: selection.of(event.attr.kind),
            has_chain: self.script.callchains && event.attr.has_callchain(),
            has_data_address: tare_render::script::has_data_address(&event.attr),
            config: event.attr.config,
            period: match event.attr.sampling {
                Sampling::None => 0,
                Sampling::Period(period) | Sampling::Frequency(period) => period,
            },
        };
        self.events = description.events().iter().zip(names).map(printed).collect();
        Ok(())
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// The user asked for fields that samples don't have.
    pub(super) fn sample(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<(), String> {
        self.learn(sample.description)?;
        let Some(event) = sample.event.and_then(|event| self.events.get(event)) else {
            return Ok(());
        };
        let fields = event.fields;
        let has_chain = event.has_chain;
        let period = event.period;
        if fields.is_empty() {
            return Ok(());
        }
        let who = TaskColumns {
            comm_tid: sample.fields.head.tid.unwrap_or(-1),
            pid: sample.fields.head.pid,
            tid: sample.fields.head.tid,
            cpu: sample.fields.head.cpu,
            time_ns: sample.time_ns,
            misc: sample.raw.misc,
            kind: sample.raw.kind,
        };
        self.front(text, machine, &who, fields, has_chain);
        if fields.contains(Fields::PERIOD) {
            line::decimal(text, sample.fields.head.period.unwrap_or(period), 10, b' ');
            text.push(b' ');
        }
        if fields.contains(Fields::EVENT) {
            let name = sample
                .event
                .and_then(|event| self.events.get(event))
                .map_or(&[][..], |event| &event.name);
            line::padded_name(text, name, self.name_width);
            text.extend_from_slice(b": ");
        }
        if fields.contains(Fields::FLAGS) {
            // Flags come from hardware traces (AUX), which are not decoded.
            text.extend_from_slice(&[b' '; 24]);
        }
        self.details(text, machine, sample);
        text.push(b'\n');
        if fields.contains(Fields::SRCCODE) {
            self.source(text, machine, sample);
        }
        Ok(())
    }

    /// Leaves room for the line of source below a sample.
    fn source(&mut self, text: &[u8], machine: &Machine, sample: &Replayed<'_, Sample<'_>>) {
        let head = &sample.fields.head;
        let mode = CpuMode::of_misc(sample.raw.misc);
        let at = machine.dso_address(mode, head.pid.unwrap_or(-1), head.ip.unwrap_or(0));
        if let Some(at) = at.filter(|at| inline::may_have_lines(machine, *at)) {
            self.chains.open.push_source(text.len(), head.tid.unwrap_or(-1), at);
        }
    }

    /// Adds what the sample itself says.
    fn details(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) {
        let Some(event) = sample.event.and_then(|event| self.events.get(event)) else { return };
        let fields = event.fields;
        if let Some(raw) = sample.fields.raw.filter(|_| fields.contains(Fields::TRACE)) {
            line::name(text, self.tracepoints.fields(machine, event.config, raw));
        }
        let misc = sample.raw.misc;
        let has_address = event.has_data_address;
        extra::before_ip(text, machine, &mut self.chains, sample, fields, has_address);
        if fields.contains(Fields::IP) {
            if event.has_chain {
                text.push(b'\n');
                self.chains.chain(text, machine, sample, fields);
            } else {
                let head = &sample.fields.head;
                let mode = CpuMode::of_misc(misc);
                let address = head.ip.unwrap_or(0);
                let pid = head.pid.unwrap_or(-1);
                let at = CodeAddress { mode, address };
                self.chains.address(text, machine, pid, at, fields);
            }
        }
        extra::behind_ip(text, machine, &mut self.chains, &mut self.code, sample.fields, fields);
    }

    /// Adds a record other than a sample, where it was asked for.
    ///
    /// # Errors
    /// The user asked for fields that samples don't have.
    pub(super) fn other(
        &mut self,
        text: &mut Vec<u8>,
        machine: &Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<(), String> {
        let shown = &self.script.shown;
        let Some(about) = events::shown(record.fields, record.raw.kind, shown) else {
            return Ok(());
        };
        self.learn(record.description)?;
        if record.raw.kind != kind::FINISHED_ROUND
            && let Some(event) = self.events.get(record.event.unwrap_or(0))
        {
            let fields = event.fields;
            let has_chain = event.has_chain;
            let layout = record.description.lookup().layouts().get(record.event.unwrap_or(0));
            let id = layout.map(|layout| layout.sample_id(&record.raw)).unwrap_or_default();
            let (pid, tid, comm_tid) = match about {
                RecordTask::Task(pid, tid) => (id.pid.or(Some(pid)), id.tid.or(Some(tid)), tid),
                RecordTask::OfTrailer => (id.pid, id.tid, id.tid.unwrap_or(-1)),
            };
            let who = TaskColumns {
                comm_tid,
                pid,
                tid,
                cpu: id.cpu.or(Some(0)),
                time_ns: record.time_ns,
                misc: record.raw.misc,
                kind: record.raw.kind,
            };
            self.front(text, machine, &who, fields, has_chain);
        }
        tare_render::script::record(text, &record.raw, record.fields);
        Ok(())
    }

    /// Adds who, where and when.
    fn front(
        &mut self,
        text: &mut Vec<u8>,
        machine: &Machine,
        who: &TaskColumns,
        fields: Fields,
        has_chain: bool,
    ) {
        if fields.contains(Fields::COMM) {
            let width = if fields.contains(Fields::IP) && has_chain { 0 } else { 16 };
            match machine.comm(who.comm_tid) {
                Some(comm) => line::padded_name(text, comm, width),
                None => line::padded_name(text, format!(":{}", who.comm_tid).as_bytes(), width),
            }
            text.push(b' ');
        }
        let pid = who.pid.unwrap_or(-1);
        let tid = who.tid.unwrap_or(-1);
        match (fields.contains(Fields::PID), fields.contains(Fields::TID)) {
            (true, true) => {
                line::signed(text, pid, 5);
                text.push(b'/');
                let end = text.len() + 5;
                line::signed(text, tid, 0);
                text.resize(text.len().max(end), b' ');
            }
            (true, false) => line::signed(text, pid, 5),
            (false, true) => line::signed(text, tid, 5),
            (false, false) => {}
        }
        if fields.intersects(Fields::PID | Fields::TID) {
            text.push(b' ');
        }
        if fields.contains(Fields::CPU) {
            text.push(b'[');
            line::decimal(text, who.cpu.unwrap_or(u32::MAX).into(), 3, b'0');
            text.extend_from_slice(b"] ");
        }
        if fields.contains(Fields::MISC) {
            misc(text, who.misc, who.kind);
        }
        if fields.contains(Fields::TIME) {
            self.time(text, who.time_ns.unwrap_or(0));
        }
    }

    fn time(&mut self, text: &mut Vec<u8>, now_ns: u64) {
        let shown_ns = match self.script.clock {
            TimeStyle::Recorded => now_ns,
            TimeStyle::SinceFirst | TimeStyle::SinceLast => {
                let since_ns = self.since_ns.get().unwrap_or(now_ns);
                self.since_ns.set(Some(since_ns));
                now_ns.saturating_sub(since_ns)
            }
        };
        if self.script.clock == TimeStyle::SinceLast {
            self.since_ns.set(Some(now_ns));
        }
        time(text, shown_ns, self.script.nanoseconds);
        text.extend_from_slice(b": ");
    }
}

/// Whom a record is about.
struct TaskColumns {
    /// The thread whose name is shown.
    comm_tid: i32,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    time_ns: Option<u64>,
    misc: u16,
    kind: u32,
}

/// Adds letters for the bits of `misc`, which mean other things in other records. A mode is shown
/// where all of its bits are set.
fn misc(text: &mut Vec<u8>, misc: u16, record: u32) {
    let modes = [(1, b'K'), (2, b'U'), (3, b'H'), (4, b'G'), (5, b'g')];
    let special: &[(u16, u8)] = match record {
        kind::PERF_RECORD_MMAP | kind::PERF_RECORD_MMAP2 => &[(1 << 13, b'M')],
        kind::PERF_RECORD_COMM => &[(1 << 13, b'E')],
        kind::PERF_RECORD_SWITCH | kind::PERF_RECORD_SWITCH_CPU_WIDE => {
            &[(1 << 13, b'S'), (1 << 14, b'p')]
        }
        _ => &[],
    };
    let end = text.len() + 6;
    text.extend(
        modes
            .iter()
            .chain(special)
            .filter(|(bits, _)| misc & bits == *bits)
            .map(|(_, letter)| letter),
    );
    text.resize(end.max(text.len() + 1), b' ');
}

/// Adds a time: seconds, and micro- or nanoseconds.
fn time(text: &mut Vec<u8>, time_ns: u64, nanoseconds: bool) {
    let seconds = time_ns / 1_000_000_000;
    let below = time_ns % 1_000_000_000;
    line::decimal(text, seconds, 5, b' ');
    text.push(b'.');
    if nanoseconds {
        line::decimal(text, below, 9, b'0');
    } else {
        line::decimal(text, below / 1000, 6, b'0');
    }
}
