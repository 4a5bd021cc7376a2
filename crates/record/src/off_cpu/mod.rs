//! Off-CPU time, as samples of the event `offcpu-time`. BPF programs sum it up
//! (`tare_kernel::bpf::OffCpuPrograms`), or else perf events report each wait (`switches`). Each
//! pass over the ring buffers collects the sums since the last pass.
//!
//! ```text
//! a new user stack            sample without weight: registers, a copy of the stack, its name (`addr`)
//! equal waits                 sample: ip and innermost frame the reason, period the nanoseconds, weight
//!                             the number of waits, `addr` the name of the user stack
//! ```

mod reason;
mod sample;
mod switches;
mod waits;
mod wakers;

use std::os::fd::BorrowedFd;

use rustix::time::ClockId;
use tare_format::abi::Attr;
use tare_format::abi::bindings::{PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER};
use tare_format::ledger::OffCpu as Ledger;
use tare_format::record::Layout;
use tare_kernel::bpf::{
    BpfError, FollowedTasks, OffCpuPlan, OffCpuPrograms, OffCpuRecord, PerfFallback, StackCopy,
    Wait, WaitStacks,
};
use tare_kernel::clock_pair;
use tare_kernel::host::{CpuList, Host};
use tare_kernel::timestamp::monotonic_ns;

use self::reason::{Reason, WaitFunctions};
use self::sample::WaitSample;
pub(crate) use self::sample::{EVENT, event, fields};
use self::switches::Switches;
use self::wakers::Wakers;
use crate::error::RecordError;
use crate::options::{RecorderOptions, Target};

/// Id of the event's samples. The kernel numbers its events from 1, so this id is free.
pub(crate) const ID: u64 = 1 << 62;

/// Returns the symbol records of the reasons, which are the innermost frames of waits.
pub(crate) fn symbols(layout: &Layout) -> Vec<u8> {
    Reason::symbols(layout)
}

/// The source of waits: BPF programs, or perf events.
#[derive(Debug)]
enum WaitSource {
    Programs(Box<OffCpuPrograms>),
    Events(Box<Switches>),
}

const EVENTS_LACK: &str = "without --wakers and without callers of functions that keep no frame pointer; each switch and each wake-up of the machine costs a sample";

/// Collects off-CPU time as records.
#[derive(Debug)]
pub(crate) struct OffCpuTimes {
    source: WaitSource,
    /// Set if BPF programs can't be loaded and perf events replace them.
    pub(crate) step_back: Option<PerfFallback>,
    functions: WaitFunctions,
    fields: u64,
    /// Nanoseconds by which the recording's clock is ahead of `CLOCK_MONOTONIC`.
    ahead_ns: i64,
    /// Only waits that end on these CPUs count; `None`: all.
    cpus: Option<CpuList>,
    callchain: Vec<u64>,
    wakers: Wakers,
    /// Start of the last drain, by `CLOCK_MONOTONIC`. All waits that the programs report in the
    /// next drain end after it.
    drained_ns: u64,
    pub(crate) totals: WaitTotals,
}

/// Sums of the samples that stand for waits. Waits and nanoseconds are the whole recording's.
#[derive(Debug, Default)]
pub(crate) struct WaitTotals {
    /// Samples in the current file.
    pub(crate) samples: u64,
    waits: u64,
    ns: u64,
}

/// The tasks whose off-CPU time is recorded.
pub(crate) struct OffCpuTarget<'a> {
    /// The command's process, which waits for its execve.
    pub(crate) command: Option<i32>,
    /// The recorded processes.
    pub(crate) processes: Vec<i32>,
    /// Folders of the recorded cgroups.
    pub(crate) cgroups: Vec<BorrowedFd<'a>>,
}

impl OffCpuTarget<'_> {
    /// Returns the tasks that the BPF programs, or the perf events in their place, follow.
    pub(crate) fn followed_tasks(&self, target: &Target) -> FollowedTasks {
        match target {
            Target::Command(_) | Target::CommandOnCpus(_) | Target::CommandInCgroup(_) => {
                FollowedTasks::Command(self.command.unwrap_or(0))
            }
            Target::Processes(..) | Target::Threads(..) | Target::User(..) => {
                FollowedTasks::Processes(self.processes.clone())
            }
            Target::Cpus(_) | Target::Cgroups { .. } => FollowedTasks::All(self.command),
        }
    }
}

impl OffCpuTimes {
    /// Loads the programs, for samples of this event. If they can't be loaded, uses perf events,
    /// and leaves out the fields that these can't fill.
    ///
    /// # Errors
    /// Fails with [`RecordError::OffCpu`] or [`RecordError::OffCpuNeither`].
    pub(crate) fn start(
        options: &RecorderOptions,
        attr: &mut Attr,
        whose: OffCpuTarget<'_>,
        host: &Host,
    ) -> Result<Self, RecordError> {
        let asked = options.off_cpu.unwrap_or_default();
        let limits_cgroups = matches!(options.target, Target::Cgroups { .. });
        let nanos = |time: std::time::Duration| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
        let micros =
            |time: std::time::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let plan = OffCpuPlan {
            follow: whose.followed_tasks(&options.target),
            cgroups: if limits_cgroups { whose.cgroups } else { Vec::new() },
            include_self: options.include_self,
            stacks: needed_stacks(attr),
            wakers: asked.wakers,
            min_ns: nanos(asked.min),
            long_us: asked.long.map(micros),
        };
        let (source, step_back) = start_source(&plan, attr, host)?;
        let clock = options.sampling.clock;
        let pair = (clock != Some(ClockId::Monotonic as i32)).then(|| clock_pair(clock)).flatten();
        let ahead = pair.map(|pair| pair.recorded_ns.wrapping_sub(pair.monotonic_ns).cast_signed());
        Ok(Self {
            source,
            step_back,
            functions: WaitFunctions::read(host),
            fields: attr.sample_type,
            ahead_ns: ahead.unwrap_or(0),
            cpus: match &options.target {
                Target::Cpus(cpus) | Target::Cgroups { cpus, .. } => Some(cpus.clone()),
                _ => None,
            },
            callchain: Vec::new(),
            wakers: Wakers::default(),
            drained_ns: monotonic_ns(),
            totals: WaitTotals::default(),
        })
    }

    /// Starts or stops counting waits.
    ///
    /// # Errors
    /// Fails if the kernel can't change the programs' state.
    pub(crate) fn set_enabled(&mut self, enabled: bool) -> Result<(), BpfError> {
        match &mut self.source {
            WaitSource::Programs(programs) if enabled => programs.enable(),
            WaitSource::Programs(programs) => programs.disable(),
            WaitSource::Events(events) => {
                events.set_enabled(enabled);
                Ok(())
            }
        }
    }

    /// Begins a file, which must repeat all stacks.
    ///
    /// # Errors
    /// Fails if the kernel can't change the programs' state.
    pub(crate) fn begin_file(&mut self) -> Result<(), BpfError> {
        self.wakers = Wakers::default();
        match &mut self.source {
            WaitSource::Programs(programs) => programs.forget_copies(),
            WaitSource::Events(_) => Ok(()),
        }
    }

    /// Descriptors of perf events that become readable when a ring has reached its watermark. The
    /// programs have none.
    pub(crate) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let events = match &self.source {
            WaitSource::Programs(_) => None,
            WaitSource::Events(events) => Some(events.files()),
        };
        events.into_iter().flatten()
    }

    /// Returns the samples of the waits since the last drain, and the records that introduce their
    /// stacks and wakers.
    ///
    /// # Errors
    /// Fails if the programs' maps can't be read.
    pub(crate) fn drain(&mut self) -> Result<Vec<u8>, BpfError> {
        let Self { source, functions, fields, ahead_ns, cpus, callchain, .. } = self;
        let totals = &mut self.totals;
        let wakers = &mut self.wakers;
        let since_ns = std::mem::replace(&mut self.drained_ns, monotonic_ns());
        let time_ns = |ns: u64| ns.wrapping_add_signed(*ahead_ns);
        let mut bytes = Vec::new();
        let each = |seen: OffCpuRecord<'_>| -> Result<(), BpfError> {
            let sample = match &seen {
                OffCpuRecord::Copy(copy) => copy_sample(copy),
                OffCpuRecord::Wait(wait) => {
                    if cpus.as_ref().is_some_and(|cpus| !cpus.contains(wait.cpu)) {
                        return Ok(());
                    }
                    totals.samples += 1;
                    totals.waits += wait.waits;
                    totals.ns += wait.ns;
                    if let Some(waker) = &wait.waker {
                        // The last drain precedes the end of every wait that names this waker.
                        wakers.introduce(waker, functions, *fields, time_ns(since_ns), &mut bytes);
                    }
                    wait_sample(wait, functions, callchain)
                }
            };
            let sample = WaitSample { time_ns: time_ns(sample.time_ns), ..sample };
            // Chains and copies always fit into a record.
            _ = sample.encode(*fields, &mut bytes);
            Ok(())
        };
        match source {
            WaitSource::Programs(programs) => programs.drain(each)?,
            WaitSource::Events(events) => events.drain(each)?,
        }
        Ok(bytes)
    }

    /// Returns the counts of recorded, lost and ignored waits.
    pub(crate) fn ledger(&self) -> Ledger {
        // Counts of lost and ignored waits are 0 if the kernel's can't be read.
        let counts = match &self.source {
            WaitSource::Programs(programs) => programs.counts().unwrap_or_default(),
            WaitSource::Events(events) => events.counts(),
        };
        let WaitTotals { waits, ns, .. } = self.totals;
        Ledger {
            waits,
            ns,
            missing_waits: counts.missing_waits,
            missing_ns: counts.missing_ns,
            missing_copies: counts.missing_copies,
            missing_stacks: counts.missing_stacks,
            short_waits: counts.short_waits,
            short_ns: counts.short_ns,
        }
    }
}

/// Starts the programs, or else the perf events.
fn start_source(
    plan: &OffCpuPlan<'_>,
    attr: &mut Attr,
    host: &Host,
) -> Result<(WaitSource, Option<PerfFallback>), RecordError> {
    let why = match OffCpuPrograms::start(plan) {
        Ok(programs) => return Ok((WaitSource::Programs(Box::new(programs)), None)),
        Err(why @ BpfError::NoProcess(_)) => return Err(why.into()),
        Err(why) => why,
    };
    match Switches::start(plan, host) {
        Ok(events) => {
            attr.sample_type = fields(attr.has_callchain(), false, false);
            (attr.sample_regs_user, attr.sample_stack_user) = (0, 0);
            let step_back = PerfFallback { cause: why, limits: EVENTS_LACK };
            Ok((WaitSource::Events(Box::new(events)), Some(step_back)))
        }
        Err(events) => {
            Err(RecordError::OffCpuNeither { programs: why, events: events.to_string() })
        }
    }
}

/// Returns which parts of stacks samples with these fields need.
fn needed_stacks(attr: &Attr) -> WaitStacks {
    match (attr.has_callchain(), attr.sample_stack_user > 0) {
        (false, _) => WaitStacks::Few,
        (true, true) => WaitStacks::Copied(attr.sample_stack_user),
        (true, false) => WaitStacks::FramePointers,
    }
}

fn copy_sample<'a>(copy: &'a StackCopy<'a>) -> WaitSample<'a> {
    WaitSample {
        id: ID,
        pid: copy.pid,
        tid: copy.tid,
        time_ns: copy.time_ns,
        user_key: copy.key,
        copy: Some((&copy.registers, copy.bytes)),
        ..WaitSample::default()
    }
}

fn wait_sample<'a>(
    wait: &Wait<'_>,
    functions: &WaitFunctions,
    callchain: &'a mut Vec<u64>,
) -> WaitSample<'a> {
    let (reason, kernel) = functions.reason(wait.state, wait.kernel);
    callchain.clear();
    callchain.extend([PERF_CONTEXT_KERNEL, reason.address()]);
    callchain.extend_from_slice(kernel);
    if !wait.user.is_empty() {
        callchain.push(PERF_CONTEXT_USER);
        callchain.extend_from_slice(wait.user);
    }
    WaitSample {
        id: ID,
        ip: reason.address(),
        pid: wait.pid,
        tid: wait.tid,
        time_ns: wait.end_ns,
        user_key: wait.user_key,
        cpu: wait.cpu,
        ns: wait.ns,
        waits: wait.waits,
        waker_key: wait.waker.map_or(0, |waker| waker.key),
        callchain,
        copy: None,
    }
}
