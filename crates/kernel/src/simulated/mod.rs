//! A simulated kernel whose ring buffers fill: a test emits events, and the code under test reads
//! them from shared memory.

mod ring;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;

use rustix::io::Errno;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, Layout, RecordHeader, SampleId, Task};

use self::ring::RingMemory;
use crate::mapping::{Access, Mapping};
use crate::open::{EventFile, EventTarget, Kernel};

/// The kernel. Clones share its state.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    state: Rc<RefCell<SimulatedKernel>>,
}

#[derive(Debug, Default)]
struct SimulatedKernel {
    events: Vec<SimulatedEvent>,
    /// Offline CPUs.
    offline: BTreeSet<u32>,
    now_ns: u64,
}

#[derive(Debug)]
struct SimulatedEvent {
    attr: Attr,
    target: EventTarget,
    is_open: bool,
    /// Dropped with its CPU: it never counts again, even if enabled.
    is_dropped: bool,
    enabled: bool,
    output: SimulatedOutput,
    samples: u64,
    lost: u64,
}

/// Where an event's records go: its own ring, or another event's.
#[derive(Debug, Default)]
struct SimulatedOutput {
    ring: Option<RingMemory>,
    /// The event into whose ring this one writes.
    redirected_to: Option<usize>,
    is_paused: bool,
    /// Lost records that no record of losses has reported yet.
    unreported: u64,
}

impl SimulatedOutput {
    /// Stores a record behind the record of earlier losses, if there is one.
    fn store(&mut self, losses: Option<&[u8]>, record: &[u8]) -> Emitted {
        let Some(ring) = &mut self.ring else { return Emitted::Off };
        let reported = !self.is_paused && losses.is_none_or(|losses| ring.store(losses));
        let stored = reported && ring.store(record);
        self.unreported = if reported { 0 } else { self.unreported } + u64::from(!stored);
        if stored { Emitted::Stored } else { Emitted::Lost }
    }
}

/// The result of emitting a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    /// It is in a ring.
    Stored,
    /// The ring had no room, or the output is paused.
    Lost,
    /// The event is not enabled, or has no ring.
    Off,
}

/// The fields of a sample. Fields that the event's attribute doesn't request are not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedSample {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The instruction pointer.
    pub ip: u64,
}

impl Simulated {
    /// Advances the events' clock.
    pub fn advance_ns(&self, ns: u64) {
        self.state.borrow_mut().now_ns += ns;
    }

    /// Returns the time of the events' clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.state.borrow().now_ns
    }

    /// Returns the number and target of each open event that isn't a dummy, except those that were
    /// dropped with their CPU.
    #[must_use]
    pub fn sampled(&self) -> Vec<(usize, EventTarget)> {
        let samples = |attr: &Attr| {
            attr.config != u64::from(abi::PERF_COUNT_SW_DUMMY)
                || attr.kind != abi::PERF_TYPE_SOFTWARE
        };
        self.open_events(samples)
    }

    /// Returns the number and target of each open event that reports task names, except those that
    /// were dropped with their CPU.
    #[must_use]
    pub fn tracking(&self) -> Vec<(usize, EventTarget)> {
        self.open_events(|attr| attr.flags.contains(Flags::COMM))
    }

    fn open_events(&self, matches: impl Fn(&Attr) -> bool) -> Vec<(usize, EventTarget)> {
        let state = self.state.borrow();
        let events = state.events.iter().enumerate();
        let open =
            events.filter(|(_, event)| event.is_open && !event.is_dropped && matches(&event.attr));
        open.map(|(number, event)| (number, event.target)).collect()
    }

    /// Returns the number of open event descriptors.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.state.borrow().events.iter().filter(|event| event.is_open).count()
    }

    /// Takes a CPU offline: the kernel drops the events on the whole CPU or a cgroup there, and
    /// opens none. Records in ring buffers stay.
    pub fn offline(&self, cpu: u32) {
        let mut state = self.state.borrow_mut();
        state.offline.insert(cpu);
        for event in state.events.iter_mut().filter(|event| event.target.cpu() == Some(cpu)) {
            (event.is_dropped, event.enabled) = (true, false);
        }
    }

    /// Brings a CPU back online, without events.
    pub fn online(&self, cpu: u32) {
        self.state.borrow_mut().offline.remove(&cpu);
    }

    /// Returns an event's period; for an event with a frequency, the nanoseconds between samples; 0
    /// for one without samples.
    #[must_use]
    pub fn period_of(&self, event: usize) -> u64 {
        self.state.borrow().events.get(event).map_or(0, SimulatedEvent::period)
    }

    /// Returns the id that an event's samples carry.
    #[must_use]
    pub fn id_of(&self, event: usize) -> u64 {
        id(event)
    }

    /// Emits a sample of an event.
    pub fn sample(&self, event: usize, fields: SimulatedSample) -> Emitted {
        let mut state = self.state.borrow_mut();
        let now_ns = state.now_ns;
        let Some(source) = state.events.get(event).filter(|source| source.enabled) else {
            return Emitted::Off;
        };
        let sample = sample(source, id(event), fields, now_ns);
        let emitted = state.emit(event, &sample);
        let source = &mut state.events[event];
        source.samples += u64::from(emitted != Emitted::Off);
        source.lost += u64::from(emitted == Emitted::Lost);
        emitted
    }

    /// Emits an event's record of a thread's new name.
    pub fn comm(&self, event: usize, comm: &Comm<'_>) -> Emitted {
        self.emit_record(event, comm.pid, comm.tid, |encoder, into| {
            encoder.comm(into, comm).is_ok()
        })
    }

    /// Emits an event's record of a new thread, with the current time.
    pub fn fork(&self, event: usize, task: Task) -> Emitted {
        let task = Task { time_ns: self.now_ns(), ..task };
        self.emit_record(event, task.ppid, task.ptid, |encoder, into| {
            encoder.fork(into, &task, false).is_ok()
        })
    }

    /// Emits an event's record of a thread's exit, with the current time.
    pub fn exit(&self, event: usize, task: Task) -> Emitted {
        let task = Task { time_ns: self.now_ns(), ..task };
        self.emit_record(event, task.pid, task.tid, |encoder, into| {
            encoder.exit(into, &task).is_ok()
        })
    }

    /// Emits `PERF_RECORD_THROTTLE`: the event samples too often.
    pub fn throttle(&self, event: usize) -> Emitted {
        let mut state = self.state.borrow_mut();
        let now_ns = state.now_ns;
        let Some(source) = state.events.get(event).filter(|source| source.enabled) else {
            return Emitted::Off;
        };
        let mut bytes =
            [now_ns, id(event), id(event)].map(u64::to_ne_bytes).as_flattened().to_vec();
        bytes.extend(source.trailer(id(event), now_ns));
        state.emit(event, &record(abi::PERF_RECORD_THROTTLE, 0, &bytes))
    }

    fn emit_record(
        &self,
        event: usize,
        pid: i32,
        tid: i32,
        encode: impl FnOnce(&Encoder, &mut Vec<u8>) -> bool,
    ) -> Emitted {
        let mut state = self.state.borrow_mut();
        let now_ns = state.now_ns;
        let Some(source) = state.events.get(event).filter(|source| source.enabled) else {
            return Emitted::Off;
        };
        let end = source.sample_id(pid, tid, id(event), now_ns);
        let mut bytes = Vec::new();
        if !encode(&Encoder::new(&Layout::from(&source.attr), &end), &mut bytes) {
            return Emitted::Off;
        }
        state.emit(event, &bytes)
    }
}

impl SimulatedKernel {
    /// Stores a record in the ring that the event writes into, behind a record of earlier losses if
    /// there are any.
    fn emit(&mut self, event: usize, record: &[u8]) -> Emitted {
        let now_ns = self.now_ns;
        let owner = self.events[event].output.redirected_to.unwrap_or(event);
        let unreported = self.events[owner].output.unreported;
        let losses =
            (unreported > 0).then(|| lost(&self.events[event], id(event), unreported, now_ns));
        self.events[owner].output.store(losses.as_deref(), record)
    }
}

impl SimulatedEvent {
    fn cpu(&self) -> u32 {
        match self.target {
            EventTarget::Cpu(cpu)
            | EventTarget::TaskOnCpu(_, cpu)
            | EventTarget::CgroupOnCpu(_, cpu) => cpu,
            EventTarget::Task(_) => 0,
        }
    }

    fn period(&self) -> u64 {
        match self.attr.sampling {
            Sampling::Frequency(hz) => 1_000_000_000 / hz.max(1),
            Sampling::Period(period) => period,
            Sampling::None => 0,
        }
    }

    fn sample_id(&self, pid: i32, tid: i32, id: u64, time_ns: u64) -> SampleId {
        SampleId {
            pid: Some(pid),
            tid: Some(tid),
            time_ns: Some(time_ns),
            id: Some(id),
            stream_id: Some(id),
            cpu: Some(self.cpu()),
        }
    }

    /// The sample id at the end of a record that names no task.
    fn trailer(&self, id: u64, time_ns: u64) -> Vec<u8> {
        Layout::from(&self.attr).trailer(&self.sample_id(0, 0, id, time_ns))
    }
}

fn id(event: usize) -> u64 {
    1000 + event as u64
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = RecordHeader::SIZE + body.len();
    let header = RecordHeader { kind, misc, size: u16::try_from(size).unwrap_or(u16::MAX) };
    [&header.encode()[..], body].concat()
}

/// Encodes a sample with those of six fields that the event requests, in the order of
/// `perf_output_sample`.
fn sample(event: &SimulatedEvent, id: u64, fields: SimulatedSample, time_ns: u64) -> Vec<u8> {
    let SimulatedSample { pid, tid, ip } = fields;
    let task = [pid, tid].map(i32::to_ne_bytes);
    let fields = [
        (abi::PERF_SAMPLE_IDENTIFIER, id),
        (abi::PERF_SAMPLE_IP, ip),
        (
            abi::PERF_SAMPLE_TID,
            u64::from_ne_bytes(*task.as_flattened().first_chunk().unwrap_or(&[0; 8])),
        ),
        (abi::PERF_SAMPLE_TIME, time_ns),
        (abi::PERF_SAMPLE_CPU, event.cpu().into()),
        (abi::PERF_SAMPLE_PERIOD, event.period()),
    ];
    let has = |field: u32| event.attr.sample_type & u64::from(field) != 0;
    let words = fields.iter().filter(|(field, _)| has(*field));
    let body: Vec<u8> = words.flat_map(|(_, word)| word.to_ne_bytes()).collect();
    let misc = u16::try_from(abi::PERF_RECORD_MISC_USER).unwrap_or(0);
    record(abi::PERF_RECORD_SAMPLE, misc, &body)
}

/// Encodes `PERF_RECORD_LOST` with the fields of `sample_id_all`.
fn lost(event: &SimulatedEvent, id: u64, records: u64, time_ns: u64) -> Vec<u8> {
    let mut body = [id, records].map(u64::to_ne_bytes).as_flattened().to_vec();
    body.extend(event.trailer(id, time_ns));
    record(abi::PERF_RECORD_LOST, 0, &body)
}

impl Kernel for Simulated {
    fn open(
        &self,
        attr: &Attr,
        target: EventTarget,
        _leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno> {
        let mut state = self.state.borrow_mut();
        if target.cpu().is_some_and(|cpu| state.offline.contains(&cpu)) {
            return Err(Errno::NODEV);
        }
        state.events.push(SimulatedEvent {
            attr: attr.clone(),
            target,
            is_open: true,
            is_dropped: false,
            enabled: !attr.flags.contains(Flags::DISABLED),
            output: SimulatedOutput::default(),
            samples: 0,
            lost: 0,
        });
        let number = state.events.len() - 1;
        Ok(Box::new(SimulatedFile { number, state: Rc::clone(&self.state) }))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    number: usize,
    state: Rc<RefCell<SimulatedKernel>>,
}

impl SimulatedFile {
    fn with<T>(&self, change: impl FnOnce(&mut SimulatedEvent) -> T) -> T {
        change(&mut self.state.borrow_mut().events[self.number])
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.with(|event| {
            event.is_open = false;
            event.enabled = false;
        });
    }
}

impl EventFile for SimulatedFile {
    fn raw_fd(&self) -> RawFd {
        RawFd::try_from(self.number).unwrap_or(RawFd::MAX)
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let words = self.with(|event| {
            let format = event.attr.read_format;
            let mut words = vec![event.samples];
            let more = [
                (ReadFormat::TOTAL_TIME_ENABLED, 1),
                (ReadFormat::TOTAL_TIME_RUNNING, 1),
                (ReadFormat::ID, id(self.number)),
                (ReadFormat::LOST, event.lost),
            ];
            words.extend(more.into_iter().filter(|(bit, _)| format.contains(*bit)).map(|(_, w)| w));
            words
        });
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        into.get_mut(..bytes.len()).ok_or(Errno::NOSPC)?.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn enable(&self) -> Result<(), Errno> {
        self.with(|event| event.enabled = !event.is_dropped);
        Ok(())
    }

    fn disable(&self) -> Result<(), Errno> {
        self.with(|event| event.enabled = false);
        Ok(())
    }

    fn set_filter(&self, _filter: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    /// Simulated clocks keep their period.
    fn set_period(&self, _period: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn id(&self) -> Result<u64, Errno> {
        Ok(id(self.number))
    }

    fn map_ring(&self, size: usize, access: Access) -> Result<Mapping, Errno> {
        self.with(|event| {
            if event.output.ring.is_some() || event.output.redirected_to.is_some() {
                return Err(Errno::BUSY);
            }
            let is_backward = event.attr.flags.contains(Flags::WRITE_BACKWARD);
            let memory = RingMemory::new(size, is_backward)?;
            let mapping = memory.map(access)?;
            event.output.ring = Some(memory);
            Ok(mapping)
        })
    }

    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno> {
        let owner = usize::try_from(ring_of.raw_fd()).map_err(|_| Errno::BADF)?;
        self.with(|event| event.output.redirected_to = Some(owner));
        Ok(())
    }

    fn pause_output(&self, pause: bool) -> Result<(), Errno> {
        self.with(|event| event.output.is_paused = pause);
        Ok(())
    }
}
