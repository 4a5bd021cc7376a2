//! Records of system calls, with the memory that their arguments point to, and of forks, exits and
//! signals: `bpf/calls.bpf.c`.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use aya::Pod;
use aya::maps::Array;

use super::error::BpfError;
use super::follow::{Call, FollowedTasks};
use super::object::{self, LoadedObject, ObjectLoader};
use super::plan::{CallPlan, CopyRule, CopyTime};
use super::progress::{self, CallInProgress};
use super::record_ring::RecordRing;
use super::user_memory::CopyMoment;

/// Argument number in the chunks of a returned descriptor.
pub const RESULT: u8 = 7;
/// Added to the argument number in the chunks of the second of two descriptors.
pub const SECOND: u8 = 0x10;

/// `struct argument`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawArgument {
    kind: u8,
    when: u8,
    count: u8,
    unused: u8,
    size: u16,
    most: u16,
}

/// `struct call`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawCall {
    wanted: u32,
    above_stack: u32,
    arguments: [RawArgument; 6],
}

// SAFETY: only integers and no padding, so any bytes are a valid value.
#[allow(unsafe_code)]
unsafe impl Pod for RawCall {}

impl RawArgument {
    fn new(copied: CopyRule, when: CopyTime) -> Self {
        let (kind, count, size, most) = match copied {
            CopyRule::Nothing => (0, 0, 0, 0),
            CopyRule::Text(most) => (1, 0, 0, most),
            CopyRule::Bytes(size) => (2, 0, size, size),
            CopyRule::Items { count, size, most } => (3, count, size, most),
            CopyRule::Returned { size, most } => (4, 0, size, most),
            CopyRule::Texts(most) => (5, 0, 0, most),
            CopyRule::TextCount => (6, 0, 0, 0),
            CopyRule::Vectors { count, most } => (7, count, 0, most),
            CopyRule::Message(most) => (8, 0, 0, most),
            CopyRule::Counted { count, most } => (9, count, 0, most),
            CopyRule::Descriptor => (10, 0, 0, 0),
            CopyRule::Descriptors => (11, 0, 0, 0),
        };
        let when = u8::from(when.enter) | u8::from(when.success) << 1 | u8::from(when.failure) << 2;
        Self { kind, when, count, unused: 0, size, most }
    }
}

/// Data copied for an argument or a returned descriptor: memory it points to, or its file's
/// description or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Number of the argument, from 0: [`RESULT`] for a returned descriptor, and [`SECOND`] more
    /// for the second of two descriptors.
    pub argument: u8,
    /// The part of it.
    pub part: ChunkPart,
    /// Number of the vector's element, or of the path's component from its end. The number of
    /// strings for [`CopyRule::TextCount`], and the lowest bits of the number of bytes for
    /// [`CopyRule::Counted`].
    pub index: u16,
    /// The bytes; `None` if the memory couldn't be read, for example because its page wasn't
    /// present.
    pub bytes: Option<&'a [u8]>,
}

/// A part of the memory that an argument leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPart {
    /// The memory it points to.
    Whole,
    /// Memory that an element of a vector points to.
    Element,
    /// The address of a message; after an execve, the new program's arguments.
    Name,
    /// The control data of a message.
    Control,
    /// A component of a descriptor's path, from its end.
    PathPart,
    /// A descriptor's file ([`FileDescription`]).
    Description,
}

/// Iterates over the chunks of a payload.
pub fn chunks(mut payload: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = payload.split_first_chunk::<8>()?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
        let length = word(0) as usize;
        let [argument, what, low, high] = word(4).to_le_bytes();
        let bytes = rest.get(..length)?;
        payload = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
        let part = match what & 0x7f {
            1 => ChunkPart::Element,
            2 => ChunkPart::Name,
            3 => ChunkPart::Control,
            4 => ChunkPart::PathPart,
            5 => ChunkPart::Description,
            _ => ChunkPart::Whole,
        };
        let bytes = (what & 0x80 == 0).then_some(bytes);
        Some(Chunk { argument, part, index: u16::from_le_bytes([low, high]), bytes })
    })
}

/// The file of a descriptor when a call began or returned: `struct description` of `bpf/files.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDescription {
    /// Inode number; 0 for `AT_FDCWD`.
    pub inode: u64,
    /// Type and permissions, as `st_mode`; for `AT_FDCWD` the type alone.
    pub mode: u32,
    /// Whether it is in no folder: a deleted or disconnected file, or the root of a file system.
    pub is_unlinked: bool,
    /// Whether no path leads to it, as to a pipe, a socket, a memfd, an anonymous inode.
    pub is_disconnected: bool,
    /// Numbers of a device file as the kernel packs them, 12 bits and 20 bits; else 0.
    pub device: u32,
    /// A socket's `AF_*`.
    pub family: u16,
    /// A socket's `SOCK_*`.
    pub kind: u16,
    /// A socket's `IPPROTO_*`.
    pub protocol: u16,
    /// A socket's `skc_state` (`TCP_*`, `include/net/tcp_states.h`; other protocols use them too).
    pub state: u16,
    /// Local port.
    pub local_port: u16,
    /// Remote port; 0 for none.
    pub remote_port: u16,
    /// Local address: 4 bytes, or 16 with `AF_INET6`.
    pub local: [u8; 16],
    /// Remote address.
    pub remote: [u8; 16],
}

impl FileDescription {
    const SIZE: usize = 64;

    /// Parses the bytes of a chunk; `None` if there are too few.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let flags = word(12);
        Some(Self {
            inode: u64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte])),
            mode: word(8),
            is_unlinked: flags & 1 != 0,
            is_disconnected: flags & 2 != 0,
            device: word(16),
            family: half(20),
            kind: half(22),
            protocol: half(24),
            state: half(26),
            local_port: half(28),
            remote_port: u16::from_be(half(30)),
            local: std::array::from_fn(|byte| bytes[32 + byte]),
            remote: std::array::from_fn(|byte| bytes[48 + byte]),
        })
    }
}

/// How the beginning of a call is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallBeginning {
    /// It was recorded when it happened.
    #[default]
    Seen,
    /// The call began before the trace. Its arguments are those at the return.
    BeforeTrace,
    /// The kernel didn't execute the call: a seccomp filter or a tracer answered it. The record is
    /// made at the return.
    Answered,
}

/// An event of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent<'a> {
    /// A system call begins.
    Enter {
        /// The call.
        call: Call,
        /// Its arguments.
        values: [u64; 6],
        /// The memory they point to: see [`chunks`].
        memory: &'a [u8],
        /// How the beginning is known.
        beginning: CallBeginning,
    },
    /// A system call has returned.
    Exit {
        /// The call.
        call: Call,
        /// Its return value.
        result: i64,
        /// Its duration in nanoseconds; 0 unless its beginning was [`CallBeginning::Seen`].
        duration_ns: u64,
        /// The memory that its arguments point to at its end, and the file of a returned
        /// descriptor: see [`chunks`].
        memory: &'a [u8],
    },
    /// The task started a thread or process.
    Fork {
        /// The new thread.
        tid: u32,
        /// Its process.
        process: u32,
    },
    /// The task exits with this status of wait(2).
    End(u32),
    /// A signal.
    Signal {
        /// The signal's number.
        number: u32,
        /// What happened to it.
        fate: SignalFate,
        /// The first 48 bytes of `siginfo_t`; empty if the kernel passes none.
        info: &'a [u8],
    },
}

/// What happened to a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalFate {
    /// The task takes it.
    Arrived,
    /// The task ignores it.
    Ignored,
    /// It was sent. It arrives later, unless it ends the process: then each thread gets SIGKILL
    /// instead.
    Sent,
}

/// A record of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord<'a> {
    /// Time by `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// Number of this thread's records that the ring buffer had no room for since its last one.
    pub missed: u32,
    /// The event.
    pub event: TaskEvent<'a>,
}

/// Bytes of `struct record` before its values.
const HEADER: usize = 32;
const VALUES: usize = 48;

impl<'a> CallRecord<'a> {
    /// Reads a record's time by `CLOCK_MONOTONIC`, in nanoseconds; `None` if the record is too
    /// short.
    #[must_use]
    pub fn time_ns(bytes: &[u8]) -> Option<u64> {
        bytes.first_chunk().copied().map(u64::from_ne_bytes)
    }

    /// Parses a record; `None` if it is too short or of unknown kind.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let (values, memory) = rest.split_first_chunk::<VALUES>()?;
        let long = |bytes: &[u8], at: usize| {
            Some(u64::from_ne_bytes(bytes.get(8 * at..8 * at + 8)?.try_into().ok()?))
        };
        let word = |at: usize| Some(u32::from_ne_bytes(header.get(at..at + 4)?.try_into().ok()?));
        let values: [u64; 6] = std::array::from_fn(|at| long(values, at).unwrap_or_default());
        let kind_and_slot = word(16)?.to_ne_bytes();
        let kind = u16::from_ne_bytes([kind_and_slot[0], kind_and_slot[1]]);
        let slot = u16::from_ne_bytes([kind_and_slot[2], kind_and_slot[3]]);
        let call = Call::from_slot(slot.into());
        let low = |value: u64| u32::try_from(value & 0xffff_ffff).unwrap_or_default();
        // A number beyond the table has no slot of its own.
        let number = if call.number == Call::BEYOND { word(24)? } else { call.number };
        let begun = Call { number, ..call };
        let enter = |beginning| TaskEvent::Enter { call: begun, values, memory, beginning };
        let event = match kind {
            1 => enter(CallBeginning::Seen),
            6 => enter(CallBeginning::BeforeTrace),
            7 => enter(CallBeginning::Answered),
            2 => TaskEvent::Exit {
                call,
                result: values[0].cast_signed(),
                duration_ns: values[1],
                memory,
            },
            3 => TaskEvent::Fork { tid: low(values[0]), process: low(values[1]) },
            4 => TaskEvent::End(low(values[0])),
            5 => {
                let fate = match values[1] {
                    0 => SignalFate::Arrived,
                    1 => SignalFate::Ignored,
                    _ => SignalFate::Sent,
                };
                TaskEvent::Signal { number: low(values[0]), fate, info: memory }
            }
            _ => return None,
        };
        let time_ns = Self::time_ns(header)?;
        Some(Self { time_ns, tid: word(8)?, process: word(12)?, missed: word(20)?, event })
    }
}

/// Programs that write a record at the beginning and end of each planned system call. Dropping it
/// unloads them.
#[derive(Debug)]
pub struct Calls {
    /// `None` after [`Self::stop`].
    programs: Option<LoadedObject>,
    ring: RecordRing,
    /// Calls in progress when the programs were attached, with the memory of their arguments.
    begun_before: Vec<(CallInProgress, Vec<u8>)>,
}

impl Calls {
    /// Loads and starts the programs. `plans` are the calls to record; `ring_bytes` is a power of
    /// two and at least a page.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(
        plans: impl Iterator<Item = (Call, CallPlan)>,
        follow: &FollowedTasks,
        ring_bytes: u32,
    ) -> Result<Self, BpfError> {
        let programs = [
            "sys_exit",
            "sched_process_fork",
            "sched_process_exit",
            "signal_deliver",
            "signal_generate",
            "sys_enter",
        ];
        let plans: Vec<_> = plans.collect();
        let descriptors = u32::from(plans.iter().any(|(_, plan)| plan.records_descriptors()));
        let mut loaded = ObjectLoader::new(object::CALLS, &programs)
            .follow(follow)
            .record_ring(ring_bytes)
            .constant("descriptors", descriptors)
            .load()?;
        let are_running = matches!(follow, FollowedTasks::Processes(_));
        if are_running {
            progress::load(&mut loaded);
        }
        let mut calls: Array<_, RawCall> = loaded.take_map("calls")?;
        for (call, plan) in &plans {
            let arguments = plan.arguments.map(|(copied, when)| RawArgument::new(copied, when));
            let wanted = 1 | u32::from(plan.returns_descriptor) << 1;
            let raw = RawCall { wanted, above_stack: plan.above_stack, arguments };
            calls.set(call.slot(), raw, 0)?;
        }
        let ring = RecordRing::take(&mut loaded)?;
        loaded.start(follow)?;
        let mut begun_before = Vec::new();
        if are_running {
            let plans: HashMap<Call, CallPlan> = plans.into_iter().collect();
            for call in progress::list(&mut loaded)? {
                let plan = plans.get(&call.call).filter(|_| call.start_ns.is_none());
                begun_before.extend(plan.map(|plan| (call.clone(), read_memory(&call, plan))));
            }
        }
        Ok(Self { programs: Some(loaded), ring, begun_before })
    }

    /// Returns the descriptor to wait for: each record wakes the reader while more than an eighth
    /// of the ring buffer is full. Records can be drained before that.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.ring.file()
    }

    /// Hands over pending records in the order of their writing, as the bytes for
    /// [`CallRecord::parse`]: at most 10,000, or all after [`Self::stop`]. Returns whether none is
    /// left.
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub fn drain<E>(&mut self, each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<bool, E> {
        self.ring.drain(self.programs.is_some(), each)
    }

    /// Takes out the calls of running processes that were in progress when the programs were
    /// attached, with the chunks of their arguments. No record of such a thread is older.
    pub fn take_begun_before(&mut self) -> Vec<(CallInProgress, Vec<u8>)> {
        std::mem::take(&mut self.begun_before)
    }

    /// Unloads the programs; written records remain readable.
    pub fn stop(&mut self) {
        self.programs = None;
    }

    /// Returns how many records the ring buffer had no room for so far.
    ///
    /// # Errors
    /// Fails if the map can't be read.
    pub fn missing(&self) -> Result<u64, BpfError> {
        self.ring.missing()
    }
}

/// Reads the memory that the plan copies when a call begins, as chunks. It is empty if the thread
/// has left the call, or its memory can't be read.
fn read_memory(call: &CallInProgress, plan: &CallPlan) -> Vec<u8> {
    let memory = call.open_memory();
    memory.map(|memory| memory.copy(plan, &call.values, CopyMoment::Enter)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::user_memory::UserMemory;
    use super::*;

    #[test]
    fn layouts_are_those_of_the_program() {
        assert_eq!((size_of::<RawArgument>(), size_of::<RawCall>()), (8, 56));
    }

    #[test]
    fn truncated_records_and_chunks_are_rejected() {
        let mut bytes = vec![0; HEADER + VALUES];
        assert_eq!(CallRecord::parse(&bytes), None);
        bytes[16] = 1;
        assert!(CallRecord::parse(&bytes).is_some());
        for length in 0..bytes.len() {
            assert_eq!(CallRecord::parse(&bytes[..length]), None);
        }
        let text = [5, 0, 0, 0, 1, 0x80, 7, 0, b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 9];
        let found: Vec<_> = chunks(&text).collect();
        assert_eq!(found, [Chunk { argument: 1, part: ChunkPart::Whole, index: 7, bytes: None }]);
        for length in 0..text.len() {
            assert!(chunks(&text[..length]).count() <= 1);
        }
    }

    #[test]
    fn descriptions_have_the_layout_of_the_program() {
        let mut bytes: Vec<u8> = (0..64).collect();
        bytes[12..16].copy_from_slice(&[2, 0, 0, 0]);
        let description = FileDescription::parse(&bytes).unwrap();
        assert_eq!(description.mode, u32::from_ne_bytes([8, 9, 10, 11]));
        assert!(description.is_disconnected && !description.is_unlinked);
        assert_eq!((description.local[0], description.remote[15]), (32, 63));
        assert_eq!(FileDescription::parse(&bytes[..63]), None);
    }

    #[test]
    fn copies_strings_vectors_and_counts() {
        let own = UserMemory::open(std::process::id().cast_signed(), false).unwrap();
        let first = c"first";
        let second = c"second";
        let strings = [first.as_ptr(), second.as_ptr(), std::ptr::null()];
        let address = strings.as_ptr().expose_provenance() as u64;
        let enter = CopyTime { enter: true, ..CopyTime::default() };
        let text = first.as_ptr().expose_provenance() as u64;
        let mut plan = CallPlan::default();
        plan.arguments[0] = (CopyRule::Text(100), enter);
        plan.arguments[1] = (CopyRule::Texts(4), enter);
        plan.arguments[2] = (CopyRule::TextCount, enter);
        plan.arguments[3] = (CopyRule::Items { count: 4, size: 2, most: 100 }, enter);
        plan.arguments[5] = (CopyRule::Bytes(8), CopyTime { success: true, ..CopyTime::default() });
        let payload = own.copy(&plan, &[text, address, address, text, 2, text], CopyMoment::Enter);
        let found: Vec<_> = chunks(&payload)
            .map(|chunk| (chunk.argument, chunk.part, chunk.index, chunk.bytes.unwrap().to_vec()))
            .collect();
        let wanted: [(u8, ChunkPart, u16, &[u8]); 5] = [
            (0, ChunkPart::Whole, 0, b"first\0"),
            (1, ChunkPart::Element, 0, b"firs"),
            (1, ChunkPart::Element, 1, b"seco"),
            (2, ChunkPart::Whole, 2, b""),
            (3, ChunkPart::Whole, 0, b"firs"),
        ];
        assert_eq!(found, wanted.map(|(at, part, index, bytes)| (at, part, index, bytes.to_vec())));
        let payload = own.copy(&plan, &[1, 1, 1, 1, 1, 1], CopyMoment::Exit(0));
        assert!(chunks(&payload).all(|chunk| chunk.argument == 5 && chunk.bytes.is_none()));
        assert!(own.copy(&plan, &[1; 6], CopyMoment::Exit(-1)).is_empty());
    }
}
