//! Waits from perf events, used if BPF programs can't be loaded. Each context switch and each
//! wake-up of the whole machine is a sample, which is consumed here.
//!
//! ```text
//! sched:sched_switch, with a call chain \
//! sched:sched_waking                     > rings -> order of time -> Waits -> sums
//! switches, forks, execs and exits      /
//! ```
//!
//! A tracepoint's sample shows where a thread leaves its CPU, and a switch record that it gets one
//! again. The tracepoint's samples alone aren't enough: a thread that comes back to an idle CPU is
//! sampled in the idle thread, and some kernels deliver nothing from the idle threads of all CPUs
//! but the first (seen on Linux 6.18, in perf's recordings as well).

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::time::ClockId;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::record::{Events, Layout, Record, Sample, Switch, kind};
use tare_kernel::bpf::{FollowedTasks, OffCpuCounts, OffCpuPlan, OffCpuRecord, Wait, WaitStacks};
use tare_kernel::host::Host;
use tare_kernel::open::{EventTarget, Kernel, System};
use tare_kernel::procfs;
use tare_kernel::ring::{AddError, OrderedRings, RingError};
use tare_kernel::timestamp::monotonic_ns;
use tare_kernel::tracefs::{Tracefs, TracefsError};
use thiserror::Error;

use super::waits::{Limits, WaitKey, WaitSum, Waits};

/// Bytes of each CPU's ring; fewer if the limit on locked memory is lower.
const RING_BYTES: u32 = 4 << 20;
/// Assumed longest time from a record's timestamp until it is in the ring, in nanoseconds.
const UNDER_WAY_NS: u64 = 1_000_000;

/// Why perf events can't record waits.
#[derive(Debug, Error)]
pub(super) enum SwitchesError {
    /// The tracepoints' ids or fields can't be read.
    #[error("{0}")]
    Tracefs(#[from] TracefsError),
    /// The list of the machine's CPUs can't be read.
    #[error("/sys/devices/system/cpu/online: {0}")]
    Cpus(#[source] std::io::Error),
    /// The kernel refuses to open or enable an event.
    #[error("the event {event} can't be opened: {errno}")]
    Open {
        /// The event.
        event: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// A ring can't be mapped.
    #[error("{0}")]
    Ring(RingError),
    /// Cgroups can't be followed: a sample of a switch only identifies the cgroup of the task that
    /// leaves the CPU.
    #[error("waits of cgroups (-G) need BPF programs")]
    Cgroups,
}

/// Indexes of the events, in opening order.
const SWITCH: usize = 0;
const WAKING: usize = 1;

/// The event whose records are those of tasks and of switches.
const TASKS: &str = "dummy";

/// Open events, and the waits computed from them.
#[derive(Debug)]
pub(super) struct Switches {
    rings: OrderedRings,
    layouts: Events,
    fields: TracepointFields,
    waits: Waits,
    /// The child that will execute the command.
    waiting: Option<i32>,
    /// Whether waits have user call chains.
    has_user_chains: bool,
    lost: u64,
}

/// The tracepoint fields that are read.
#[derive(Clone, Copy, Debug)]
struct TracepointFields {
    prev_state: FieldRange,
    woken_pid: FieldRange,
}

impl Switches {
    /// Opens and enables the events. Waits count from [`Self::set_enabled`] on.
    ///
    /// # Errors
    /// See [`SwitchesError`].
    pub(super) fn start(plan: &OffCpuPlan<'_>, host: &Host) -> Result<Self, SwitchesError> {
        if !plan.cgroups.is_empty() {
            return Err(SwitchesError::Cgroups);
        }
        let tracefs = Tracefs::find(host)?;
        let place = |event, field| -> Result<FieldRange, TracefsError> {
            let (offset, size) = tracefs.field_place("sched", event, field)?;
            Ok(FieldRange { offset, size })
        };
        let fields = TracepointFields {
            prev_state: place("sched_switch", "prev_state")?,
            woken_pid: place("sched_waking", "pid")?,
        };
        let rings = open(&tracefs, host)?;
        rings.enable().map_err(|errno| SwitchesError::Open { event: TASKS, errno })?;
        let all = matches!(plan.follow, FollowedTasks::All(_));
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let limits = Limits {
            min_ns: plan.min_ns.into(),
            long_ns: plan.long_us.map(|micros| 1000 * u64::from(micros)),
        };
        let waits = Waits::new(all, (!plan.include_self).then_some(own), limits);
        let waiting = match plan.follow {
            FollowedTasks::Command(child) | FollowedTasks::All(Some(child)) => Some(child),
            FollowedTasks::All(None) | FollowedTasks::Processes(_) => None,
        };
        let has_user_chains = plan.stacks != WaitStacks::Few;
        let layouts = rings.layouts().clone();
        let mut begun = Self { rings, layouts, fields, waits, waiting, has_user_chains, lost: 0 };
        begun.add_existing(&plan.follow, host);
        if let Some(child) = waiting {
            begun.waits.add(child, child, false, None);
        }
        Ok(begun)
    }

    /// Adds existing tasks, which may be waiting already.
    fn add_existing(&mut self, follow: &FollowedTasks, host: &Host) {
        let now_ns = monotonic_ns();
        let pids = match follow {
            FollowedTasks::Command(_) => Vec::new(),
            FollowedTasks::Processes(pids) => pids.clone(),
            // Kernel threads are among these, and are not followed.
            FollowedTasks::All(_) => procfs::processes(host).unwrap_or_default(),
        };
        for pid in pids {
            let is_kernels =
                procfs::process(host, pid).is_ok_and(|process| process.is_kernel_thread);
            // The target may be a thread rather than a process.
            let process = procfs::process_of(host, pid).unwrap_or(pid);
            let threads = if process == pid { procfs::threads(host, pid) } else { Ok(vec![pid]) };
            for tid in threads.unwrap_or_default() {
                let state = procfs::wait_state(host, process, tid);
                let waits = state.map(|state| (now_ns, state));
                self.waits.add(process, tid, !is_kernels, waits);
            }
        }
    }

    /// Descriptors that become readable when a ring holds 2 MiB, or is full if it is smaller.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.files()
    }

    /// Starts or stops counting waits.
    pub(super) fn set_enabled(&mut self, enabled: bool) {
        if enabled == self.waits.is_enabled() {
            return;
        }
        let now_ns = monotonic_ns();
        self.read(u64::MAX);
        if enabled { self.waits.enable(now_ns) } else { self.waits.disable(now_ns) }
    }

    /// Hands over the waits since the last drain.
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub(super) fn drain<E>(
        &mut self,
        mut each: impl FnMut(OffCpuRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read(monotonic_ns().saturating_sub(UNDER_WAY_NS));
        let has_user_chains = self.has_user_chains;
        let unsigned = |id: i32| id.unsigned_abs();
        self.waits.take().try_for_each(|(key, sum)| {
            let WaitKey { pid, tid, state, callchain } = key;
            let WaitSum { ns, waits, end_ns, cpu } = sum;
            let (kernel, user) = split_callchain(&callchain);
            let user = if has_user_chains { user } else { &[] };
            let pid = unsigned(pid);
            let tid = unsigned(tid);
            let user_key = 0;
            let waker = None;
            each(OffCpuRecord::Wait(Wait {
                pid,
                tid,
                cpu,
                end_ns,
                ns,
                waits,
                state,
                kernel,
                user,
                user_key,
                waker,
            }))
        })
    }

    /// Counts of lost records and of ignored waits so far. If the record of a switch is lost, its
    /// wait is missing, or lasts until the thread's next switch.
    pub(super) fn counts(&self) -> OffCpuCounts {
        let counts = self.waits.counts;
        OffCpuCounts { missing_waits: counts.missing_waits + self.lost, ..counts }
    }

    /// Takes in the records that are older than `before_ns`.
    fn read(&mut self, before_ns: u64) {
        let Self { rings, layouts, fields, waits, waiting, lost, .. } = self;
        rings.drain(before_ns);
        while let Some(next) = rings.next_record() {
            let record = next.record;
            let time_ns = next.time_ns;
            if record.kind == kind::PERF_RECORD_SAMPLE {
                let sample =
                    layouts.index_of(&record).zip(Sample::from_record(&record, layouts).ok());
                if let Some((event, sample)) = sample {
                    fields.see(event, &sample, time_ns, waits);
                }
                continue;
            }
            // A record that can't be decoded is ignored.
            match record.decode() {
                Ok(Record::Comm(comm)) if *waiting == Some(comm.tid) && comm.is_exec => {
                    *waiting = None;
                    waits.execute(comm.tid);
                }
                Ok(Record::Fork(task)) => waits.fork(task.ptid, task.pid, task.tid, time_ns),
                Ok(Record::Exit(task)) => waits.exit(task.tid),
                Ok(Record::Switch(Switch { is_out: false, .. })) => {
                    let layout = layouts.layout_of(&record);
                    let id = layout.map(|layout| layout.sample_id(&record)).unwrap_or_default();
                    waits.switch_in(id.tid.unwrap_or(0), id.cpu.unwrap_or(0), time_ns);
                }
                Ok(Record::Lost(of)) => *lost += of.lost,
                _ => {}
            }
        }
    }
}

impl TracepointFields {
    fn see(&self, event: usize, sample: &Sample<'_>, time_ns: u64, waits: &mut Waits) {
        let raw = sample.raw.unwrap_or_default();
        if event == WAKING {
            return waits.wake(self.woken_pid.read_u32(raw).cast_signed(), time_ns);
        }
        if event != SWITCH {
            return;
        }
        let pid = sample.head.pid.unwrap_or(-1);
        let tid = sample.head.tid.unwrap_or(-1);
        let chain: Arc<[u64]> = sample.callchain.iter().flat_map(|chain| chain.iter()).collect();
        // Kernel threads have no user call chain, not even an empty one.
        if tid > 0 && chain.contains(&abi::PERF_CONTEXT_USER) {
            waits.switch_out(pid, tid, self.prev_state.read_u32(raw), chain, time_ns);
        }
    }
}

/// The byte range of a tracepoint's field in a sample's raw data.
#[derive(Clone, Copy, Debug)]
struct FieldRange {
    offset: usize,
    size: usize,
}

impl FieldRange {
    /// Reads a four-byte field, or the lower half of an eight-byte one; 0 if the data is too short.
    fn read_u32(&self, raw: &[u8]) -> u32 {
        let low = if cfg!(target_endian = "big") && self.size == 8 { 4 } else { 0 };
        let bytes = raw.get(self.offset + low..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}

/// Splits a call chain into kernel and user addresses.
fn split_callchain(callchain: &[u64]) -> (&[u64], &[u64]) {
    let user = callchain.iter().position(|at| *at == abi::PERF_CONTEXT_USER);
    let (kernel, user) = callchain.split_at(user.unwrap_or(callchain.len()));
    (kernel.get(1..).unwrap_or_default(), user.get(1..).unwrap_or_default())
}

/// Opens the events on each online CPU.
fn open(tracefs: &Tracefs, host: &Host) -> Result<OrderedRings, SwitchesError> {
    let cpus = host.online_cpus().map_err(SwitchesError::Cpus)?;
    let mut rings = OrderedRings::default();
    let fields = abi::PERF_SAMPLE_RAW;
    let tracepoint = |name, more: u32| -> Result<Attr, SwitchesError> {
        Ok(attr(abi::PERF_TYPE_TRACEPOINT, tracefs.id("sched", name)?, fields | more))
    };
    let mut tasks =
        attr(abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_DUMMY.into(), abi::PERF_SAMPLE_CPU);
    tasks.flags |= Flags::TASK | Flags::COMM | Flags::COMM_EXEC | Flags::CONTEXT_SWITCH;
    let events = [
        ("sched:sched_switch", tracepoint("sched_switch", abi::PERF_SAMPLE_CALLCHAIN)?),
        ("sched:sched_waking", tracepoint("sched_waking", 0)?),
        (TASKS, tasks),
    ];
    for (event, attr) in events {
        let refused = |errno| SwitchesError::Open { event, errno };
        let mut ids = Vec::new();
        for &cpu in cpus.as_slice() {
            let file = System.open(&attr, EventTarget::Cpu(cpu), None).map_err(refused)?;
            ids.push(file.id().map_err(refused)?);
            rings.add(cpu, file, RING_BYTES as usize).map_err(|error| match error {
                AddError::Ring(error) => SwitchesError::Ring(error),
                AddError::Output(errno) => refused(errno),
            })?;
        }
        rings.add_layout(Layout::from(&attr), ids);
    }
    Ok(rings)
}

fn attr(kind: u32, config: u64, fields: u32) -> Attr {
    let always = abi::PERF_SAMPLE_IDENTIFIER | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME;
    Attr {
        kind,
        config,
        sampling: Sampling::Period(1),
        sample_type: u64::from(always | fields),
        flags: Flags::DISABLED | Flags::SAMPLE_ID_ALL | Flags::WATERMARK | Flags::USE_CLOCKID,
        clockid: ClockId::Monotonic as i32,
        // Half of the ring, which may be smaller than `RING_BYTES`.
        wakeup: 0,
        ..Attr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_chains_are_split_into_kernel_and_user_addresses() {
        let of_kernel = abi::PERF_CONTEXT_KERNEL;
        let of_user = abi::PERF_CONTEXT_USER;
        assert_eq!(split_callchain(&[of_kernel, 1, 2, of_user, 3]), (&[1, 2][..], &[3][..]));
        assert_eq!(split_callchain(&[of_user, 3]), (&[][..], &[3][..]));
        assert_eq!(split_callchain(&[of_kernel, 1]), (&[1][..], &[][..]));
        assert_eq!(split_callchain(&[]), (&[][..], &[][..]));
    }

    #[test]
    fn a_truncated_field_reads_as_zero() {
        let raw = 0x1_0000_0007_u64.to_ne_bytes();
        assert_eq!(FieldRange { offset: 0, size: 8 }.read_u32(&raw), 7);
        assert_eq!(FieldRange { offset: 6, size: 4 }.read_u32(&raw), 0);
    }
}
