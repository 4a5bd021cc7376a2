//! The layouts of `bpf/offcpu.h`, and the records of its ring buffer.

use std::collections::HashMap;

use aya::Pod;

use super::super::UNREAD_BYTE;

/// Number of registers in a copy: `struct pt_regs` of `arch/x86/include/uapi/asm/ptrace.h`, `struct
/// user_pt_regs` of arm64.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: usize = 21;
/// Number of registers in a copy: `struct pt_regs` of `arch/x86/include/uapi/asm/ptrace.h`, `struct
/// user_pt_regs` of arm64.
#[cfg(not(target_arch = "x86_64"))]
pub const REGISTERS: usize = 34;

pub(super) const FRAMES: usize = 127;

/// Flags beside the state of a wait.
const IO_WAIT: u32 = 0x100;
const ON_RUN_QUEUE: u32 = 0x200;

/// `struct wait`, with its first eight fields as an array.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RawWait {
    pub(super) times_and_stacks: [u64; 8],
    pub(super) state: u32,
    pub(super) follow: u32,
}

/// `struct key`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct WaitKey {
    pub(super) kernel: u64,
    pub(super) user: u64,
    pub(super) waker: u64,
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) state: u32,
    pub(super) unused: u32,
}

/// `struct sum`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct WaitSum {
    pub(super) ns: u64,
    pub(super) waits: u64,
    pub(super) longest_ns: u64,
    pub(super) last: u64,
    pub(super) cpu: u32,
    pub(super) unused: u32,
}

/// `struct stack`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RawStack {
    count: u64,
    frames: [u64; FRAMES],
}

impl RawStack {
    pub(super) fn frames(&self) -> &[u64] {
        let count = usize::try_from(self.count).unwrap_or(FRAMES).min(FRAMES);
        self.frames.get(..count).unwrap_or_default()
    }
}

/// `struct waker`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RawWaker {
    pub(super) kernel: u64,
    pub(super) user: u64,
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) comm: [u8; 16],
}

/// `struct control`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Control {
    pub(super) since: u64,
    pub(super) now: u64,
    pub(super) epoch: u32,
    pub(super) visit: u32,
    pub(super) stopped: u32,
    pub(super) generation: u32,
}

pub(super) const VISIT_BEGIN: u32 = 1;
pub(super) const VISIT_END: u32 = 2;

// SAFETY: only integers and no padding, so any bytes are a valid value.
#[allow(unsafe_code)]
unsafe impl Pod for WaitKey {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for WaitSum {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for RawStack {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for RawWaker {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for Control {}

/// Kinds of records in the ring buffer.
const COPY: u32 = 1;
const LONG_WAIT: u32 = 2;
const PIECE: u32 = 3;

/// Bytes of a piece of a stack, and its alignment.
pub(super) const PAGE: usize = 4096;

/// Limit of bytes in a copy (`MOST_PAGES`).
const LARGEST: usize = 16 * PAGE;

/// Bytes of unfinished copies above which all are dropped. A program finishes its copy before it
/// ends, so that at most one per CPU is unfinished.
const UNFINISHED: usize = 64 << 20;

/// Number of a register: the stack pointer.
#[cfg(target_arch = "x86_64")]
const SP: usize = 19;
/// Number of a register: the stack pointer.
#[cfg(not(target_arch = "x86_64"))]
const SP: usize = 31;

/// The state of a waiting task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitState {
    /// Bits of `task_struct.__state` (`include/linux/sched.h`): those up to `TASK_DEAD`,
    /// `TASK_RTLOCK_WAIT` and `TASK_FROZEN`; 0: it was runnable all the time.
    pub state: u32,
    /// It waits for I/O (`task_struct.in_iowait`).
    pub io: bool,
    /// It was woken, or was runnable all the time, and waits for its CPU.
    pub on_run_queue: bool,
}

impl WaitState {
    pub(super) fn new(bits: u32) -> Self {
        Self {
            state: bits & !(IO_WAIT | ON_RUN_QUEUE),
            io: bits & IO_WAIT != 0,
            on_run_queue: bits & ON_RUN_QUEUE != 0,
        }
    }
}

/// The top of a thread's user stack at the beginning of a wait, or when the thread woke another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackCopy<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Time by `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// The key by which waits with this stack refer to it ([`super::Wait::user_key`]).
    pub key: u64,
    /// The user registers, in the kernel's order.
    pub registers: [u64; REGISTERS],
    /// The stack, from the stack pointer upwards.
    pub bytes: &'a [u8],
}

/// A wait with a record of its own. Times are by `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongWait {
    pub(super) key: [u64; 3],
    pub(super) cpu: u32,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) start_ns: u64,
    pub(super) woken_ns: u64,
    pub(super) end_ns: u64,
    pub(super) state: WaitState,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Joins the pieces of copied stacks.
#[derive(Debug, Default)]
pub struct StackPieces {
    /// By the keys of the copies: the address of the first byte, and all bytes from there on.
    unfinished: HashMap<u64, (u64, Vec<u8>)>,
    bytes: usize,
    finished: Vec<u8>,
}

impl StackPieces {
    /// Takes a record of the ring buffer. Returns the whole copy if the record ends one.
    pub fn add(&mut self, record: &[u8]) -> Option<StackCopy<'_>> {
        match word(record, 0)? {
            PIECE => {
                self.add_piece(record);
                None
            }
            COPY => self.finish(record),
            _ => None,
        }
    }

    fn add_piece(&mut self, record: &[u8]) -> Option<()> {
        let key = long(record, 8)?;
        let address = long(record, 16)?;
        let piece = record.get(24..)?;
        if self.bytes > UNFINISHED {
            self.unfinished.clear();
            self.bytes = 0;
        }
        let (first, bytes) = self.unfinished.entry(key).or_default();
        let at = address.checked_sub(*first).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| (bytes.len()..LARGEST).contains(at) && !bytes.is_empty());
        self.bytes -= bytes.len();
        match at {
            // Pages that aren't in memory have no pieces.
            Some(at) => bytes.resize(at, UNREAD_BYTE),
            None => {
                // What came before had no end, as the ring buffer had no room for it.
                bytes.clear();
                *first = address;
            }
        }
        bytes.extend_from_slice(piece);
        self.bytes += bytes.len();
        Some(())
    }

    fn finish(&mut self, record: &[u8]) -> Option<StackCopy<'_>> {
        let mut registers = [0; REGISTERS];
        for (at, register) in registers.iter_mut().enumerate() {
            *register = long(record, 32 + 8 * at)?;
        }
        let pid = word(record, 8)?;
        let tid = word(record, 12)?;
        let time_ns = long(record, 16)?;
        let key = long(record, 24)?;
        let copied = self.unfinished.remove(&key).unwrap_or_default();
        self.bytes -= copied.1.len();
        self.finished = copied.1;
        let below = usize::try_from(registers[SP].wrapping_sub(copied.0)).unwrap_or(usize::MAX);
        let bytes = self.finished.get(below..).unwrap_or_default();
        Some(StackCopy { pid, tid, time_ns, key, registers, bytes })
    }
}

impl LongWait {
    /// Parses a record; `None` if it is too short or of another kind.
    pub(super) fn parse(record: &[u8]) -> Option<Self> {
        if word(record, 0)? != LONG_WAIT {
            return None;
        }
        let word = |at| word(record, at);
        let long = |at| long(record, at);
        Some(Self {
            key: [long(40)?, long(48)?, long(56)?],
            cpu: word(4)?,
            pid: word(8)?,
            tid: word(12)?,
            start_ns: long(16)?,
            woken_ns: long(24)?,
            end_ns: long(32)?,
            state: WaitState::new(word(64)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_programs() {
        assert_eq!(
            (size_of::<RawWait>(), size_of::<WaitKey>(), size_of::<WaitSum>()),
            (72, 40, 40)
        );
        assert_eq!((size_of::<RawStack>(), size_of::<RawWaker>()), (1024, 40));
        assert_eq!((size_of::<Control>(), std::mem::offset_of!(RawWait, follow)), (32, 68));
    }

    fn piece(key: u64, address: u64, fill: u8) -> Vec<u8> {
        let head = [&PIECE.to_ne_bytes()[..], &[0; 4], &key.to_ne_bytes(), &address.to_ne_bytes()];
        [head.concat(), vec![fill; PAGE]].concat()
    }

    fn end(key: u64, sp: u64) -> Vec<u8> {
        let mut record = vec![0; 32 + 8 * REGISTERS];
        record[..4].copy_from_slice(&COPY.to_ne_bytes());
        record[24..32].copy_from_slice(&key.to_ne_bytes());
        record[32 + 8 * SP..][..8].copy_from_slice(&sp.to_ne_bytes());
        record
    }

    #[test]
    fn pieces_of_two_stacks_are_joined_from_the_stack_pointers_on() {
        let mut pieces = StackPieces::default();
        assert_eq!(pieces.add(&piece(1, 0x9000, 9)), None, "a copy that never ends");
        for (key, address) in [(1, 0x1000), (2, 0x5000), (1, 0x2000), (2, 0x6000)] {
            assert_eq!(pieces.add(&piece(key, address, address.to_be_bytes()[6])), None);
        }
        let copy = pieces.add(&end(1, 0x1ff0)).unwrap();
        assert_eq!(copy.bytes, [vec![0x10; 16], vec![0x20; PAGE]].concat());
        let copy = pieces.add(&end(2, 0x5000)).unwrap();
        assert_eq!(copy.bytes, [vec![0x50; PAGE], vec![0x60; PAGE]].concat());
        assert_eq!(pieces.add(&end(1, 0x1ff0)).map(|copy| copy.bytes.len()), Some(0));
        assert_eq!(pieces.bytes, 0);
    }

    #[test]
    fn pages_without_a_piece_are_unread() {
        let mut pieces = StackPieces::default();
        for address in [0x1000, 0x4000, 0x5000] {
            assert_eq!(pieces.add(&piece(1, address, address.to_be_bytes()[6])), None);
        }
        let whole = [(0x10, 16), (UNREAD_BYTE, 2 * PAGE), (0x40, PAGE), (0x50, PAGE)];
        let whole: Vec<_> = whole.iter().flat_map(|(byte, bytes)| vec![*byte; *bytes]).collect();
        assert_eq!(pieces.add(&end(1, 0x1ff0)).unwrap().bytes, whole);
        assert_eq!(pieces.bytes, 0);
        // An unfinished copy of another time.
        for address in [0x1000, 0x1000 + LARGEST as u64] {
            assert_eq!(pieces.add(&piece(1, address, 7)), None);
        }
        assert_eq!(pieces.add(&end(1, 0x1000 + LARGEST as u64)).unwrap().bytes, [7; PAGE]);
    }

    #[test]
    fn truncated_records_are_read_without_panic() {
        for kind in [1, 2, 3, 4] {
            let mut bytes = vec![0; 32 + 8 * REGISTERS + 16];
            bytes[0] = kind;
            assert_eq!(StackPieces::default().add(&bytes).is_some(), kind == 1);
            assert_eq!(LongWait::parse(&bytes).is_some(), kind == 2);
            for length in 0..bytes.len() {
                let mut pieces = StackPieces::default();
                let _ = pieces.add(&bytes[..length]);
                let _ = LongWait::parse(&bytes[..length]);
            }
        }
    }
}
