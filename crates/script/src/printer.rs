//! Prints the line of a sample or of another record.

use std::cell::Cell;
use std::rc::Rc;

use tare_format::abi::{Attr, Sampling};
use tare_format::file::{ClockData, Description, RecordedEvent};
use tare_format::record::{Record, Sample, kind};
use tare_render::script::{Fields, Selection, decimal, name, padded_name, signed};
use tare_replay::{CodeAddress, CpuMode, Machine, Replayed, Tracepoints};

use crate::address::AddressPrinter;
use crate::branches::BranchPrinter;
use crate::error::ScriptError;
use crate::extra::SampleLine;
use crate::options::{ScriptOptions, TimeBase};
use crate::pending::may_have_lines;
use crate::records::{self, RecordTask};

/// Prints the lines of one output.
pub(crate) struct LinePrinter<'a> {
    options: &'a ScriptOptions,
    events: Vec<PrintedEvent>,
    name_width: usize,
    addresses: AddressPrinter,
    branches: BranchPrinter,
    tracepoints: Tracepoints,
    /// The time from which relative times count; shared by all outputs.
    since_ns: Rc<Cell<Option<u64>>>,
    /// The recording's clock and the time of day at one moment.
    clock: Option<ClockData>,
}

/// How samples of an event are printed.
struct PrintedEvent {
    name: Vec<u8>,
    fields: Fields,
    has_chain: bool,
    has_data_address: bool,
    config: u64,
    /// The period printed for samples that don't carry their own: as in perf, the frequency if the
    /// event has one.
    period: u64,
}

/// The values of the fields that [`LinePrinter::add_head`] prints.
struct LineHead {
    /// The thread whose name is printed.
    comm_tid: i32,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    time_ns: Option<u64>,
    misc: u16,
    kind: u32,
}

impl<'a> LinePrinter<'a> {
    /// `arch` is the recorded machine's, as `uname -m` prints it.
    pub(crate) fn new(options: &'a ScriptOptions, arch: &[u8]) -> Self {
        Self {
            options,
            events: Vec::new(),
            name_width: 0,
            addresses: AddressPrinter::new(options),
            branches: BranchPrinter::new(arch, options.max_blocks),
            tracepoints: Tracepoints::default(),
            since_ns: Rc::default(),
            clock: None,
        }
    }

    /// Returns a printer for another output, whose relative times count from the same time.
    pub(crate) fn with_same_clock(&self, options: &'a ScriptOptions, arch: &[u8]) -> Self {
        Self { since_ns: self.since_ns.clone(), ..Self::new(options, arch) }
    }

    /// Whether lines wait for debug info.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.addresses.pending.is_empty()
    }

    /// Bytes of memory of the gaps.
    pub(crate) fn gap_bytes(&self) -> usize {
        self.addresses.pending.bytes()
    }

    /// Fills the gaps of lines that wait for debug info.
    pub(crate) fn fill_gaps(&mut self, machine: &Machine, text: &mut Vec<u8>) {
        self.addresses.pending.fill(machine, text);
    }

    /// Learns events. A stream describes them one by one.
    fn learn_events(&mut self, description: &Description) -> Result<(), ScriptError> {
        if self.events.len() == description.events().len() {
            return Ok(());
        }
        self.tracepoints.learn(description);
        self.clock = description.features().clock_data().ok();
        let names: Vec<_> =
            description.events().iter().map(|event| self.tracepoints.event_name(event)).collect();
        let mut selection: Selection = self.options.selection.clone();
        let with_name = |(event, name): (&'_ RecordedEvent, &Vec<u8>)| {
            (event.attr.clone(), String::from_utf8_lossy(name).into_owned())
        };
        let attrs: Vec<(Attr, String)> =
            description.events().iter().zip(&names).map(with_name).collect();
        selection.fit(&attrs).map_err(ScriptError::MissingField)?;
        self.name_width = names.iter().map(Vec::len).max().unwrap_or(0);
        let printed = |(event, name): (&RecordedEvent, Vec<u8>)| PrintedEvent {
            name,
            fields: selection.fields_for(event.attr.kind),
            has_chain: self.options.callchains && event.attr.has_callchain(),
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
    /// Fails if the user named a field that samples lack.
    pub(crate) fn add_sample(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<(), ScriptError> {
        self.learn_events(sample.description)?;
        let Some(event) = sample.event.and_then(|event| self.events.get(event)) else {
            return Ok(());
        };
        let fields = event.fields;
        let has_chain = event.has_chain;
        let period = event.period;
        if fields.is_empty() {
            return Ok(());
        }
        let head = LineHead {
            comm_tid: sample.fields.head.tid.unwrap_or(-1),
            pid: sample.fields.head.pid,
            tid: sample.fields.head.tid,
            cpu: sample.fields.head.cpu,
            time_ns: sample.time_ns,
            misc: sample.raw.misc,
            kind: sample.raw.kind,
        };
        self.add_head(text, machine, &head, fields, has_chain);
        if fields.contains(Fields::PERIOD) {
            decimal(text, sample.fields.head.period.unwrap_or(period), 10, b' ');
            text.push(b' ');
        }
        if fields.contains(Fields::EVENT) {
            let event_name = sample
                .event
                .and_then(|event| self.events.get(event))
                .map_or(&[][..], |event| &event.name);
            padded_name(text, event_name, self.name_width);
            text.extend_from_slice(b": ");
        }
        if fields.contains(Fields::FLAGS) {
            // Only samples of hardware traces (AUX) have flags, and tare doesn't decode these.
            text.extend_from_slice(&[b' '; 24]);
        }
        self.add_details(text, machine, sample);
        text.push(b'\n');
        if fields.contains(Fields::SRCCODE) {
            self.leave_source_gap(text, machine, sample);
        }
        Ok(())
    }

    /// Leaves a gap for the source line below a sample.
    fn leave_source_gap(
        &mut self,
        text: &[u8],
        machine: &Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) {
        let head = &sample.fields.head;
        let mode = CpuMode::from_misc(sample.raw.misc);
        let at = machine.dso_address(mode, head.pid.unwrap_or(-1), head.ip.unwrap_or(0));
        if let Some(at) = at.filter(|at| may_have_lines(machine, *at)) {
            self.addresses.pending.push_source(text.len(), head.tid.unwrap_or(-1), at);
        }
    }

    /// Adds the fields after the event's name.
    fn add_details(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) {
        let Some(event) = sample.event.and_then(|event| self.events.get(event)) else { return };
        let fields = event.fields;
        if let Some(raw) = sample.fields.raw.filter(|_| fields.contains(Fields::TRACE)) {
            name(text, self.tracepoints.fields(machine, event.config, raw));
        }
        let misc = sample.raw.misc;
        let addresses = &mut self.addresses;
        let mut line = SampleLine { text, machine, addresses, fields };
        line.add_fields_before_ip(sample.fields, misc, event.has_data_address);
        if fields.contains(Fields::IP) {
            let SampleLine { text, machine, addresses, .. } = &mut line;
            if event.has_chain {
                text.push(b'\n');
                addresses.add_chain(text, machine, sample, fields);
            } else {
                let head = &sample.fields.head;
                let mode = CpuMode::from_misc(misc);
                let address = CodeAddress::exact(mode, head.ip.unwrap_or(0));
                addresses.add_address(text, machine, head.pid.unwrap_or(-1), address, fields);
            }
        }
        line.add_registers(sample.fields);
        self.branches.add_branches(&mut line, sample.fields);
        self.branches.add_code(&mut line, sample.fields);
        line.add_last_fields(sample.fields);
    }

    /// Adds a record other than a sample, if its kind is printed.
    ///
    /// # Errors
    /// Fails if the user named a field that samples lack.
    pub(crate) fn add_record(
        &mut self,
        text: &mut Vec<u8>,
        machine: &Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<(), ScriptError> {
        let printed = &self.options.records;
        let Some(task) = records::find_task(record.fields, record.raw.kind, printed) else {
            return Ok(());
        };
        self.learn_events(record.description)?;
        if record.raw.kind != kind::FINISHED_ROUND
            && let Some(event) = self.events.get(record.event.unwrap_or(0))
        {
            let fields = event.fields;
            let has_chain = event.has_chain;
            let layout = record.description.lookup().layouts().get(record.event.unwrap_or(0));
            let id = layout.map(|layout| layout.sample_id(&record.raw)).unwrap_or_default();
            let (pid, tid, comm_tid) = match task {
                RecordTask::Body { pid, tid } => (id.pid.or(Some(pid)), id.tid.or(Some(tid)), tid),
                RecordTask::Trailer => (id.pid, id.tid, id.tid.unwrap_or(-1)),
            };
            let head = LineHead {
                comm_tid,
                pid,
                tid,
                cpu: id.cpu.or(Some(0)),
                time_ns: record.time_ns,
                misc: record.raw.misc,
                kind: record.raw.kind,
            };
            self.add_head(text, machine, &head, fields, has_chain);
        }
        tare_render::script::record(text, &record.raw, record.fields);
        Ok(())
    }

    /// Adds thread, CPU, the letters of `misc`, and time.
    fn add_head(
        &mut self,
        text: &mut Vec<u8>,
        machine: &Machine,
        head: &LineHead,
        fields: Fields,
        has_chain: bool,
    ) {
        if fields.contains(Fields::COMM) {
            let width = if fields.contains(Fields::IP) && has_chain { 0 } else { 16 };
            match machine.comm(head.comm_tid) {
                Some(comm) => padded_name(text, comm, width),
                None => padded_name(text, format!(":{}", head.comm_tid).as_bytes(), width),
            }
            text.push(b' ');
        }
        let pid = head.pid.unwrap_or(-1);
        let tid = head.tid.unwrap_or(-1);
        match (fields.contains(Fields::PID), fields.contains(Fields::TID)) {
            (true, true) => {
                signed(text, pid, 5);
                text.push(b'/');
                let end = text.len() + 5;
                signed(text, tid, 0);
                text.resize(text.len().max(end), b' ');
            }
            (true, false) => signed(text, pid, 5),
            (false, true) => signed(text, tid, 5),
            (false, false) => {}
        }
        if fields.intersects(Fields::PID | Fields::TID) {
            text.push(b' ');
        }
        if fields.contains(Fields::CPU) {
            text.push(b'[');
            decimal(text, head.cpu.unwrap_or(u32::MAX).into(), 3, b'0');
            text.extend_from_slice(b"] ");
        }
        if fields.contains(Fields::MISC) {
            add_misc(text, head.misc, head.kind);
        }
        if fields.contains(Fields::TOD) {
            self.add_time_of_day(text, head.time_ns.unwrap_or(0));
        }
        if fields.contains(Fields::TIME) {
            self.add_time(text, head.time_ns.unwrap_or(0));
        }
    }

    /// Adds the local date and time, as perf does: `N/A` if the recording has no reading of its
    /// clock beside the time of day.
    fn add_time_of_day(&self, text: &mut Vec<u8>, time_ns: u64) {
        let Some((clock, local_time)) = self.clock.zip(self.options.local_time) else {
            text.extend_from_slice(b"N/A ");
            return;
        };
        let wall_ns = clock.to_wall_ns(time_ns);
        let seconds = i64::try_from(wall_ns / 1_000_000_000).unwrap_or(i64::MAX);
        text.extend_from_slice(local_time(seconds).as_bytes());
        let below_ns = wall_ns % 1_000_000_000;
        let fraction = if self.options.nanoseconds {
            format!(".{below_ns:09} ")
        } else {
            format!(".{:06} ", below_ns / 1000)
        };
        text.extend_from_slice(fraction.as_bytes());
    }

    fn add_time(&mut self, text: &mut Vec<u8>, now_ns: u64) {
        let printed_ns = match self.options.time_base {
            TimeBase::Recorded => now_ns,
            TimeBase::FirstSample | TimeBase::PreviousSample => {
                let since_ns = self.since_ns.get().unwrap_or(now_ns);
                self.since_ns.set(Some(since_ns));
                now_ns.saturating_sub(since_ns)
            }
        };
        if self.options.time_base == TimeBase::PreviousSample {
            self.since_ns.set(Some(now_ns));
        }
        add_seconds(text, printed_ns, self.options.nanoseconds);
        text.extend_from_slice(b": ");
    }
}

/// Adds letters for the bits of `misc`, whose meaning depends on the record's kind. The low three
/// bits are the CPU mode; like perf, this prints the letter of every mode whose bits are all set.
fn add_misc(text: &mut Vec<u8>, misc: u16, record_kind: u32) {
    let modes = [(1, b'K'), (2, b'U'), (3, b'H'), (4, b'G'), (5, b'g')];
    let special: &[(u16, u8)] = match record_kind {
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

/// Adds a time in seconds, with six or nine decimals.
fn add_seconds(text: &mut Vec<u8>, time_ns: u64, nanoseconds: bool) {
    let seconds = time_ns / 1_000_000_000;
    let fraction_ns = time_ns % 1_000_000_000;
    decimal(text, seconds, 5, b' ');
    text.push(b'.');
    if nanoseconds {
        decimal(text, fraction_ns, 9, b'0');
    } else {
        decimal(text, fraction_ns / 1000, 6, b'0');
    }
}
