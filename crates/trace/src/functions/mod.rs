//! Calls of functions, traced by BPF programs on probes, with the callers of the slowest.

mod text;

use std::io;
use std::os::fd::BorrowedFd;

use tare_format::printable;
use tare_kernel::bpf::FollowedTasks;
use tare_kernel::capabilities::missing_capabilities;
use tare_kernel::functions::{
    PlaceSums, ProbeCall, ProbeCost, ProbeLocation, ProbePlan, Probes, ProbesError,
};
use tare_kernel::host::Host;
use tare_symbols::SymbolOptions;

use crate::copied_stacks::CopiedStacks;
use crate::tracer::TraceError;

pub use text::{FunctionCall, FunctionRow, FunctionsSeen};

/// What is reported besides the sums.
#[derive(Clone, Debug)]
pub struct FunctionOptions {
    /// Number of slowest calls per probe.
    pub slowest: u32,
    /// Where to look for symbols of their callers.
    pub symbols: SymbolOptions,
    /// Size of the ring buffer in bytes, a power of two, and maximum size of each CPU's ring buffer
    /// of mapping records.
    pub ring_bytes: u32,
}

/// Explains why the kernel refuses a probe, with the remedy if there is one.
fn explain_refusal(location: &ProbeLocation, error: &io::Error) -> String {
    let is_kernel = matches!(location, ProbeLocation::Kernel { .. });
    let why = match (error.kind(), error.raw_os_error(), is_kernel) {
        // sysfs lists no such PMU.
        (io::ErrorKind::NotFound, None, true) => "this kernel has no kprobes (CONFIG_KPROBES)",
        (io::ErrorKind::NotFound, None, false) => {
            "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"
        }
        (io::ErrorKind::NotFound, _, true) => {
            "the kernel has no such function; /proc/kallsyms lists its functions"
        }
        (io::ErrorKind::InvalidInput, _, true) => "the kernel accepts no probe there",
        (io::ErrorKind::InvalidInput, _, false) => {
            "no instruction that a probe can replace begins there"
        }
        (io::ErrorKind::PermissionDenied, ..) => {
            let remedy = missing_capabilities("CAP_BPF and CAP_PERFMON");
            return format!("not allowed; {remedy} (`tare doctor` shows how)");
        }
        _ => return error.to_string(),
    };
    why.to_owned()
}

/// Attached probes. Dropping it detaches them.
#[derive(Debug)]
pub struct FunctionTracer {
    probes: Probes,
    /// Copied stacks of the slowest calls; `None` with `--slowest 0`, or if no probe is on a
    /// return.
    slowest: Option<CopiedStacks>,
}

impl FunctionTracer {
    /// Attaches the probes.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(
        places: &[ProbePlan],
        options: &FunctionOptions,
        follow: &FollowedTasks,
        host: &Host,
    ) -> Result<Self, TraceError> {
        let with_stacks = options.slowest > 0 && places.iter().any(|place| place.returns);
        let slowest_count = if with_stacks { options.slowest } else { 0 };
        let probes = Probes::start(places, follow, slowest_count, options.ring_bytes, host);
        let probes = probes.map_err(|error| match error {
            ProbesError::Bpf(error) => TraceError::Bpf(error),
            ProbesError::Attach { place, error } => places.get(place).map_or_else(
                || TraceError::Place { place: String::new(), why: error.to_string() },
                |plan| TraceError::Place {
                    place: printable(&plan.name).into_owned(),
                    why: explain_refusal(&plan.location, &error),
                },
            ),
        })?;
        let slowest = with_stacks
            .then(|| CopiedStacks::start(&options.symbols, follow, options.ring_bytes, host))
            .transpose()?;
        Ok(Self { probes, slowest })
    }

    /// Returns descriptors that become readable when one of the slowest calls returns, or when a
    /// ring buffer has many records.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let slowest = self.slowest.iter().flat_map(CopiedStacks::files);
        std::iter::once(self.probes.file()).chain(slowest)
    }

    /// Calls `each` with pending calls, those among the slowest with their callers. `is_over`
    /// detaches the probes and hands over all that are left.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(&ProbeCall<'_>, &[String]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { probes, slowest } = self;
        if is_over {
            probes.stop();
            slowest.iter_mut().for_each(CopiedStacks::stop);
        }
        probes.drain(|bytes| {
            let Some(call) = ProbeCall::parse(bytes) else { return Ok(()) };
            match (&mut *slowest, &call.stack) {
                (Some(slowest), Some(_)) => {
                    // The stack was copied when the function returned.
                    slowest.push(call.time_ns + call.duration_ns, bytes);
                    Ok(())
                }
                _ => each(&call, &[]),
            }
        })?;
        let Some(slowest) = slowest else { return Ok(()) };
        slowest.drain(is_over, |stacks, bytes| {
            let Some(call) = ProbeCall::parse(bytes) else { return Ok(()) };
            let Some(stack) = &call.stack else { return Ok(()) };
            let process = i32::try_from(call.process).unwrap_or(0);
            each(&call, &stacks.callers(process, stack))
        })
    }

    /// Reads the sums of each probe.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn read(&self) -> Result<Vec<PlaceSums>, TraceError> {
        self.probes.read().map_err(TraceError::Bpf)
    }

    /// Number of calls that are in the sums but didn't fit in the ring buffer.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn missing(&self) -> Result<u64, TraceError> {
        self.probes.missing().map_err(TraceError::Bpf)
    }

    /// Measures for some milliseconds what a probe costs per call; empty if that fails. Call it
    /// once, after the trace.
    pub fn cost(&mut self) -> Vec<ProbeCost> {
        self.probes.cost()
    }
}
