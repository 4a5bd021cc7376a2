//! Time that tasks are not on a CPU, summed up in the kernel: `bpf/offcpu.bpf.c`.
//!
//! ```text
//! epoch        n: even sums             n+1: odd sums            n+2: even sums
//! drain        |  reads the odd sums    |  reads the even sums   |
//! ```
//! A drain begins the next epoch, waits for programs that don't know of it yet, which takes
//! microseconds, and reads what the last epoch left: nobody adds to it any more. So every sum is of
//! waits that ended between two drains.

mod records;

use std::collections::HashMap as Cache;
use std::os::fd::BorrowedFd;

use aya::include_bytes_aligned;
use aya::maps::{Array, CgroupArray, HashMap, MapData, PerCpuArray, RingBuf};
use rustix::process::getpid;

use self::records::{Control, LongWait, RawStack, RawWait, RawWaker, WaitKey, WaitRecord, WaitSum};
pub use self::records::{REGISTERS, StackCopy, WaitState};
use self::records::{VISIT_BEGIN, VISIT_END};
use super::follow::{FollowedTasks, store};
use super::load::{BpfError, LoadedObject, ObjectPlan};
use crate::cgroup::members::ids;
use crate::timestamp::monotonic_ns;

#[cfg(target_arch = "x86_64")]
static OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/offcpu.x86_64.o");
#[cfg(target_arch = "aarch64")]
static OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/offcpu.aarch64.o");

/// The program that visits each task.
const VISIT: &str = "visit";

/// Stacks that are kept here, of those that the kernel has.
const CACHED_STACKS: usize = 1 << 14;

/// `FOLLOWED`, `LEFT_OUT` and `WAITING`.
const FOLLOWED: u32 = 1;
const LEFT_OUT: u32 = 2;
const WAITING: u32 = 3;

/// What is kept of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStacks {
    /// A few frames of the kernel's, which say what is waited for.
    Few,
    /// The kernel's, and of user stacks a copy of those that weren't seen before.
    Copied,
    /// Both, the user's by frame pointers.
    FramePointers,
}

/// What is looked at.
#[derive(Debug)]
pub struct OffCpuPlan<'a> {
    /// Whose time.
    pub follow: FollowedTasks,
    /// Only of tasks in these cgroups (version 2), at most 64; none: wherever they are.
    pub cgroups: Vec<BorrowedFd<'a>>,
    /// This process's own waits, too.
    pub include_self: bool,
    /// What is kept of stacks.
    pub stacks: WaitStacks,
    /// Who wakes tasks.
    pub wakers: bool,
    /// Shorter waits are counted alone, in nanoseconds.
    pub min_ns: u32,
    /// Waits that are told one by one from this length on, in microseconds.
    pub long_us: Option<u32>,
}

/// Waits of a thread that are alike, or a single one.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The process, in the first pid namespace.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Where the last of them ended.
    pub cpu: u32,
    /// When the last of them ended, by `CLOCK_MONOTONIC`, in nanoseconds.
    pub end_ns: u64,
    /// How long they took, in nanoseconds.
    pub ns: u64,
    /// How many they are.
    pub waits: u64,
    /// In what state the thread waited.
    pub state: WaitState,
    /// The kernel's frames, the innermost first: with those of tracing, from which the scheduler was
    /// called.
    pub kernel: &'a [u64],
    /// The user's frames, where they are taken by frame pointers.
    pub user: &'a [u64],
    /// What the copy of its user stack has for [`StackCopy::key`]; 0: none.
    pub user_key: u64,
    /// Who woke it, where that is asked for and happened.
    pub waker: Option<Waker<'a>>,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug)]
pub struct Waker<'a> {
    /// Names this waker with this stack.
    pub key: u64,
    /// What it is called, up to a NUL byte.
    pub comm: [u8; 16],
    /// The process; 0 for an idle CPU, which an interrupt came to.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// As of a [`Wait`].
    pub kernel: &'a [u64],
    /// As of a [`Wait`].
    pub user: &'a [u64],
    /// As of a [`Wait`].
    pub user_key: u64,
}

/// What was seen of waits.
#[derive(Clone, Copy, Debug)]
pub enum OffCpuRecord<'a> {
    /// The user stack of waits that follow.
    Copy(StackCopy<'a>),
    /// Waits.
    Wait(Wait<'a>),
}

/// What found no room in the kernel's tables, and what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuCounts {
    /// Waits that found no room.
    pub missing_waits: u64,
    /// Their time, in nanoseconds.
    pub missing_ns: u64,
    /// Copies of user stacks that found no room; each is tried again at the next such wait.
    pub missing_copies: u64,
    /// Waits that were too short.
    pub short_waits: u64,
    /// Their time, in nanoseconds.
    pub short_ns: u64,
}

/// Programs that sum up the time that tasks are not on a CPU. Dropped, they are gone.
pub struct OffCpuPrograms {
    loaded: LoadedObject,
    sums: [HashMap<MapData, WaitKey, WaitSum>; 2],
    stacks: HashMap<MapData, u64, RawStack>,
    wakers: HashMap<MapData, u64, RawWaker>,
    ring: RingBuf<MapData>,
    control: Array<MapData, Control>,
    busy: PerCpuArray<MapData, u64>,
    counts: PerCpuArray<MapData, u64>,
    now: Control,
    known: Cache<u64, Box<[u64]>>,
    by_frame_pointers: bool,
}

impl std::fmt::Debug for OffCpuPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OffCpu").finish_non_exhaustive()
    }
}

impl OffCpuPrograms {
    /// Loads the programs. Waits count from [`Self::enable`] on.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(plan: &OffCpuPlan<'_>) -> Result<Self, BpfError> {
        let stacks = match plan.stacks {
            WaitStacks::Few => 0,
            WaitStacks::Copied => 1,
            WaitStacks::FramePointers => 2,
        };
        let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let mut loaded = LoadedObject::load(&ObjectPlan {
            object: OBJECT,
            constants: &[
                ("all_tasks", plan.follow.all_tasks()),
                ("in_cgroups", number(plan.cgroups.len())),
                ("wakers", plan.wakers.into()),
                ("min_ns", plan.min_ns),
                ("long_us", plan.long_us.unwrap_or(0)),
                ("stacks", stacks),
            ],
            sizes: &[],
            programs: &["sched_waking", "sched_process_fork", "sched_process_exec", "sched_switch"],
        })?;
        loaded.load_task_iterator(VISIT)?;
        let sums = [loaded.take("even_sums")?.try_into()?, loaded.take("odd_sums")?.try_into()?];
        let mut cgroups: CgroupArray<_> = loaded.take("cgroups")?.try_into()?;
        for (number, cgroup) in (0..).zip(&plan.cgroups) {
            cgroups.set(number, *cgroup, 0)?;
        }
        mark(&loaded, plan)?;
        let control = loaded.take("control")?.try_into()?;
        let now = Control { since: 0, now: 0, epoch: 0, visit: 0, stopped: 1, generation: 0 };
        let mut begun = Self {
            sums,
            stacks: loaded.take("all_stacks")?.try_into()?,
            wakers: loaded.take("all_wakers")?.try_into()?,
            ring: loaded.take("ring")?.try_into()?,
            control,
            busy: loaded.take("busy_cpus")?.try_into()?,
            counts: loaded.take("counts")?.try_into()?,
            loaded,
            now,
            known: Cache::new(),
            by_frame_pointers: plan.stacks == WaitStacks::FramePointers,
        };
        begun.set(now)?;
        begun.loaded.attach()?;
        begun.visit(VISIT_BEGIN)?;
        Ok(begun)
    }

    /// Waits count from now on.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn enable(&mut self) -> Result<(), BpfError> {
        if self.now.stopped == 0 {
            return Ok(());
        }
        self.set(Control { since: monotonic_ns(), stopped: 0, ..self.now })
    }

    /// Waits don't count any more; those that go on do up to now.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn disable(&mut self) -> Result<(), BpfError> {
        if self.now.stopped != 0 {
            return Ok(());
        }
        self.visit(VISIT_END)?;
        self.set(Control { stopped: 1, ..self.now })
    }

    /// Has user stacks copied again that were copied before: for a reader who doesn't know these.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn forget_copies(&mut self) -> Result<(), BpfError> {
        self.set(Control { generation: self.now.generation.wrapping_add(1), ..self.now })
    }

    /// Hands over what was seen since the last time: copies of stacks before the waits that they
    /// belong to.
    ///
    /// # Errors
    /// The kernel's own, or the first of `each`.
    pub fn drain<E: From<BpfError>>(
        &mut self,
        mut each: impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ended = self.begin_epoch()?;
        let mut long = Vec::new();
        while let Some(bytes) = self.ring.next() {
            match WaitRecord::parse(&bytes) {
                Some(WaitRecord::Copy(copy)) => each(OffCpuRecord::Copy(copy))?,
                Some(WaitRecord::Long(wait)) => long.push(wait),
                None => {}
            }
        }
        for wait in long {
            self.tell_long(&wait, &mut each)?;
        }
        let sums =
            self.sums[ended].iter().collect::<Result<Vec<_>, _>>().map_err(BpfError::from)?;
        for (key, sum) in sums {
            self.sums[ended].remove(&key).map_err(BpfError::from)?;
            self.tell(&key, &sum, &mut each)?;
        }
        Ok(())
    }

    /// What found no room, and what was left out, until now.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn counts(&self) -> Result<OffCpuCounts, BpfError> {
        let count =
            |which: u32| -> Result<u64, BpfError> { Ok(self.counts.get(&which, 0)?.iter().sum()) };
        Ok(OffCpuCounts {
            missing_waits: count(0)?,
            missing_ns: count(1)?,
            missing_copies: count(2)?,
            short_waits: count(3)?,
            short_ns: count(4)?,
        })
    }

    /// Begins the next epoch; which sums are those of the last one.
    fn begin_epoch(&mut self) -> Result<usize, BpfError> {
        let ended = self.now.epoch;
        self.set(Control { epoch: ended.wrapping_add(1), ..self.now })?;
        self.await_programs_of(ended)?;
        Ok((ended & 1) as usize)
    }

    /// Waits for programs that add to the sums of an epoch that has ended.
    fn await_programs_of(&self, epoch: u32) -> Result<(), BpfError> {
        while self.busy.get(&0, 0)?.iter().any(|busy| *busy == 1 + u64::from(epoch)) {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn set(&mut self, control: Control) -> Result<(), BpfError> {
        self.now = control;
        Ok(self.control.set(0, control, 0)?)
    }

    fn visit(&mut self, which: u32) -> Result<(), BpfError> {
        self.set(Control { visit: which, now: monotonic_ns(), ..self.now })?;
        self.loaded.visit_tasks(VISIT)
    }

    fn tell_long<E: From<BpfError>>(
        &mut self,
        long: &LongWait,
        each: &mut impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let LongWait { start_ns, woken_ns, end_ns, state, cpu, .. } = *long;
        let [kernel, user, waker] = long.key;
        let key =
            WaitKey { kernel, user, waker, tid: long.tid, pid: long.pid, ..WaitKey::default() };
        let of_run_queue = WaitState { on_run_queue: true, ..state };
        for (from, to, state) in [(start_ns, woken_ns, state), (woken_ns, end_ns, of_run_queue)] {
            if to > from {
                let sum = WaitSum { ns: to - from, waits: 1, last: to, cpu, ..WaitSum::default() };
                self.tell_of(&key, state, &sum, each)?;
            }
        }
        Ok(())
    }

    fn tell<E: From<BpfError>>(
        &mut self,
        key: &WaitKey,
        sum: &WaitSum,
        each: &mut impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tell_of(key, WaitState::new(key.state), sum, each)
    }

    fn tell_of<E: From<BpfError>>(
        &mut self,
        key: &WaitKey,
        state: WaitState,
        sum: &WaitSum,
        each: &mut impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let waker = self.wakers.get(&key.waker, 0).ok().filter(|_| key.waker != 0);
        let of_waker = waker.map(|waker| (waker.kernel, waker.user));
        let frame_pointers = self.by_frame_pointers;
        for key in [Some((key.kernel, key.user)), of_waker].into_iter().flatten() {
            self.learn(key.0);
            if frame_pointers {
                self.learn(key.1);
            }
        }
        let frames = |key: u64| self.known.get(&key).map_or(&[][..], |frames| frames);
        let user = |key: u64| if frame_pointers { frames(key) } else { &[] };
        let user_key = |key: u64| if frame_pointers { 0 } else { key };
        each(OffCpuRecord::Wait(Wait {
            pid: key.pid,
            tid: key.tid,
            cpu: sum.cpu,
            end_ns: sum.last,
            ns: sum.ns,
            waits: sum.waits,
            state,
            kernel: frames(key.kernel),
            user: user(key.user),
            user_key: user_key(key.user),
            waker: waker.map(|waker| Waker {
                key: key.waker,
                comm: waker.comm,
                pid: waker.pid,
                tid: waker.tid,
                kernel: frames(waker.kernel),
                user: user(waker.user),
                user_key: user_key(waker.user),
            }),
        }))
    }

    /// Takes a stack over from the kernel's table, where it is still there.
    fn learn(&mut self, key: u64) {
        if key == 0 || self.known.contains_key(&key) {
            return;
        }
        if self.known.len() >= CACHED_STACKS {
            self.known.clear();
        }
        if let Ok(stack) = self.stacks.get(&key, 0) {
            self.known.insert(key, stack.frames().into());
        }
    }
}

/// Marks the tasks that are followed, and this process, which is not unless it is asked for.
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
        // It may have ended meanwhile.
        let _ = mark(pid, FOLLOWED);
    }
    Ok(())
}
