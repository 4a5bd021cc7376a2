//! The source of system call records and sums: BPF programs, perf events if BPF isn't available, or
//! ptrace(2).

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{
    BpfError, Call, CallBeginning, CallInProgress, CallPlan, CallRecord, CallSummary, Calls,
    FollowedTasks, PerfFallback, SumKey, Sums, TaskEvent,
};
use tare_kernel::host::Host;
use tare_kernel::timestamp::monotonic_ns;
use thiserror::Error;

use crate::perf::{PerfError, PerfEvents, PerfOptions};
use crate::ptrace::PtraceCalls;
use crate::record::TraceRecord;
use crate::record_queue::RecordQueue;
use crate::sums::CallAdder;

/// Why tracing isn't possible.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Neither BPF programs nor perf events work.
    #[error("{bpf}, and by perf events: {perf}")]
    Neither {
        /// Why BPF programs don't.
        bpf: BpfError,
        /// Why perf events don't.
        perf: PerfError,
    },
    /// The events other than calls, or the records of mappings, can't be traced.
    #[error("{0}")]
    Between(#[from] PerfError),
    /// BPF programs for which there is no fallback can't be loaded, or the maps of running ones
    /// can't be read.
    #[error("{0}")]
    Bpf(BpfError),
    /// The kernel refuses a probe.
    #[error("{place}: {why}")]
    Place {
        /// The probe's name.
        place: String,
        /// The kernel's reason, with the remedy if there is one.
        why: String,
    },
    /// A process to follow doesn't exist.
    #[error("there is no process {0}")]
    NoProcess(i32),
}

/// Drawbacks of perf events for a line-by-line trace compared with BPF programs, for the message
/// about the fallback.
const LINES_LACK: &str =
    "with paths and other pointers as addresses, and without the files of descriptors";
/// The same for sums.
const SUMS_LACK: &str = "each call costs more, and a full ring buffer loses records";

/// Returns the fallback for errors that concern this process or kernel rather than the traced
/// target.
pub(crate) fn step_back(error: BpfError, limits: &'static str) -> Result<PerfFallback, TraceError> {
    match error {
        BpfError::NoProcess(pid) => Err(TraceError::NoProcess(pid)),
        cause => Ok(PerfFallback { cause, limits }),
    }
}

/// Returns the error for when the fallback doesn't work either.
pub(crate) fn neither(step: PerfFallback, perf: PerfError) -> TraceError {
    match perf {
        PerfError::NoProcess(pid) => TraceError::NoProcess(pid),
        perf => TraceError::Neither { bpf: step.cause, perf },
    }
}

/// Traces calls as they happen.
#[derive(Debug)]
pub struct Tracer {
    source: CallSource,
    missed: MissedRecords,
}

/// Accounts for lost records: those that the programs counted, and those that records or lines have
/// stated.
#[derive(Clone, Copy, Debug, Default)]
struct MissedRecords {
    stated: u64,
    /// Part of `stated` that no record has stated yet: its task may still do so.
    ahead: u64,
}

impl MissedRecords {
    /// Returns how many of the records that a task misses since its last one aren't stated yet.
    fn state(&mut self, missed: u32) -> u32 {
        let missed = u64::from(missed);
        let known = missed.min(self.ahead);
        self.ahead -= known;
        self.stated += missed - known;
        u32::try_from(missed - known).unwrap_or(u32::MAX)
    }

    /// Returns how many of all lost records aren't stated yet, and counts them as stated.
    fn state_rest(&mut self, all: u64) -> u64 {
        let rest = all.saturating_sub(self.stated);
        self.stated += rest;
        self.ahead += rest;
        rest
    }
}

#[derive(Debug)]
enum CallSource {
    /// BPF programs alone.
    Bpf(Box<Calls>),
    /// BPF programs for calls, perf events for other events.
    BpfAndPerf(Box<MergedCalls>),
    /// Perf events for everything.
    Perf(Box<PerfEvents>),
    /// ptrace(2) for calls.
    Ptrace(Box<PtraceCalls>),
}

/// The source that takes the place of BPF programs.
#[derive(Debug)]
pub enum TraceFallback {
    /// Perf events.
    Perf(PerfFallback),
    /// ptrace(2), because this user may use neither BPF programs nor perf events.
    Ptrace(BpfError),
}

impl fmt::Display for TraceFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Perf(perf) => perf.fmt(f),
            Self::Ptrace(cause) => write!(
                f,
                "{}: by ptrace instead, which stops the program at each call and slows it down, and doesn't name the files of descriptors; root, or CAP_BPF with CAP_PERFMON, avoids that",
                cause.first_line()
            ),
        }
    }
}

/// Calls recorded by BPF programs, merged with other events.
#[derive(Debug)]
struct MergedCalls {
    calls: Calls,
    /// Records of `calls` that wait for the events before them.
    queue: RecordQueue,
    between: PerfEvents,
}

impl Tracer {
    /// Starts tracing. If BPF programs can't be loaded, it falls back to perf events, and the
    /// second value says why. `wanted`: what to trace besides calls.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(
        plans: impl Iterator<Item = (Call, CallPlan)>,
        wanted: &PerfOptions,
        follow: &FollowedTasks,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<(Self, Option<TraceFallback>), TraceError> {
        let plans: Vec<_> = plans.collect();
        let between = wanted.has_any().then(|| PerfEvents::start(wanted, follow, ring_bytes, host));
        let between = between.transpose()?;
        let error = match (Calls::start(plans.iter().copied(), follow, ring_bytes), between) {
            (Ok(calls), None) => return Ok((Self::new(CallSource::Bpf(Box::new(calls))), None)),
            (Ok(calls), Some(between)) => {
                let merged = MergedCalls { calls, queue: RecordQueue::default(), between };
                return Ok((Self::new(CallSource::BpfAndPerf(Box::new(merged))), None));
            }
            (Err(error), between) => {
                // Close these events before others are opened: one ring buffer per CPU is enough.
                drop(between);
                error
            }
        };
        let step = step_back(error, LINES_LACK)?;
        let wanted = PerfOptions { calls: true, ..wanted.clone() };
        match PerfEvents::start(&wanted, follow, ring_bytes, host) {
            Ok(perf) => {
                let source = CallSource::Perf(Box::new(perf));
                Ok((Self::new(source), Some(TraceFallback::Perf(step))))
            }
            Err(perf) => {
                let (ptrace, step) = start_ptrace(plans.into_iter().collect(), follow, step, perf)?;
                Ok((Self::new(CallSource::Ptrace(Box::new(ptrace))), Some(step)))
            }
        }
    }

    fn new(source: CallSource) -> Self {
        Self { source, missed: MissedRecords::default() }
    }

    /// Returns descriptors that become readable when many records wait.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (own, perf) = match &self.source {
            CallSource::Bpf(calls) => (Some(calls.file()), None),
            CallSource::BpfAndPerf(merged) => (Some(merged.calls.file()), Some(&merged.between)),
            CallSource::Perf(perf) => (None, Some(&**perf)),
            CallSource::Ptrace(calls) => (Some(calls.file()), None),
        };
        own.into_iter().chain(perf.into_iter().flat_map(PerfEvents::files))
    }

    /// Calls `each` with pending records, in time order if perf events are open. `is_over` ends the
    /// trace and hands over all that are left.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { source, missed } = self;
        match source {
            CallSource::Bpf(calls) => {
                hand_over_earlier(calls, &mut each)?;
                if is_over {
                    calls.stop();
                }
                // Read first: records that are drained may state what is lost up to now.
                let lost = calls.missing().unwrap_or_default();
                let is_empty = calls.drain(|bytes| match CallRecord::parse(bytes) {
                    Some(record) => {
                        let missed = missed.state(record.missed);
                        let record = CallRecord { missed, ..record };
                        each(TraceRecord::Task { record, cgroup: 0 })
                    }
                    None => Ok(()),
                })?;
                state_rest(is_empty, lost, missed, each)
            }
            CallSource::BpfAndPerf(merged) => merged.drain(is_over, missed, each),
            CallSource::Perf(perf) => {
                if is_over {
                    perf.stop();
                }
                perf.drain(is_over, each)
            }
            CallSource::Ptrace(calls) => calls.drain(each),
        }
    }

    /// Number of lost records.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn missing(&self) -> Result<u64, TraceError> {
        match &self.source {
            CallSource::Bpf(calls) => calls.missing().map_err(TraceError::Bpf),
            CallSource::BpfAndPerf(merged) => {
                let calls = merged.calls.missing().map_err(TraceError::Bpf)?;
                Ok(calls + merged.between.missing())
            }
            CallSource::Perf(perf) => Ok(perf.missing()),
            CallSource::Ptrace(calls) => Ok(calls.missing()),
        }
    }
}

/// Traces by ptrace(2), after BPF programs and perf events have failed.
fn start_ptrace(
    plans: HashMap<Call, CallPlan>,
    follow: &FollowedTasks,
    step: PerfFallback,
    perf: PerfError,
) -> Result<(PtraceCalls, TraceFallback), TraceError> {
    if let PerfError::NoProcess(_) = perf {
        return Err(neither(step, perf));
    }
    match PtraceCalls::start(plans, follow) {
        Ok(calls) => Ok((calls, TraceFallback::Ptrace(step.cause))),
        Err(_) => Err(neither(step, perf)),
    }
}

/// Hands over the calls that were in progress when the programs were attached.
fn hand_over_earlier<E>(
    calls: &mut Calls,
    each: &mut impl FnMut(TraceRecord<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for (earlier, memory) in calls.take_begun_before() {
        let event = TaskEvent::Enter {
            call: earlier.call,
            values: earlier.values,
            memory: &memory,
            beginning: CallBeginning::BeforeTrace,
        };
        let CallInProgress { tid, process, .. } = earlier;
        let record = CallRecord { time_ns: monotonic_ns(), tid, process, missed: 0, event };
        each(TraceRecord::Task { record, cgroup: 0 })?;
    }
    Ok(())
}

impl MergedCalls {
    fn drain<E>(
        &mut self,
        is_over: bool,
        missed: &mut MissedRecords,
        mut each: impl FnMut(TraceRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { calls, queue, between } = self;
        hand_over_earlier(calls, &mut each)?;
        if is_over {
            between.stop();
            calls.stop();
        }
        let lost = calls.missing().unwrap_or_default();
        let is_empty = calls.drain(|bytes| {
            if let Some(time_ns) = CallRecord::time_ns(bytes) {
                queue.push(time_ns, bytes);
            }
            Ok(())
        })?;
        let complete_ns = between.collect(is_over);
        while let Some((time_ns, bytes)) = queue.pop_before(complete_ns) {
            between.hand_over_until(time_ns, &mut each)?;
            let Some(record) = CallRecord::parse(bytes) else { continue };
            let record = CallRecord { missed: missed.state(record.missed), ..record };
            if let TaskEvent::Enter { call, .. } = record.event {
                between.begin_call(record.tid, call);
            }
            each(TraceRecord::Task { record, cgroup: 0 })?;
        }
        between.hand_over_until(u64::MAX, &mut each)?;
        state_rest(is_empty && queue.is_empty(), lost, missed, each)
    }
}

/// Hands over the number of lost records that no record states, because their task wrote none since
/// or has exited. `is_read`: all records that were written before `lost` was read are handed over.
fn state_rest<E>(
    is_read: bool,
    lost: u64,
    missed: &mut MissedRecords,
    mut each: impl FnMut(TraceRecord<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let rest = if is_read { missed.state_rest(lost) } else { 0 };
    if rest > 0 { each(TraceRecord::Missing(rest)) } else { Ok(()) }
}

/// Returns an empty plan for every call.
fn every_call() -> HashMap<Call, CallPlan> {
    let numbers = 0..=Call::BEYOND;
    let calls = numbers.flat_map(|number| [false, true].map(|compat| Call { number, compat }));
    calls.map(|call| (call, CallPlan::default())).collect()
}

/// Sums of calls, made in the kernel if BPF is available.
#[derive(Debug)]
pub struct SumTracer(SumSource);

#[derive(Debug)]
enum SumSource {
    Bpf(Box<CallSummary>),
    Perf(Box<PerfEvents>, Box<CallAdder>),
    Ptrace(Box<PtraceCalls>, Box<CallAdder>),
}

impl SumTracer {
    /// Starts summing; see [`Tracer::start`].
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(
        by: SumKey,
        follow: &FollowedTasks,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<(Self, Option<TraceFallback>), TraceError> {
        match CallSummary::start(by, follow) {
            Ok(programs) => Ok((Self(SumSource::Bpf(Box::new(programs))), None)),
            Err(error) => {
                let step = step_back(error, SUMS_LACK)?;
                let wanted = PerfOptions {
                    calls: true,
                    cgroups: by == SumKey::Cgroup,
                    ..PerfOptions::default()
                };
                match PerfEvents::start(&wanted, follow, ring_bytes, host) {
                    Ok(perf) => {
                        let adder = Box::new(CallAdder::new(by));
                        let source = SumSource::Perf(Box::new(perf), adder);
                        Ok((Self(source), Some(TraceFallback::Perf(step))))
                    }
                    Err(perf) if by == SumKey::Cgroup => Err(neither(step, perf)),
                    Err(perf) => {
                        let (calls, step) = start_ptrace(every_call(), follow, step, perf)?;
                        let adder = Box::new(CallAdder::new(by));
                        Ok((Self(SumSource::Ptrace(Box::new(calls), adder)), Some(step)))
                    }
                }
            }
        }
    }

    /// Returns descriptors that become readable when many records wait; none if the kernel makes
    /// the sums.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (perf, ptrace) = match &self.0 {
            SumSource::Bpf(_) => (None, None),
            SumSource::Perf(perf, _) => (Some(perf), None),
            SumSource::Ptrace(calls, _) => (None, Some(calls.file())),
        };
        perf.into_iter().flat_map(|perf| perf.files()).chain(ptrace)
    }

    /// Adds the records so far; `is_over` ends the trace.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the calls in progress at the end can't be listed.
    pub fn drain(&mut self, is_over: bool) -> Result<(), TraceError> {
        match &mut self.0 {
            SumSource::Bpf(programs) => {
                if is_over {
                    programs.stop().map_err(TraceError::Bpf)?;
                }
            }
            SumSource::Perf(perf, adder) => {
                if is_over {
                    perf.stop();
                }
                let Ok(()) = perf.drain(is_over, |record| {
                    adder.add(&record);
                    Ok::<_, Infallible>(())
                });
            }
            SumSource::Ptrace(calls, adder) => {
                let Ok(()) = calls.drain(|record| {
                    adder.add(&record);
                    Ok::<_, Infallible>(())
                });
            }
        }
        Ok(())
    }

    /// Reads the sums since the start; those from perf events begin anew after each call.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn read(&mut self) -> Result<Sums, TraceError> {
        match &mut self.0 {
            SumSource::Bpf(programs) => programs.read().map_err(TraceError::Bpf),
            SumSource::Perf(_, adder) => Ok(adder.take_sums()),
            SumSource::Ptrace(calls, adder) => {
                let sums = adder.take_sums();
                Ok(Sums { missing_calls: sums.missing_calls + calls.missing(), ..sums })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_records_are_stated_once() {
        let mut missed = MissedRecords::default();
        assert_eq!(missed.state(3), 3);
        // Five are lost by now, two of them by a task that wrote no record since.
        assert_eq!(missed.state_rest(5), 2);
        assert_eq!(missed.state_rest(5), 0);
        // The task's next record says so, and that it lost another one.
        assert_eq!(missed.state(3), 1);
        assert_eq!(missed.state_rest(6), 0);
        assert_eq!(missed.stated, 6);
    }
}
