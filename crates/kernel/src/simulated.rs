//! A simulated kernel whose ring buffers fill: events are emitted by a test, and read by whoever
//! opened them, from memory that both share.

use std::cell::RefCell;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, ReadFormat};
use tare_format::record::RecordHeader;

use crate::mapping::{Access, Mapping};
use crate::open::{EventFile, Kernel, Target};

/// Where head and tail lie in a ring's control page: `struct perf_event_mmap_page`.
const HEAD: u64 = std::mem::offset_of!(abi::perf_event_mmap_page, data_head) as u64;
const TAIL: u64 = std::mem::offset_of!(abi::perf_event_mmap_page, data_tail) as u64;

/// The kernel. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    state: Rc<RefCell<State>>,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    now_ns: u64,
}

#[derive(Debug)]
struct Event {
    attr: Attr,
    target: Target,
    enabled: bool,
    ring: Option<RingMemory>,
    /// The event into whose ring this one writes.
    output: Option<usize>,
    samples: u64,
    lost: u64,
    /// Records that found no room since the last one that did.
    unsaid: u64,
}

/// A ring's memory.
#[derive(Debug)]
struct RingMemory {
    file: OwnedFd,
    size: u64,
    head: u64,
}

impl RingMemory {
    fn new(size: usize) -> Result<Self, Errno> {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let size = size as u64;
        ftruncate(&file, rustix::param::page_size() as u64 + size)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        Ok(Self { file, size, head: 0 })
    }

    fn tail(&self) -> u64 {
        let mut word = [0; 8];
        match pread(&self.file, &mut word, TAIL) {
            Ok(_) => u64::from_ne_bytes(word),
            Err(_) => 0,
        }
    }

    /// Stores a record; whether there was room.
    fn store(&mut self, record: &[u8]) -> bool {
        if self.head - self.tail() + record.len() as u64 > self.size {
            return false;
        }
        let data = rustix::param::page_size() as u64;
        let at = self.head % self.size;
        let first = record.len().min(usize::try_from(self.size - at).unwrap_or(usize::MAX));
        let stored = pwrite(&self.file, &record[..first], data + at)
            .and_then(|_| pwrite(&self.file, &record[first..], data))
            .and_then(|_| {
                self.head += record.len() as u64;
                // The reader maps this memory: the head is told when the data are there.
                pwrite(&self.file, &self.head.to_ne_bytes(), HEAD)
            });
        stored.is_ok()
    }
}

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    /// It lies in a ring.
    Stored,
    /// The ring had no room.
    Lost,
    /// The event is not enabled, or has no ring.
    Off,
}

impl Simulated {
    /// Has this much time pass, in the clock of the events.
    pub fn advance_ns(&self, ns: u64) {
        self.state.borrow_mut().now_ns += ns;
    }

    /// The number of each open event that samples, with where it is.
    #[must_use]
    pub fn sampled(&self) -> Vec<(usize, Target)> {
        let samples = |attr: &Attr| {
            attr.config != u64::from(abi::PERF_COUNT_SW_DUMMY)
                || attr.kind != abi::PERF_TYPE_SOFTWARE
        };
        let state = self.state.borrow();
        let events = state.events.iter().enumerate();
        events.filter(|(_, one)| samples(&one.attr)).map(|(at, one)| (at, one.target)).collect()
    }

    /// A sample of an event: by a thread, at an address.
    pub fn sample(&self, event: usize, tid: i32, ip: u64) -> Emitted {
        let mut state = self.state.borrow_mut();
        let now_ns = state.now_ns;
        let Some(one) = state.events.get(event).filter(|one| one.enabled) else {
            return Emitted::Off;
        };
        let sample = sample(&one.attr, id(event), tid, ip, now_ns);
        let emitted = state.emit(event, &sample);
        let one = &mut state.events[event];
        one.samples += 1;
        one.lost += u64::from(emitted == Emitted::Lost);
        emitted
    }
}

impl State {
    /// Stores a record in the event's ring, behind one that says what was lost before.
    fn emit(&mut self, event: usize, record: &[u8]) -> Emitted {
        let now_ns = self.now_ns;
        let owner = self.events[event].output.unwrap_or(event);
        let unsaid = self.events[event].unsaid;
        let lost = (unsaid > 0).then(|| lost(&self.events[event].attr, id(event), unsaid, now_ns));
        let Some(ring) = self.events.get_mut(owner).and_then(|owner| owner.ring.as_mut()) else {
            return Emitted::Off;
        };
        let told = lost.is_none_or(|lost| ring.store(&lost));
        let stored = told && ring.store(record);
        let unsaid = &mut self.events[event].unsaid;
        *unsaid = if told { 0 } else { *unsaid } + u64::from(!stored);
        if stored { Emitted::Stored } else { Emitted::Lost }
    }
}

fn id(event: usize) -> u64 {
    1000 + event as u64
}

/// Whole words, with the header before them.
fn record(kind: u32, words: &[u64]) -> Vec<u8> {
    let size = RecordHeader::SIZE + 8 * words.len();
    let header = RecordHeader { kind, misc: 2, size: u16::try_from(size).unwrap_or(u16::MAX) };
    let mut bytes = header.encode().to_vec();
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// The fields up to the period, in the order of `perf_output_sample`.
fn sample(attr: &Attr, id: u64, tid: i32, ip: u64, time_ns: u64) -> Vec<u8> {
    let task = u64::from(tid.unsigned_abs());
    let fields = [
        (abi::PERF_SAMPLE_IDENTIFIER, id),
        (abi::PERF_SAMPLE_IP, ip),
        (abi::PERF_SAMPLE_TID, task << 32 | task),
        (abi::PERF_SAMPLE_TIME, time_ns),
        (abi::PERF_SAMPLE_CPU, 0),
        (abi::PERF_SAMPLE_PERIOD, 1),
    ];
    record(abi::PERF_RECORD_SAMPLE, &chosen(attr, &fields))
}

/// `PERF_RECORD_LOST`, with the fields of `sample_id_all`.
fn lost(attr: &Attr, id: u64, records: u64, time_ns: u64) -> Vec<u8> {
    let fields = [
        (abi::PERF_SAMPLE_TID, 0),
        (abi::PERF_SAMPLE_TIME, time_ns),
        (abi::PERF_SAMPLE_CPU, 0),
        (abi::PERF_SAMPLE_IDENTIFIER, id),
    ];
    let mut words = vec![id, records];
    words.extend(chosen(attr, &fields));
    record(abi::PERF_RECORD_LOST, &words)
}

fn chosen(attr: &Attr, fields: &[(u32, u64)]) -> Vec<u64> {
    let has = |field: u32| attr.sample_type & u64::from(field) != 0;
    fields.iter().filter(|(field, _)| has(*field)).map(|(_, word)| *word).collect()
}

impl Kernel for Simulated {
    fn open(
        &self,
        attr: &Attr,
        target: Target,
        _leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno> {
        let mut state = self.state.borrow_mut();
        state.events.push(Event {
            attr: attr.clone(),
            target,
            enabled: false,
            ring: None,
            output: None,
            samples: 0,
            lost: 0,
            unsaid: 0,
        });
        let number = state.events.len() - 1;
        Ok(Box::new(SimulatedFile { number, state: Rc::clone(&self.state) }))
    }
}

#[derive(Debug)]
struct SimulatedFile {
    number: usize,
    state: Rc<RefCell<State>>,
}

impl SimulatedFile {
    fn with<T>(&self, change: impl FnOnce(&mut Event) -> T) -> T {
        change(&mut self.state.borrow_mut().events[self.number])
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.with(|event| event.enabled = false);
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
        self.with(|event| event.enabled = true);
        Ok(())
    }

    fn disable(&self) -> Result<(), Errno> {
        self.with(|event| event.enabled = false);
        Ok(())
    }

    fn set_filter(&self, _filter: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn id(&self) -> Result<u64, Errno> {
        Ok(id(self.number))
    }

    fn map_ring(&self, size: usize, access: Access) -> Result<Mapping, Errno> {
        self.with(|event| {
            if event.ring.is_some() || event.output.is_some() {
                return Err(Errno::BUSY);
            }
            let memory = RingMemory::new(size)?;
            let mapping = Mapping::of(memory.file.as_fd(), size, access)?;
            event.ring = Some(memory);
            Ok(mapping)
        })
    }

    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno> {
        let owner = usize::try_from(ring_of.raw_fd()).map_err(|_| Errno::BADF)?;
        self.with(|event| event.output = Some(owner));
        Ok(())
    }

    fn pause_output(&self, _pause: bool) -> Result<(), Errno> {
        Ok(())
    }
}
