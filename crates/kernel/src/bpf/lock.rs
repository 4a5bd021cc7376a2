//! Waits for kernel locks and futexes, summed up by call chain: `bpf/lock.bpf.c`.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use aya::Pod;
use aya::maps::{Array, HashMap, MapData, RingBuf};

use super::error::BpfError;
use super::follow::FollowedTasks;
use super::object::{self, LoadedObject, ObjectLoader};
use crate::timestamp::monotonic_ns;

const FRAMES: usize = 24;
const REGISTERS: usize = 33;
/// Index of the stack pointer in a copy's registers.
const STACK_POINTER: usize = if cfg!(target_arch = "aarch64") { 32 } else { 8 };
/// Most bytes of a stack.
const STACK: usize = 8192;
/// The iterator programs that list waits for futexes and for kernel locks in progress.
const LIST: &str = "list_waits";
const LIST_KERNEL: &str = "list_kernel_waits";
/// Most functions that return with a kernel lock.
const LOCK_FUNCTIONS: usize = 32;
/// Bytes of `struct copy` before the stack.
const COPY: usize = 32 + 8 * REGISTERS;
/// Marks a futex in the flags of a key.
const FUTEX: u32 = 1 << 31;

/// `struct key`.
#[derive(Clone, Copy)]
#[repr(C)]
struct LockKey {
    chain: u64,
    process: u32,
    flags: u32,
}

/// `struct sums`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawSums {
    waits: u64,
    total_ns: u64,
    max_ns: u64,
}

/// `struct chain`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct LockFrames([u64; FRAMES]);

/// `struct lock_functions`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawLockFunctions {
    start: [u64; LOCK_FUNCTIONS],
    end: [u64; LOCK_FUNCTIONS],
    flags: [u32; LOCK_FUNCTIONS],
}

// SAFETY: only integers and no padding, so any bytes are a valid value.
#[allow(unsafe_code)]
unsafe impl Pod for RawLockFunctions {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for LockKey {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for RawSums {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for LockFrames {}

/// The kind of lock that a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// A kernel lock, with the flags of `lock:contention_begin` (`LCB_F_*`).
    Kernel(u32),
    /// A futex of this process.
    Futex(u32),
}

/// A kernel function that returns with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFunction {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The flags of its locks, as in [`LockKind::Kernel`].
    pub flags: u32,
}

/// The waits for one kind of lock with one call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSums {
    /// The kind of lock that the threads waited for.
    pub kind: LockKind,
    /// The call chain's id.
    pub chain: u64,
    /// Its addresses, innermost first and at most 24; for a futex, by frame pointers. Empty if
    /// unknown.
    pub frames: Vec<u64>,
    /// Number of waits.
    pub waits: u64,
    /// Total time in nanoseconds.
    pub total_ns: u64,
    /// The longest wait in nanoseconds.
    pub max_ns: u64,
}

/// Registers and top of the stack of a thread that waited for a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexStack<'a> {
    /// Time of the copy by `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// The id of the call chain that it belongs to.
    pub chain: u64,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// On x86 the instruction pointer and 16 others in DWARF's order (RAX and R11 are 0); on ARM
    /// the program counter, X0 to X30 and the stack pointer.
    pub registers: [u64; REGISTERS],
    /// The stack, from the stack pointer on.
    pub stack: &'a [u8],
}

impl<'a> FutexStack<'a> {
    /// Reads a copy's time by `CLOCK_MONOTONIC`, in nanoseconds; `None` if the copy is too short.
    #[must_use]
    pub fn time_ns(bytes: &[u8]) -> Option<u64> {
        bytes.first_chunk().copied().map(u64::from_ne_bytes)
    }

    /// Parses a copy; `None` if it is too short.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let stack = bytes.get(COPY..)?;
        let length = usize::try_from(long(24)?).ok()?.min(stack.len());
        let registers = std::array::from_fn(|at| long(32 + 8 * at).unwrap_or_default());
        Some(Self {
            time_ns: Self::time_ns(bytes)?,
            chain: long(8)?,
            tid: word(16)?,
            process: word(20)?,
            registers,
            stack: &stack[..length],
        })
    }
}

/// A wait for a futex in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutexWait {
    /// Its beginning in nanoseconds of `CLOCK_MONOTONIC`, or the beginning of the trace.
    pub start_ns: u64,
    /// Whether it began before the trace.
    pub is_earlier: bool,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// The thread's registers and stack, as the bytes for [`FutexStack::parse`].
    pub copy: Vec<u8>,
}

impl FutexWait {
    /// Bytes of `struct waiting`.
    const SIZE: usize = 24 + 8 * REGISTERS;

    /// Parses a record of the iterator, and reads the thread's stack.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let registers = bytes.get(24..Self::SIZE)?;
        let tid = word(16)?;
        let pointer = long(24 + 8 * STACK_POINTER)?;
        let stack = read_stack(tid, pointer, long(24)?);
        let mut copy = Vec::with_capacity(COPY + stack.len());
        copy.extend(monotonic_ns().to_ne_bytes());
        copy.extend(0_u64.to_ne_bytes());
        copy.extend(tid.to_ne_bytes());
        copy.extend(word(20)?.to_ne_bytes());
        copy.extend((stack.len() as u64).to_ne_bytes());
        copy.extend(registers);
        copy.extend(stack);
        Some(Self { start_ns: long(0)?, is_earlier: long(8)? != 0, tid, copy })
    }
}

/// A wait for a kernel lock in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelWait {
    /// Its beginning in nanoseconds of `CLOCK_MONOTONIC`, or the beginning of the trace.
    pub start_ns: u64,
    /// Whether it began before the trace.
    pub is_earlier: bool,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// The flags of the lock, as in [`LockKind::Kernel`].
    pub flags: u32,
    /// The kernel's addresses, innermost first and at most 24.
    pub frames: Vec<u64>,
}

impl KernelWait {
    /// Bytes of `struct kernel_waiting`.
    const SIZE: usize = 32 + 8 * FRAMES;

    /// Parses a record of the iterator.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let frames = (0..FRAMES).filter_map(|at| long(32 + 8 * at));
        Some(Self {
            start_ns: long(0)?,
            is_earlier: long(8)? != 0,
            tid: word(16)?,
            flags: u32::try_from(long(24)?).ok()?,
            frames: frames.take_while(|address| *address != 0).collect(),
        })
    }
}

impl RawLockFunctions {
    fn new(paths: &[LockFunction]) -> Self {
        let mut raw = Self::default();
        for (at, path) in paths.iter().take(LOCK_FUNCTIONS).enumerate() {
            (raw.start[at], raw.end[at], raw.flags[at]) = (path.start, path.end, path.flags);
        }
        raw
    }
}

/// Reads the top of a waiting thread's stack; empty if the thread waits no longer. In another pid
/// namespace the id may be another thread's, so that `/proc` must show the same registers.
fn read_stack(tid: u32, stack_pointer: u64, instruction: u64) -> Vec<u8> {
    let read = || {
        let text = std::fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
        let shown = format!(" {stack_pointer:#x} {instruction:#x}");
        let memory =
            text.trim_end().ends_with(&shown).then(|| File::open(format!("/proc/{tid}/mem")));
        let mut stack = vec![0; STACK];
        let length = memory?.ok()?.read_at(&mut stack, stack_pointer).ok()?;
        stack.truncate(length);
        Some(stack)
    };
    read().unwrap_or_default()
}

/// Programs that sum up waits. Dropping it unloads them.
pub struct Locks {
    /// `None` after [`Self::stop`].
    programs: Option<LoadedObject>,
    ring: RingBuf<MapData>,
    by_chain: HashMap<MapData, LockKey, RawSums>,
    chains: HashMap<MapData, u64, LockFrames>,
    earlier_waits: Array<MapData, u64>,
    missing: Array<MapData, u64>,
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

impl Locks {
    /// Loads and starts the programs for kernel locks, futexes, or both. With `kernel`, a
    /// thread that already sleeps in one of the first 32 `lock_functions` counts as waiting for a
    /// kernel lock since before the trace.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(
        follow: &FollowedTasks,
        kernel: bool,
        futexes: bool,
        lock_functions: &[LockFunction],
    ) -> Result<Self, BpfError> {
        let mut programs = vec!["sched_process_fork", "sched_process_exec"];
        if kernel {
            programs.extend(["contention_end", "contention_begin"]);
        }
        if futexes {
            programs.extend(["sys_exit", "sys_enter"]);
        }
        let are_running = matches!(follow, FollowedTasks::Processes(_));
        let mut loaded = ObjectLoader::new(object::LOCK, &programs)
            .follow(follow)
            .constant("earlier", are_running.into())
            .constant("earlier_in_kernel", u32::from(!lock_functions.is_empty()))
            .load()?;
        // A kernel may lack the programs' helpers; waits in progress are then unknown.
        if futexes {
            let _ = loaded.load_task_iterator(LIST);
        }
        if kernel {
            let _ = loaded.load_task_iterator(LIST_KERNEL);
            let mut map: Array<_, RawLockFunctions> = loaded.take_map("lock_functions")?;
            map.set(0, RawLockFunctions::new(lock_functions), 0)?;
        }
        loaded.start(follow)?;
        if are_running && loaded.is_loaded(LIST) {
            loaded.visit_tasks(LIST)?;
        }
        if !lock_functions.is_empty() && loaded.is_loaded(LIST_KERNEL) {
            loaded.visit_tasks(LIST_KERNEL)?;
        }
        Ok(Self {
            ring: loaded.take_map("ring")?,
            by_chain: loaded.take_map("by_chain")?,
            chains: loaded.take_map("chains")?,
            earlier_waits: loaded.take_map("earlier_waits")?,
            missing: loaded.take_map("missing")?,
            programs: Some(loaded),
        })
    }

    /// Returns the descriptor that becomes readable when a stack was copied.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Hands over the pending copies of stacks, as the bytes for [`FutexStack::parse`].
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        while let Some(bytes) = self.ring.next() {
            each(&bytes);
        }
    }

    /// Lists the waits for futexes in progress; none after [`Self::stop`].
    ///
    /// # Errors
    /// Fails if the kernel can't visit its tasks.
    pub fn waits_in_progress(&mut self) -> Result<Vec<FutexWait>, BpfError> {
        let bytes = self.list(LIST)?;
        Ok(bytes.chunks_exact(FutexWait::SIZE).filter_map(FutexWait::parse).collect())
    }

    /// Lists the waits for kernel locks in progress; none after [`Self::stop`].
    ///
    /// # Errors
    /// Fails if the kernel can't visit its tasks.
    pub fn kernel_waits_in_progress(&mut self) -> Result<Vec<KernelWait>, BpfError> {
        let bytes = self.list(LIST_KERNEL)?;
        Ok(bytes.chunks_exact(KernelWait::SIZE).filter_map(KernelWait::parse).collect())
    }

    /// Returns what an iterator program writes; nothing if it isn't loaded.
    fn list(&mut self, program: &'static str) -> Result<Vec<u8>, BpfError> {
        match self.programs.as_mut().filter(|programs| programs.is_loaded(program)) {
            Some(programs) => programs.visit_tasks(program),
            None => Ok(Vec::new()),
        }
    }

    /// Returns how many of the counted waits began before the trace. Their time counts from its
    /// start.
    ///
    /// # Errors
    /// Fails if the map can't be read.
    pub fn earlier_waits(&self) -> Result<u64, BpfError> {
        Ok(self.earlier_waits.get(&0, 0)?)
    }

    /// Unloads the programs; the sums remain readable.
    pub fn stop(&mut self) {
        self.programs = None;
    }

    /// Returns the sums so far, in no order.
    ///
    /// # Errors
    /// Fails if a map can't be read.
    pub fn read(&self) -> Result<Vec<LockSums>, BpfError> {
        let mut all = Vec::new();
        for entry in self.by_chain.iter() {
            let (key, sums) = entry?;
            let frames = self.chains.get(&key.chain, 0).map(|chain| chain.0).unwrap_or_default();
            let kind = if key.flags & FUTEX == 0 {
                LockKind::Kernel(key.flags)
            } else {
                LockKind::Futex(key.process)
            };
            all.push(LockSums {
                kind,
                chain: key.chain,
                frames: frames.into_iter().take_while(|address| *address != 0).collect(),
                waits: sums.waits,
                total_ns: sums.total_ns,
                max_ns: sums.max_ns,
            });
        }
        Ok(all)
    }

    /// Returns how many waits weren't counted, as a map had no room or their end was missed, and
    /// how many stacks the ring buffer had no room for.
    ///
    /// # Errors
    /// Fails if the map can't be read.
    pub fn missing(&self) -> Result<(u64, u64), BpfError> {
        Ok((self.missing.get(&0, 0)?, self.missing.get(&1, 0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_parsed_and_truncated_ones_rejected() {
        let mut bytes = vec![0; COPY + 8];
        (bytes[24], bytes[16], bytes[32]) = (4, 7, 9);
        let copy = FutexStack::parse(&bytes).unwrap();
        assert_eq!((copy.tid, copy.registers[0], copy.stack.len()), (7, 9, 4));
        for length in 0..COPY {
            assert_eq!(FutexStack::parse(&bytes[..length]), None);
        }
        bytes[24] = 200;
        assert_eq!(FutexStack::parse(&bytes).unwrap().stack.len(), 8);
        assert_eq!((size_of::<LockKey>(), size_of::<RawSums>()), (16, 24));
        assert_eq!(size_of::<RawLockFunctions>(), 20 * LOCK_FUNCTIONS);
    }

    #[test]
    fn kernel_waits_are_parsed_and_truncated_ones_rejected() {
        let mut bytes = vec![0; KernelWait::SIZE];
        (bytes[0], bytes[8], bytes[16], bytes[24], bytes[32], bytes[40]) = (1, 1, 7, 32, 9, 8);
        let wait = KernelWait::parse(&bytes).unwrap();
        assert!(wait.is_earlier && wait.frames == [9, 8]);
        assert_eq!((wait.start_ns, wait.tid, wait.flags), (1, 7, 32));
        assert_eq!(KernelWait::parse(&bytes[..31]), None);
    }
}
