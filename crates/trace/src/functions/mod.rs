//! Calls of functions, seen by BPF programs on these; what the slowest were called from.

mod text;

use std::io;
use std::os::fd::BorrowedFd;

use tare_format::printable;
use tare_kernel::bpf::FollowedTasks;
use tare_kernel::functions::{
    PlaceSums, ProbeCall, ProbeCost, ProbeLocation, ProbePlan, Probes, ProbesError,
};
use tare_kernel::host::Host;
use tare_symbols::SymbolOptions;

use crate::perf::{PerfEvents, PerfOptions, PerfRecord};
use crate::tracer::TraceError;

pub use text::{FunctionCall, FunctionRow, FunctionsSeen};

/// What is told of calls beside their sums.
#[derive(Clone, Debug)]
pub struct FunctionOptions {
    /// How many of the slowest of each place.
    pub slowest: u32,
    /// Where the names of what called these are looked for.
    pub symbols: SymbolOptions,
    /// How much may wait in the kernel, a power of two.
    pub ring_bytes: u32,
}

/// Why the kernel takes no probe at a location: a line that names the remedy where there is one.
fn no_probe(location: &ProbeLocation, error: &io::Error) -> String {
    let of_kernel = matches!(location, ProbeLocation::Kernel { .. });
    let why = match (error.kind(), error.raw_os_error(), of_kernel) {
        // sysfs has no such PMU.
        (io::ErrorKind::NotFound, None, true) => "this kernel has no kprobes (CONFIG_KPROBES)",
        (io::ErrorKind::NotFound, None, false) => {
            "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)"
        }
        (io::ErrorKind::NotFound, _, true) => {
            "the kernel has no such function (/proc/kallsyms lists those that it has)"
        }
        (io::ErrorKind::InvalidInput, _, true) => "the kernel takes no probe there",
        (io::ErrorKind::InvalidInput, _, false) => {
            "no instruction begins there that a probe can stand in for"
        }
        (io::ErrorKind::PermissionDenied, ..) => {
            "not allowed; run tare as root, or with CAP_BPF and CAP_PERFMON (`tare doctor` says how)"
        }
        _ => return error.to_string(),
    };
    why.to_owned()
}

/// Places that are looked at. Dropped, they are not any more.
#[derive(Debug)]
pub struct FunctionTracer {
    probes: Probes,
    /// What is mapped where, which the slowest calls need.
    mappings: Option<PerfEvents>,
}

impl FunctionTracer {
    /// Begins.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(
        places: &[ProbePlan],
        options: &FunctionOptions,
        follow: &FollowedTasks,
        host: &Host,
    ) -> Result<Self, TraceError> {
        let wanted = PerfOptions {
            stacks: Some(options.symbols.clone()),
            only_mappings: true,
            ..PerfOptions::default()
        };
        let with_stacks = options.slowest > 0 && places.iter().any(|place| place.returns);
        let slowest = if with_stacks { options.slowest } else { 0 };
        let probes = Probes::start(places, follow, slowest, options.ring_bytes, host);
        let probes = probes.map_err(|error| match error {
            ProbesError::Bpf(error) => TraceError::Bpf(error),
            ProbesError::Attach { place, error } => places.get(place).map_or_else(
                || TraceError::Place { place: String::new(), why: error.to_string() },
                |plan| TraceError::Place {
                    place: printable(&plan.name).into_owned(),
                    why: no_probe(&plan.location, &error),
                },
            ),
        })?;
        let mappings = with_stacks
            .then(|| PerfEvents::start(&wanted, follow, options.ring_bytes, host))
            .transpose()?;
        Ok(Self { probes, mappings })
    }

    /// What becomes readable when one of the slowest calls has returned, or much waits to be read.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.probes.file()).chain(self.mappings.iter().flat_map(PerfEvents::files))
    }

    /// Hands over calls with what they were called from: all that is left with `is_over`, when
    /// the looking ends.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(&ProbeCall<'_>, &[String]) -> Result<(), E>,
    ) -> Result<(), E> {
        if is_over {
            self.probes.stop();
            self.mappings.iter_mut().for_each(PerfEvents::stop);
        }
        let Self { probes, mappings } = self;
        loop {
            let found = probes.drain(|bytes| {
                let Some(call) = ProbeCall::parse(bytes) else { return Ok(()) };
                match (&mut *mappings, &call.stack) {
                    (Some(mappings), Some(_)) => {
                        mappings.push_function(&call, bytes);
                        Ok(())
                    }
                    _ => each(&call, &[]),
                }
            })?;
            if found == 0 || !is_over {
                break;
            }
        }
        let Some(mappings) = mappings else { return Ok(()) };
        mappings.drain(is_over, |seen| match seen {
            PerfRecord::Function { call, frames } => each(&call, frames),
            _ => Ok(()),
        })
    }

    /// The sums of each place.
    ///
    /// # Errors
    /// [`TraceError::Bpf`].
    pub fn read(&self) -> Result<Vec<PlaceSums>, TraceError> {
        self.probes.read().map_err(TraceError::Bpf)
    }

    /// How many calls found no room in the ring buffer; they are in the sums.
    ///
    /// # Errors
    /// [`TraceError::Bpf`].
    pub fn missing(&self) -> Result<u64, TraceError> {
        self.probes.missing().map_err(TraceError::Bpf)
    }

    /// What a call costs that is looked at, by some milliseconds of measuring. To be asked when all
    /// is over.
    pub fn cost(&mut self) -> Option<ProbeCost> {
        self.probes.cost()
    }
}
