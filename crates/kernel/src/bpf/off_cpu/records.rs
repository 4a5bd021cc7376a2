//! The layouts of `bpf/offcpu.h`, and the records of its ring buffer.

use aya::Pod;

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

/// A record of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitRecord<'a> {
    Copy(StackCopy<'a>),
    Long(LongWait),
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> StackCopy<'a> {
    /// Parses a record of the ring buffer; `None` if it is not a copy or too short.
    #[must_use]
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        if word(record, 0)? != COPY {
            return None;
        }
        let mut registers = [0; REGISTERS];
        for (at, register) in registers.iter_mut().enumerate() {
            *register = long(record, 32 + 8 * at)?;
        }
        let stack = record.get(32 + 8 * REGISTERS..)?;
        let bytes = stack.get(..word(record, 4)? as usize)?;
        let pid = word(record, 8)?;
        let tid = word(record, 12)?;
        let time_ns = long(record, 16)?;
        let key = long(record, 24)?;
        Some(Self { pid, tid, time_ns, key, registers, bytes })
    }
}

impl LongWait {
    fn parse(record: &[u8]) -> Option<Self> {
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

impl<'a> WaitRecord<'a> {
    /// Parses a record; `None` if it is too short or of unknown kind.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        match word(bytes, 0)? {
            COPY => StackCopy::parse(bytes).map(Self::Copy),
            LONG_WAIT => LongWait::parse(bytes).map(Self::Long),
            _ => None,
        }
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

    #[test]
    fn truncated_records_are_read_without_panic() {
        for kind in [1, 2, 3] {
            let mut bytes = vec![0; 32 + 8 * REGISTERS + 16];
            bytes[0] = kind;
            bytes[4] = 16;
            assert_eq!(WaitRecord::parse(&bytes).is_some(), kind < 3);
            for length in 0..bytes.len() {
                let _ = WaitRecord::parse(&bytes[..length]);
            }
        }
    }
}
