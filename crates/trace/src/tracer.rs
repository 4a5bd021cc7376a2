//! Who sees system calls: BPF programs, or perf events where these can't be had.

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{
    BpfError, Call, CallPlan, Calls, FollowedTasks, PerfFallback, SumKey, Sums,
};
use tare_kernel::host::Host;
use thiserror::Error;

use crate::perf::{PerfError, PerfEvents, PerfOptions, PerfRecord};
use crate::sums::Adder;

/// Why nothing can be traced.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Neither by BPF programs nor by perf events.
    #[error("{bpf}, and by perf events: {perf}")]
    Neither {
        /// Why not by BPF programs.
        bpf: BpfError,
        /// Why not by perf events.
        perf: PerfError,
    },
    /// What stands between calls can't be seen.
    #[error("{0}")]
    Between(#[from] PerfError),
    /// The programs run, and can't be asked.
    #[error("{0}")]
    Bpf(BpfError),
    /// The kernel takes no probe at a place.
    #[error("{place}: {why}")]
    Place {
        /// What it is called.
        place: String,
        /// What the kernel said, and the remedy where there is one.
        why: String,
    },
    /// A process that was to be followed is gone.
    #[error("there is no process {0}")]
    NoProcess(i32),
}

const LINES_LACK: &str = "without what pointers and descriptors lead to (paths are addresses)";
const SUMS_LACK: &str = "each call costs more, and a full ring buffer loses some";

/// Whether an error is about this process and this kernel, and not about what is to be traced.
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

/// What happens is seen as it happens.
#[derive(Debug)]
pub struct Tracer {
    calls: Option<Calls>,
    perf: Option<PerfEvents>,
}

impl Tracer {
    /// Begins. Where BPF programs can't be loaded, perf events show the calls, and the second part
    /// says why. `wanted` is what is shown beside calls.
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
                // Events of before are closed first: one ring buffer for each CPU is enough.
                drop(perf);
                let wanted = PerfOptions { calls: true, ..wanted.clone() };
                match PerfEvents::start(&wanted, follow, ring_bytes, host) {
                    Ok(perf) => Ok((Self { calls: None, perf: Some(perf) }, Some(step))),
                    Err(perf) => Err(neither(step, perf)),
                }
            }
        }
    }

    /// What becomes readable when much waits to be read.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let perf = self.perf.iter().flat_map(PerfEvents::files);
        self.calls.iter().map(Calls::file).chain(perf)
    }

    /// Hands over what has happened. With `is_over` the tracing ends, and all that is left comes.
    ///
    /// # Errors
    /// The first of `each`.
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
                // Once the programs are gone, what they wrote has an end.
                if found == 0 || !is_over {
                    break;
                }
            }
        }
        self.perf.as_mut().map_or(Ok(()), |perf| perf.drain(is_over, each))
    }

    /// How many records found no room.
    ///
    /// # Errors
    /// [`TraceError::Bpf`].
    pub fn missing(&self) -> Result<u64, TraceError> {
        let calls = self.calls.as_ref().map_or(Ok(0), Calls::missing).map_err(TraceError::Bpf)?;
        Ok(calls + self.perf.as_ref().map_or(0, PerfEvents::missing))
    }
}

/// Sums of calls, made in the kernel where BPF programs can be had.
#[derive(Debug)]
pub struct SumTracer(SumSource);

#[derive(Debug)]
enum SumSource {
    Bpf(Box<tare_kernel::bpf::CallSummary>),
    Perf(Box<PerfEvents>, Box<Adder>),
}

impl SumTracer {
    /// Begins; see [`Tracer::start`].
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

    /// What becomes readable when much waits to be read; nothing where the kernel makes the sums.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let perf = match &self.0 {
            SumSource::Bpf(_) => None,
            SumSource::Perf(perf, _) => Some(perf),
        };
        perf.into_iter().flat_map(|perf| perf.files())
    }

    /// Adds up what has happened; with `is_over` nothing more happens.
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

    /// The sums.
    ///
    /// # Errors
    /// [`TraceError::Bpf`].
    pub fn read(&mut self) -> Result<Sums, TraceError> {
        match &mut self.0 {
            SumSource::Bpf(programs) => programs.read().map_err(TraceError::Bpf),
            SumSource::Perf(_, adder) => Ok(adder.finish()),
        }
    }
}
