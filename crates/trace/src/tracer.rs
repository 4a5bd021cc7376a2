//! The source of system call records: BPF programs, or perf events if BPF isn't available.

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{
    BpfError, Call, CallPlan, Calls, FollowedTasks, PerfFallback, SumKey, Sums,
};
use tare_kernel::host::Host;
use thiserror::Error;

use crate::perf::{PerfError, PerfEvents, PerfOptions, PerfRecord};
use crate::sums::Adder;

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
    /// What happens between calls can't be traced.
    #[error("{0}")]
    Between(#[from] PerfError),
    /// The BPF programs run but their maps can't be read.
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

const LINES_LACK: &str = "without what pointers and descriptors lead to (paths are addresses)";
const SUMS_LACK: &str = "each call costs more, and a full ring buffer loses some";

/// Returns the fallback for errors that concern this process or kernel rather than the traced
/// target.
pub(crate) fn step_back(error: BpfError, limits: &'static str) -> Result<PerfFallback, TraceError> {
    match error {
        BpfError::NoProcess(pid) => Err(TraceError::NoProcess(pid)),
        cause => Ok(PerfFallback { cause, limits }),
    }
}

pub(crate) fn neither(step: PerfFallback, perf: PerfError) -> TraceError {
    match perf {
        PerfError::NoProcess(pid) => TraceError::NoProcess(pid),
        perf => TraceError::Neither { bpf: step.cause, perf },
    }
}

/// Traces calls as they happen.
#[derive(Debug)]
pub struct Tracer {
    calls: Option<Calls>,
    perf: Option<PerfEvents>,
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
    ) -> Result<(Self, Option<PerfFallback>), TraceError> {
        let between = wanted.has_any().then(|| PerfEvents::start(wanted, follow, ring_bytes, host));
        let perf = between.transpose()?;
        match Calls::start(plans, follow, ring_bytes) {
            Ok(calls) => Ok((Self { calls: Some(calls), perf }, None)),
            Err(error) => {
                let step = step_back(error, LINES_LACK)?;
                // Close the previous events first: one ring buffer per CPU is enough.
                drop(perf);
                let wanted = PerfOptions { calls: true, ..wanted.clone() };
                match PerfEvents::start(&wanted, follow, ring_bytes, host) {
                    Ok(perf) => Ok((Self { calls: None, perf: Some(perf) }, Some(step))),
                    Err(perf) => Err(neither(step, perf)),
                }
            }
        }
    }

    /// Returns descriptors that become readable when much waits to be read.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let perf = self.perf.iter().flat_map(PerfEvents::files);
        self.calls.iter().map(Calls::file).chain(perf)
    }

    /// Calls `each` with the records so far. `is_over` ends the trace and returns all that is left.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(PerfRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if is_over {
            self.perf.iter_mut().for_each(PerfEvents::stop);
            self.calls.iter_mut().for_each(Calls::stop);
        }
        if let Some(calls) = &mut self.calls {
            loop {
                let perf = &mut self.perf;
                let found = calls.drain(|record, bytes| {
                    if let Some(perf) = perf {
                        perf.push_call(&record, bytes);
                        return Ok(());
                    }
                    each(PerfRecord::Record { record, cgroup: 0 })
                })?;
                // Once the programs are detached, the number of records is finite.
                if found == 0 || !is_over {
                    break;
                }
            }
        }
        self.perf.as_mut().map_or(Ok(()), |perf| perf.drain(is_over, each))
    }

    /// Number of lost records.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn missing(&self) -> Result<u64, TraceError> {
        let calls = self.calls.as_ref().map_or(Ok(0), Calls::missing).map_err(TraceError::Bpf)?;
        Ok(calls + self.perf.as_ref().map_or(0, PerfEvents::missing))
    }
}

/// Sums of calls, made in the kernel if BPF is available.
#[derive(Debug)]
pub struct SumTracer(SumSource);

#[derive(Debug)]
enum SumSource {
    Bpf(Box<tare_kernel::bpf::CallSummary>),
    Perf(Box<PerfEvents>, Box<Adder>),
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
    ) -> Result<(Self, Option<PerfFallback>), TraceError> {
        match tare_kernel::bpf::CallSummary::start(by, follow) {
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
                        let how = SumSource::Perf(Box::new(perf), Box::new(Adder::new(by)));
                        Ok((Self(how), Some(step)))
                    }
                    Err(perf) => Err(neither(step, perf)),
                }
            }
        }
    }

    /// Returns descriptors that become readable when much waits to be read; none if the kernel
    /// sums.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let perf = match &self.0 {
            SumSource::Bpf(_) => None,
            SumSource::Perf(perf, _) => Some(perf),
        };
        perf.into_iter().flat_map(|perf| perf.files())
    }

    /// Adds the records so far; `is_over` ends the trace.
    pub fn drain(&mut self, is_over: bool) {
        match &mut self.0 {
            SumSource::Bpf(programs) => {
                if is_over {
                    programs.stop();
                }
            }
            SumSource::Perf(perf, adder) => {
                if is_over {
                    perf.stop();
                }
                let Ok(()) = perf.drain(is_over, |seen| {
                    adder.add(seen);
                    Ok::<_, std::convert::Infallible>(())
                });
            }
        }
    }

    /// Reads the sums.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn read(&mut self) -> Result<Sums, TraceError> {
        match &mut self.0 {
            SumSource::Bpf(programs) => programs.read().map_err(TraceError::Bpf),
            SumSource::Perf(_, adder) => Ok(adder.finish()),
        }
    }
}
