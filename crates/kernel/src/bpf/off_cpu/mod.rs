//! Time that tasks are not on a CPU, summed up in the kernel: `bpf/offcpu.bpf.c`.
//!
//! ```text
//! epoch        n: even sums             n+1: odd sums            n+2: even sums
//! drain        |  reads the odd sums    |  reads the even sums   |
//! ```
//! A drain begins the next epoch, waits for programs that still add to the last epoch's sums, and
//! then reads these. So each sum covers waits that ended between two drains.

mod records;

use std::collections::HashMap as Cache;
use std::os::fd::BorrowedFd;

use aya::maps::{Array, CgroupArray, HashMap, MapData, PerCpuArray, RingBuf};
use rustix::process::getpid;

use self::records::{Control, LongWait, RawStack, RawWait, RawWaker, WaitKey, WaitSum};
use self::records::{PAGE, VISIT_BEGIN, VISIT_END};
pub use self::records::{REGISTERS, StackCopy, StackPieces, WaitState};
use super::error::BpfError;
use super::follow::{FOLLOWED, FollowedTasks, LEFT_OUT, WAITING, store};
use super::object::{self, LoadedObject, ObjectLoader};
use crate::cgroup::members::ids;
use crate::timestamp::monotonic_ns;

/// The iterator program that visits each task.
const VISIT: &str = "visit";

/// The iterator program that copies the stacks of waiting tasks.
const COPY_WAITING: &str = "copy_waiting";

/// Bytes of a copied stack at most: samples have to hold it.
const LARGEST_COPY: u32 = 61_440;

/// Most stacks that the reader caches.
const CACHED_STACKS: usize = 1 << 14;

/// Which stacks the programs record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStacks {
    /// The innermost kernel frames, which name the reason for the wait.
    Few,
    /// The kernel stack, and a copy of each user stack that wasn't copied before: about this many
    /// bytes from the stack pointer on, at most 61,440.
    Copied(u32),
    /// The kernel stack, and the user stack by frame pointers.
    FramePointers,
}

/// Which waits the programs record, and how.
#[derive(Debug)]
pub struct OffCpuPlan<'a> {
    /// The tasks whose waits count.
    pub follow: FollowedTasks,
    /// Only tasks in these cgroups (version 2), at most 64; empty: any cgroup.
    pub cgroups: Vec<BorrowedFd<'a>>,
    /// Whether this process's own waits count.
    pub include_self: bool,
    /// Which stacks are recorded.
    pub stacks: WaitStacks,
    /// Whether wakers are recorded.
    pub wakers: bool,
    /// Shortest wait that is recorded in full, in nanoseconds; shorter ones are only counted.
    pub min_ns: u32,
    /// Waits of at least this length, in microseconds, are reported one by one.
    pub long_us: Option<u32>,
}

/// Equal waits of a thread, or a single long wait. The time until the wake-up and the time on the
/// run queue are separate waits.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The process, in the initial pid namespace.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU on which the last of them ended, or was cut off when counting stopped.
    pub cpu: u32,
    /// When the last of them ended, by `CLOCK_MONOTONIC`, in nanoseconds. In a sum, a wait until
    /// the wake-up ends with the time on the run queue after it.
    pub end_ns: u64,
    /// Their total time in nanoseconds.
    pub ns: u64,
    /// Their number.
    pub waits: u64,
    /// The thread's state while it waited.
    pub state: WaitState,
    /// The kernel's frames, innermost first, including the tracing code that the scheduler called.
    pub kernel: &'a [u64],
    /// The user's frames, if taken by frame pointers.
    pub user: &'a [u64],
    /// The [`StackCopy::key`] of its user stack's copy; 0 for none.
    pub user_key: u64,
    /// Its waker, if recorded.
    pub waker: Option<Waker<'a>>,
}

/// A thread or interrupt that woke a thread.
#[derive(Clone, Copy, Debug)]
pub struct Waker<'a> {
    /// Identifies this waker together with its stack.
    pub key: u64,
    /// Its name, up to a NUL byte.
    pub comm: [u8; 16],
    /// The process; 0 for an interrupt on an idle CPU.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The kernel's frames, as in [`Wait`].
    pub kernel: &'a [u64],
    /// The user's frames, as in [`Wait`].
    pub user: &'a [u64],
    /// The key of its user stack's copy, as in [`Wait`].
    pub user_key: u64,
}

/// A record of the programs.
#[derive(Clone, Copy, Debug)]
pub enum OffCpuRecord<'a> {
    /// The user stack of waits or wakers that follow.
    Copy(StackCopy<'a>),
    /// Waits.
    Wait(Wait<'a>),
}

/// Waits and stacks that the kernel's tables had no room for, and waits below the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuCounts {
    /// Waits without room.
    pub missing_waits: u64,
    /// Their time in nanoseconds.
    pub missing_ns: u64,
    /// Copies of user stacks without room; each is tried again at the next wait with that stack.
    pub missing_copies: u64,
    /// Sums of waits whose kernel frames or frame-pointer chains had left the table of stacks.
    pub missing_stacks: u64,
    /// Waits shorter than [`OffCpuPlan::min_ns`].
    pub short_waits: u64,
    /// Their time in nanoseconds.
    pub short_ns: u64,
}

/// Programs that sum up the time that tasks are not on a CPU. Dropping it unloads them.
pub struct OffCpuPrograms {
    loaded: LoadedObject,
    epochs: EpochControl,
    /// By the lowest bit of the epoch.
    sums: [HashMap<MapData, WaitKey, WaitSum>; 2],
    stacks: StackTable,
    ring: RingBuf<MapData>,
    pieces: StackPieces,
    counts: PerCpuArray<MapData, u64>,
}

impl std::fmt::Debug for OffCpuPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OffCpuPrograms").finish_non_exhaustive()
    }
}

impl OffCpuPrograms {
    /// Loads the programs. Waits count after [`Self::enable`].
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(plan: &OffCpuPlan<'_>) -> Result<Self, BpfError> {
        let stacks = match plan.stacks {
            WaitStacks::Few => 0,
            WaitStacks::Copied(_) => 1,
            WaitStacks::FramePointers => 2,
        };
        let copied = match plan.stacks {
            WaitStacks::Copied(bytes) => bytes.min(LARGEST_COPY),
            _ => 0,
        };
        let page = u32::try_from(PAGE).unwrap_or(u32::MAX);
        let cgroup_count = u32::try_from(plan.cgroups.len()).unwrap_or(u32::MAX);
        let programs = ["sched_waking", "sched_process_fork", "sched_process_exec", "sched_switch"];
        let mut loaded = ObjectLoader::new(object::OFF_CPU, &programs)
            .follow(&plan.follow)
            .constant("in_cgroups", cgroup_count)
            .constant("wakers", plan.wakers.into())
            .constant("min_ns", plan.min_ns)
            .constant("long_us", plan.long_us.unwrap_or(0))
            .constant("stacks", stacks)
            .constant("copied_pages", copied.div_ceil(page))
            .load()?;
        loaded.load_task_iterator(VISIT)?;
        if copied > 0 {
            // Without it, waits that are in progress when counting starts have no user stack.
            let _ = loaded.load_task_iterator(COPY_WAITING);
        }
        let mut cgroups: CgroupArray<_> = loaded.take_map("cgroups")?;
        for (number, cgroup) in (0..).zip(&plan.cgroups) {
            cgroups.set(number, *cgroup, 0)?;
        }
        mark(&loaded, plan)?;
        let mut programs = Self {
            epochs: EpochControl::take(&mut loaded)?,
            sums: [loaded.take_map("even_sums")?, loaded.take_map("odd_sums")?],
            stacks: StackTable::take(&mut loaded, plan.stacks == WaitStacks::FramePointers)?,
            ring: loaded.take_map("ring")?,
            pieces: StackPieces::default(),
            counts: loaded.take_map("counts")?,
            loaded,
        };
        programs.loaded.attach()?;
        Ok(programs)
    }

    /// Counts waits from this moment on, also those that are in progress.
    ///
    /// # Errors
    /// Fails if the kernel's map can't be written, or its tasks can't be visited.
    pub fn enable(&mut self) -> Result<(), BpfError> {
        let current = self.epochs.current;
        if current.stopped == 0 {
            return Ok(());
        }
        self.epochs.set(Control { since: monotonic_ns(), stopped: 0, ..current })?;
        self.visit(VISIT_BEGIN)?;
        if self.loaded.is_loaded(COPY_WAITING) {
            self.loaded.visit_tasks(COPY_WAITING)?;
        }
        Ok(())
    }

    /// Stops counting. Waits that have not ended count up to this moment.
    ///
    /// # Errors
    /// Fails if the kernel's map can't be written, or its tasks can't be visited.
    pub fn disable(&mut self) -> Result<(), BpfError> {
        if self.epochs.current.stopped != 0 {
            return Ok(());
        }
        self.visit(VISIT_END)?;
        self.epochs.set(Control { stopped: 1, ..self.epochs.current })
    }

    /// Makes the programs copy every user stack once more, for a reader that lacks the earlier
    /// copies.
    ///
    /// # Errors
    /// Fails if the kernel's map can't be written.
    pub fn forget_copies(&mut self) -> Result<(), BpfError> {
        let current = self.epochs.current;
        self.epochs.set(Control { generation: current.generation.wrapping_add(1), ..current })
    }

    /// Hands over the records since the last drain: copies of stacks before the waits with these
    /// stacks.
    ///
    /// # Errors
    /// Fails if a map can't be read, and with the first error of `each`.
    pub fn drain<E: From<BpfError>>(
        &mut self,
        mut each: impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let parity = self.epochs.begin_epoch()?;
        let mut long_waits = Vec::new();
        while let Some(bytes) = self.ring.next() {
            if let Some(copy) = self.pieces.add(&bytes) {
                each(OffCpuRecord::Copy(copy))?;
            }
            long_waits.extend(LongWait::parse(&bytes));
        }
        for wait in long_waits {
            self.hand_over_long_wait(&wait, &mut each)?;
        }
        let sums =
            self.sums[parity].iter().collect::<Result<Vec<_>, _>>().map_err(BpfError::from)?;
        for (key, sum) in sums {
            self.sums[parity].remove(&key).map_err(BpfError::from)?;
            each(OffCpuRecord::Wait(self.stacks.wait(&key, WaitState::new(key.state), &sum)))?;
        }
        Ok(())
    }

    /// Returns the counts so far of waits and stacks that the kernel's tables had no room for, and
    /// of waits that were too short.
    ///
    /// # Errors
    /// Fails if the kernel's map can't be read.
    pub fn counts(&self) -> Result<OffCpuCounts, BpfError> {
        let count =
            |index: u32| -> Result<u64, BpfError> { Ok(self.counts.get(&index, 0)?.iter().sum()) };
        Ok(OffCpuCounts {
            missing_waits: count(0)?,
            missing_ns: count(1)?,
            missing_copies: count(2)?,
            missing_stacks: self.stacks.missing,
            short_waits: count(3)?,
            short_ns: count(4)?,
        })
    }

    fn visit(&mut self, phase: u32) -> Result<(), BpfError> {
        self.epochs.set(Control { visit: phase, now: monotonic_ns(), ..self.epochs.current })?;
        self.loaded.visit_tasks(VISIT).map(drop)
    }

    /// Hands a long wait over in two parts: until it was woken, and on the run queue.
    fn hand_over_long_wait<E>(
        &mut self,
        long: &LongWait,
        each: &mut impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let LongWait { start_ns, woken_ns, end_ns, state, cpu, .. } = *long;
        let [kernel, user, waker] = long.key;
        let key =
            WaitKey { kernel, user, waker, tid: long.tid, pid: long.pid, ..Default::default() };
        let queued = WaitState { on_run_queue: true, ..state };
        for (from, to, state) in [(start_ns, woken_ns, state), (woken_ns, end_ns, queued)] {
            if to > from {
                let sum = WaitSum { ns: to - from, waits: 1, last: to, cpu, ..Default::default() };
                each(OffCpuRecord::Wait(self.stacks.wait(&key, state, &sum)))?;
            }
        }
        Ok(())
    }
}

/// The programs' control block: `current` is the content of the map.
struct EpochControl {
    map: Array<MapData, Control>,
    current: Control,
    /// For each CPU, 1 + the epoch to whose sums a program there is adding; 0 for none.
    busy: PerCpuArray<MapData, u64>,
}

impl EpochControl {
    /// Takes the maps out and stops the programs until they are enabled.
    fn take(loaded: &mut LoadedObject) -> Result<Self, BpfError> {
        let current = Control { since: 0, now: 0, epoch: 0, visit: 0, stopped: 1, generation: 0 };
        let map = loaded.take_map("control")?;
        let mut control = Self { map, current, busy: loaded.take_map("busy_cpus")? };
        control.set(current)?;
        Ok(control)
    }

    fn set(&mut self, control: Control) -> Result<(), BpfError> {
        self.current = control;
        Ok(self.map.set(0, control, 0)?)
    }

    /// Begins the next epoch and waits for programs that still add to the last one's sums. Returns
    /// the last one's lowest bit.
    fn begin_epoch(&mut self) -> Result<usize, BpfError> {
        let ended = self.current.epoch;
        self.set(Control { epoch: ended.wrapping_add(1), ..self.current })?;
        while self.busy.get(&0, 0)?.iter().any(|busy| *busy == 1 + u64::from(ended)) {
            std::thread::yield_now();
        }
        Ok((ended & 1) as usize)
    }
}

/// The kernel's stacks and wakers, with a cache of the stacks that were read.
struct StackTable {
    stacks: HashMap<MapData, u64, RawStack>,
    wakers: HashMap<MapData, u64, RawWaker>,
    cached: Cache<u64, Box<[u64]>>,
    /// Whether keys of user stacks name frames; else they name copies.
    by_frame_pointers: bool,
    /// Sums of waits without one of their stacks.
    missing: u64,
}

impl StackTable {
    fn take(loaded: &mut LoadedObject, by_frame_pointers: bool) -> Result<Self, BpfError> {
        Ok(Self {
            stacks: loaded.take_map("all_stacks")?,
            wakers: loaded.take_map("all_wakers")?,
            cached: Cache::new(),
            by_frame_pointers,
            missing: 0,
        })
    }

    /// Builds a wait with the stacks that its key names.
    fn wait(&mut self, key: &WaitKey, state: WaitState, sum: &WaitSum) -> Wait<'_> {
        let waker = self.wakers.get(&key.waker, 0).ok().filter(|_| key.waker != 0);
        // Not later: the wait returns up to four cached stacks.
        if self.cached.len() >= CACHED_STACKS {
            self.cached.clear();
        }
        let mut is_complete = self.load_stacks(key.kernel, key.user);
        if let Some(waker) = &waker {
            is_complete &= self.load_stacks(waker.kernel, waker.user);
        }
        self.missing += u64::from(!is_complete);
        Wait {
            pid: key.pid,
            tid: key.tid,
            cpu: sum.cpu,
            end_ns: sum.last,
            ns: sum.ns,
            waits: sum.waits,
            state,
            kernel: self.frames(key.kernel),
            user: self.user_frames(key.user),
            user_key: self.copy_key(key.user),
            waker: waker.map(|waker| Waker {
                key: key.waker,
                comm: waker.comm,
                pid: waker.pid,
                tid: waker.tid,
                kernel: self.frames(waker.kernel),
                user: self.user_frames(waker.user),
                user_key: self.copy_key(waker.user),
            }),
        }
    }

    /// Loads two stacks; returns whether the table has both.
    fn load_stacks(&mut self, kernel: u64, user: u64) -> bool {
        let has_kernel = self.load(kernel);
        has_kernel & (!self.by_frame_pointers || self.load(user))
    }

    /// Copies a stack from the kernel's table to the cache. Returns whether the table still has it.
    fn load(&mut self, key: u64) -> bool {
        if key == 0 || self.cached.contains_key(&key) {
            return true;
        }
        let Ok(stack) = self.stacks.get(&key, 0) else { return false };
        self.cached.insert(key, stack.frames().into());
        true
    }

    fn frames(&self, key: u64) -> &[u64] {
        self.cached.get(&key).map_or(&[], |frames| frames)
    }

    fn user_frames(&self, key: u64) -> &[u64] {
        if self.by_frame_pointers { self.frames(key) } else { &[] }
    }

    fn copy_key(&self, key: u64) -> u64 {
        if self.by_frame_pointers { 0 } else { key }
    }
}

/// Marks the followed tasks and the processes in the cgroups, and excludes this process unless the
/// plan includes it.
fn mark(loaded: &LoadedObject, plan: &OffCpuPlan<'_>) -> Result<(), BpfError> {
    let waits = loaded.storage("waits")?;
    let mark = |pid: i32, follow: u32| store(waits, pid, &RawWait { follow, ..RawWait::default() });
    if !plan.include_self {
        mark(getpid().as_raw_pid(), LEFT_OUT)?;
    }
    match &plan.follow {
        FollowedTasks::Command(child) | FollowedTasks::All(Some(child)) => mark(*child, WAITING)?,
        FollowedTasks::Processes(pids) => pids.iter().try_for_each(|&pid| mark(pid, FOLLOWED))?,
        FollowedTasks::All(None) => {}
    }
    let members = plan.cgroups.iter().filter_map(|folder| ids(*folder, "cgroup.procs").ok());
    for pid in members.flatten().filter(|pid| *pid != getpid().as_raw_pid()) {
        // It may have exited since the cgroup listed it.
        let _ = mark(pid, FOLLOWED);
    }
    Ok(())
}
