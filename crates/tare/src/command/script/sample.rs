//! The line of a sample.

use tare_format::abi::{Attr, Sampling};
use tare_format::file::{Description, Event};
use tare_format::record::{Record, Sample, kind};

use super::chain::Chains;
use super::events;
use super::fields::{Fields, Selection};
use super::line;
use crate::cli::resolved::script::{Clock, Script};
use crate::pipeline::replay::{Machine, Mode, Moment};

/// Writes samples.
pub(super) struct Printer<'a> {
    script: &'a Script,
    events: Vec<Printed>,
    name_width: usize,
    chains: Chains,
    /// The time that others are counted from.
    since_ns: Option<u64>,
}

/// An event as it is printed.
struct Printed {
    name: Vec<u8>,
    fields: Fields,
    has_chain: bool,
    /// Of samples that don't say their own.
    period: u64,
}

impl<'a> Printer<'a> {
    pub(super) fn new(script: &'a Script) -> Self {
        let chains = Chains::new(script.max_stack, script.stop_at.clone());
        Self { script, events: Vec::new(), name_width: 0, chains, since_ns: None }
    }

    /// Works out how the events are printed: of a pipe they come one after the other.
    fn learn(&mut self, description: &Description) -> Result<(), String> {
        if self.events.len() == description.events().len() {
            return Ok(());
        }
        let names: Vec<_> = description.events().iter().map(event_name).collect();
        let mut selection: Selection = self.script.selection.clone();
        let with_name = |(event, name): (&'_ Event, &Vec<u8>)| (event.attr.clone(), String::from_utf8_lossy(name).into_owned());
        let attrs: Vec<(Attr, String)> = description.events().iter().zip(&names).map(with_name).collect();
        selection.fit(&attrs)?;
        self.name_width = names.iter().map(Vec::len).max().unwrap_or(0);
        let printed = |(event, name): (&Event, Vec<u8>)| Printed {
            name,
            fields: selection.of(event.attr.kind),
            has_chain: self.script.callchains && event.attr.has_callchain(),
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
    pub(super) fn sample(&mut self, text: &mut Vec<u8>, machine: &mut Machine, moment: &Moment<'_>, sample: &Sample<'_>) -> Result<(), String> {
        self.learn(moment.description)?;
        let Some(event) = moment.event.and_then(|event| self.events.get(event)) else { return Ok(()) };
        let (fields, has_chain, period) = (event.fields, event.has_chain, event.period);
        if fields.is_empty() {
            return Ok(());
        }
        let who = Who { comm_tid: sample.tid.unwrap_or(-1), pid: sample.pid, tid: sample.tid, cpu: sample.cpu, time_ns: moment.time_ns };
        self.front(text, machine, &who, fields, has_chain);
        if fields.contains(Fields::PERIOD) {
            line::decimal(text, sample.period.unwrap_or(period), 10, b' ');
            text.push(b' ');
        }
        if fields.contains(Fields::EVENT) {
            let name = moment.event.and_then(|event| self.events.get(event)).map_or(&[][..], |event| &event.name);
            line::padded_name(text, name, self.name_width);
            text.extend_from_slice(b": ");
        }
        if fields.contains(Fields::IP) {
            if has_chain {
                text.push(b'\n');
                self.chains.chain(text, machine, sample, fields);
            } else {
                let mode = Mode::of(moment.raw.misc);
                self.chains.address(text, machine, (mode, sample.pid.unwrap_or(-1)), sample.ip.unwrap_or(0), fields);
            }
        }
        text.push(b'\n');
        Ok(())
    }

    /// Adds a record other than a sample, where it was asked for.
    ///
    /// # Errors
    /// The user asked for fields that samples don't have.
    pub(super) fn other(&mut self, text: &mut Vec<u8>, machine: &Machine, moment: &Moment<'_>, record: &Record<'_>) -> Result<(), String> {
        let Some(about) = events::is_shown(record, moment.raw.kind, &self.script.shown) else { return Ok(()) };
        self.learn(moment.description)?;
        if moment.raw.kind != kind::FINISHED_ROUND
            && let Some(event) = self.events.get(moment.event.unwrap_or(0))
        {
            let (fields, has_chain) = (event.fields, event.has_chain);
            let layout = moment.description.lookup().layouts().get(moment.event.unwrap_or(0));
            let id = layout.map(|layout| layout.sample_id(&moment.raw)).unwrap_or_default();
            let (pid, tid) = about.map_or((id.pid, id.tid), |(pid, tid)| (id.pid.or(Some(pid)), id.tid.or(Some(tid))));
            let comm_tid = about.map(|(_, tid)| tid).or(id.tid).unwrap_or(-1);
            let who = Who { comm_tid, pid, tid, cpu: id.cpu.or(Some(0)), time_ns: moment.time_ns };
            self.front(text, machine, &who, fields, has_chain);
        }
        events::record(text, moment, record);
        Ok(())
    }

    /// Adds who, where and when.
    fn front(&mut self, text: &mut Vec<u8>, machine: &Machine, who: &Who, fields: Fields, has_chain: bool) {
        if fields.contains(Fields::COMM) {
            let width = if fields.contains(Fields::IP) && has_chain { 0 } else { 16 };
            match machine.tasks.comm(who.comm_tid) {
                Some(comm) => line::padded_name(text, comm, width),
                None => line::padded_name(text, format!(":{}", who.comm_tid).as_bytes(), width),
            }
            text.push(b' ');
        }
        let (pid, tid) = (who.pid.unwrap_or(-1), who.tid.unwrap_or(-1));
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
        if fields.contains(Fields::TIME) {
            self.time(text, who.time_ns.unwrap_or(0));
        }
    }

    fn time(&mut self, text: &mut Vec<u8>, now_ns: u64) {
        let shown_ns = match self.script.clock {
            Clock::Recorded => now_ns,
            Clock::SinceFirst | Clock::SinceLast => now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns)),
        };
        if self.script.clock == Clock::SinceLast {
            self.since_ns = Some(now_ns);
        }
        time(text, shown_ns, self.script.nanoseconds);
        text.extend_from_slice(b": ");
    }
}

/// Whom a record is about.
struct Who {
    /// The thread whose name is shown.
    comm_tid: i32,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    time_ns: Option<u64>,
}

/// Adds a time: seconds, and micro- or nanoseconds.
fn time(text: &mut Vec<u8>, time_ns: u64, nanoseconds: bool) {
    let (seconds, below) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    line::decimal(text, seconds, 5, b' ');
    text.push(b'.');
    if nanoseconds {
        line::decimal(text, below, 9, b'0');
    } else {
        line::decimal(text, below / 1000, 6, b'0');
    }
}

/// An event's name; where the recording has none, what its attributes say.
fn event_name(event: &Event) -> Vec<u8> {
    event.name.clone().unwrap_or_else(|| format!("type {} config {:#x}", event.attr.kind, event.attr.config).into_bytes())
}
