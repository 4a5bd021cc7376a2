//! Waits for locks as they happen, and who waited.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{
    BpfError, FollowedTasks, LockKind, LockSums, Locks, PerfFallback, try_load,
};
use tare_kernel::host::Host;
use tare_symbols::SymbolOptions;

use super::callers::caller;
use super::kernel_names::names;
use super::perf::PerfLocks;
use super::rows::{LockKey, LockRow, merged, of_kernel, row};
use crate::perf::{PerfEvents, PerfOptions, PerfRecord};
use crate::stacks::UserFrame;
use crate::tracer::{TraceError, neither, step_back};

/// How much may wait for tare of what processes map, for each CPU.
const RING_BYTES: u32 = 1 << 20;
/// What the kernel's symbols are read from.
const KALLSYMS: &str = "/proc/kallsyms";

/// What is looked at.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Locks of the kernel.
    pub kernel: bool,
    /// Futexes.
    pub futexes: bool,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
}

const LACKS: &str = "without futexes; each wait costs more, and a full ring buffer loses some";

/// Sums of waits, made in the kernel where BPF programs can be had.
#[derive(Debug)]
pub struct LockTracer(LockSource);

#[derive(Debug)]
enum LockSource {
    Bpf(Box<InKernel>),
    Perf(Box<PerfLocks>),
}

/// Sums of the BPF programs.
#[derive(Debug)]
struct InKernel {
    locks: Locks,
    /// What processes map, where futexes are looked at.
    mappings: Option<PerfEvents>,
    chains: HashMap<u64, Vec<UserFrame>>,
}

impl LockTracer {
    /// Begins. Where BPF programs can't be loaded, perf events show the kernel's locks, and the second
    /// part says why; where only futexes are asked for, nothing does.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(
        follow: &FollowedTasks,
        options: &LockOptions,
        host: &Host,
    ) -> Result<(Self, Option<PerfFallback>), TraceError> {
        let error = match InKernel::start(follow, options, host)? {
            Ok(in_kernel) => return Ok((Self(LockSource::Bpf(Box::new(in_kernel))), None)),
            Err(error) => error,
        };
        if !options.kernel && !matches!(error, BpfError::NoProcess(_)) {
            return Err(TraceError::Bpf(error));
        }
        let step = step_back(error, LACKS)?;
        match PerfLocks::start(follow, RING_BYTES, host) {
            Ok(perf) => Ok((Self(LockSource::Perf(Box::new(perf))), Some(step))),
            Err(perf) => Err(neither(step, perf)),
        }
    }

    /// What becomes readable when something waits to be read.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (copies, mappings, perf) = match &self.0 {
            LockSource::Bpf(all) => (Some(all.locks.file()), all.mappings.as_ref(), None),
            LockSource::Perf(perf) => (None, None, Some(perf.files())),
        };
        let mappings = mappings.into_iter().flat_map(PerfEvents::files);
        copies.into_iter().chain(mappings).chain(perf.into_iter().flatten())
    }

    /// Takes in what has happened. With `is_over` nothing more happens.
    pub fn drain(&mut self, is_over: bool) {
        match &mut self.0 {
            LockSource::Bpf(in_kernel) => in_kernel.drain(is_over),
            LockSource::Perf(perf) => perf.drain(is_over),
        }
    }

    /// The sums by caller.
    ///
    /// # Errors
    /// [`TraceError::Bpf`].
    pub fn rows(&self, by: LockKey, host: &Host) -> Result<Vec<LockRow>, TraceError> {
        let no_chains = HashMap::new();
        let (sums, chains) = match &self.0 {
            LockSource::Bpf(all) => (all.locks.read().map_err(TraceError::Bpf)?, &all.chains),
            LockSource::Perf(perf) => (perf.read(), &no_chains),
        };
        let is_kernels = |sums: &&LockSums| matches!(sums.kind, LockKind::Kernel(_));
        let addresses: BTreeSet<u64> =
            sums.iter().filter(is_kernels).flat_map(|sums| sums.frames.iter().copied()).collect();
        // Where it can't be read, callers are addresses.
        let kallsyms = if addresses.is_empty() {
            Vec::new()
        } else {
            std::fs::read(host.path(KALLSYMS)).unwrap_or_default()
        };
        let names = names(&kallsyms, &addresses);
        let rows = sums.iter().map(|sums| match sums.kind {
            LockKind::Kernel(_) => of_kernel(sums, &names),
            LockKind::Futex(_) => of_futex(sums, chains.get(&sums.chain)),
        });
        Ok(merged(rows, by))
    }

    /// How many waits found no room in the kernel's tables, and how many call chains are unknown for
    /// want of room.
    ///
    /// # Errors
    /// [`TraceError::Bpf`].
    pub fn missing(&self) -> Result<(u64, u64), TraceError> {
        match &self.0 {
            LockSource::Bpf(all) => all.locks.missing().map_err(TraceError::Bpf),
            LockSource::Perf(perf) => Ok((perf.missing(), 0)),
        }
    }
}

impl InKernel {
    fn start(
        follow: &FollowedTasks,
        options: &LockOptions,
        host: &Host,
    ) -> Result<Result<Self, BpfError>, TraceError> {
        if let Err(errno) = try_load() {
            return Ok(Err(BpfError::NotPermitted(errno)));
        }
        let wanted = PerfOptions {
            stacks: Some(options.symbols.clone()),
            only_mappings: true,
            ..PerfOptions::default()
        };
        // Before the programs: what is copied first has its mappings then.
        let mappings = options
            .futexes
            .then(|| PerfEvents::start(&wanted, follow, RING_BYTES, host))
            .transpose()?;
        let locks = Locks::start(follow, options.kernel, options.futexes);
        Ok(locks.map(|locks| Self { locks, mappings, chains: HashMap::new() }))
    }

    /// Unwinds what was copied.
    fn drain(&mut self, is_over: bool) {
        let Self { locks, mappings, chains } = self;
        if is_over {
            locks.stop();
            mappings.iter_mut().for_each(PerfEvents::stop);
        }
        let Some(mappings) = mappings else { return };
        locks.drain(|copy, bytes| mappings.push_copy(&copy, bytes));
        let Ok(()) = mappings.drain(is_over, |seen| {
            if let PerfRecord::Copied { chain, frames } = seen {
                chains.insert(chain, frames.to_vec());
            }
            Ok::<_, std::convert::Infallible>(())
        });
    }
}

fn of_futex(sums: &LockSums, frames: Option<&Vec<UserFrame>>) -> LockRow {
    let row = row(sums, "futex");
    let Some(frames) = frames else { return row };
    let name = |frame: &UserFrame| {
        frame.symbol.clone().unwrap_or_else(|| format!("[{:#x}]", frame.address))
    };
    let caller = caller(frames);
    LockRow {
        caller: caller.map_or(row.caller, name),
        file: caller.map(|frame| frame.file.clone()),
        stack: frames.iter().map(name).collect(),
        ..row
    }
}
