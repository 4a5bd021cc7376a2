//! Waits for locks as they happen.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{
    BpfError, FollowedTasks, FutexStack, FutexWait, KernelWait, LockFunction, LockKind, LockSums,
    Locks, PerfFallback, try_load,
};
use tare_kernel::host::Host;
use tare_kernel::timestamp::monotonic_ns;
use tare_symbols::SymbolOptions;

use super::callers::caller;
use super::kernel_names::{KernelName, lock_functions, names};
use super::perf::PerfLocks;
use super::rows::{
    LockKey, LockRow, UnfinishedWaits, WaitInProgress, kernel_row, merged, row_of_one,
    row_without_caller,
};
use crate::copied_stacks::CopiedStacks;
use crate::stacks::UserFrame;
use crate::tracer::{TraceError, neither, step_back};

/// Maximum size in bytes of each CPU's ring buffer: of mapping records, or of lock events if BPF
/// isn't available.
const RING_BYTES: u32 = 1 << 20;
/// The file with the kernel's symbols.
const KALLSYMS: &str = "/proc/kallsyms";

/// What to trace.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Kernel locks.
    pub kernel: bool,
    /// Futexes.
    pub futexes: bool,
    /// Where to look for symbols.
    pub symbols: SymbolOptions,
}

/// Drawbacks of perf events compared with BPF programs, for the message about the fallback.
const LACKS: &str = "without futexes; each wait costs more, and a full ring buffer loses records";

/// Sums of waits, made in the kernel if BPF is available.
#[derive(Debug)]
pub struct LockTracer(LockSource);

#[derive(Debug)]
enum LockSource {
    Bpf(Box<InKernel>),
    Perf(Box<PerfLocks>),
}

/// The sums of the BPF programs.
#[derive(Debug)]
struct InKernel {
    locks: Locks,
    /// Stacks of threads that waited for a futex, if futexes are traced.
    stacks: Option<CopiedStacks>,
    /// Unwound call chains, by their id.
    chains: HashMap<u64, Vec<UserFrame>>,
    /// The waits for futexes in progress at the end of the trace.
    waiting: Vec<WaitInProgress>,
    /// The waits for kernel locks in progress at the end of the trace, with their time so far in
    /// nanoseconds.
    in_kernel: Vec<(KernelWait, u64)>,
}

impl LockTracer {
    /// Starts tracing. If BPF programs can't be loaded, it falls back to perf events on kernel
    /// locks, and the second value says why. There is no fallback for futexes alone.
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

    /// Returns descriptors that become readable when records wait.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (in_kernel, perf) = match &self.0 {
            LockSource::Bpf(in_kernel) => (Some(in_kernel), None),
            LockSource::Perf(perf) => (None, Some(perf)),
        };
        let copies = in_kernel.into_iter().map(|in_kernel| in_kernel.locks.file());
        let stacks = in_kernel.into_iter().flat_map(|in_kernel| &in_kernel.stacks);
        let perf = perf.into_iter().flat_map(|perf| perf.files());
        copies.chain(stacks.flat_map(CopiedStacks::files)).chain(perf)
    }

    /// Adds the records so far; `is_over` ends the trace.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the waits in progress at the end can't be listed.
    pub fn drain(&mut self, is_over: bool) -> Result<(), TraceError> {
        match &mut self.0 {
            LockSource::Bpf(in_kernel) => in_kernel.drain(is_over).map_err(TraceError::Bpf),
            LockSource::Perf(perf) => {
                perf.drain(is_over);
                Ok(())
            }
        }
    }

    /// Returns the waits in progress when the trace ended, the longest first, and how many of the
    /// summed waits began before it.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn unfinished(&self, host: &Host) -> Result<UnfinishedWaits, TraceError> {
        let LockSource::Bpf(all) = &self.0 else { return Ok(UnfinishedWaits::default()) };
        let mut waiting = all.waiting.clone();
        let addresses = all.in_kernel.iter().flat_map(|(wait, _)| wait.frames.iter().copied());
        let names = kernel_names(host, &addresses.collect());
        waiting.extend(all.in_kernel.iter().map(|(wait, ns)| WaitInProgress {
            row: kernel_row(&sums_of_one(wait, *ns), &names),
            tid: wait.tid,
            is_earlier: wait.is_earlier,
        }));
        waiting.sort_by_key(|wait| std::cmp::Reverse(wait.row.total_ns));
        Ok(UnfinishedWaits {
            waiting,
            earlier: all.locks.earlier_waits().map_err(TraceError::Bpf)?,
        })
    }

    /// Reads the sums by caller.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn rows(&self, by: LockKey, host: &Host) -> Result<Vec<LockRow>, TraceError> {
        let no_chains = HashMap::new();
        let (sums, chains) = match &self.0 {
            LockSource::Bpf(all) => (all.locks.read().map_err(TraceError::Bpf)?, &all.chains),
            LockSource::Perf(perf) => (perf.read(), &no_chains),
        };
        let is_kernel = |sums: &&LockSums| matches!(sums.kind, LockKind::Kernel(_));
        let addresses =
            sums.iter().filter(is_kernel).flat_map(|sums| sums.frames.iter().copied()).collect();
        let names = kernel_names(host, &addresses);
        let rows = sums.iter().map(|sums| match sums.kind {
            LockKind::Kernel(_) => kernel_row(sums, &names),
            LockKind::Futex(_) => futex_row(sums, chains.get(&sums.chain)),
        });
        Ok(merged(rows, by))
    }

    /// Number of waits that didn't fit in the tables (with perf events including lost records), and
    /// of copied stacks that didn't fit in the ring buffer.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
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
        // Before the programs, so that the first copied stack already has its mappings.
        let stacks = options
            .futexes
            .then(|| CopiedStacks::start(&options.symbols, follow, RING_BYTES, host))
            .transpose()?;
        let is_command = matches!(follow, FollowedTasks::Command(_));
        // A command waits for nothing before the trace.
        let functions =
            if options.kernel && !is_command { find_lock_functions(host) } else { Vec::new() };
        let locks = Locks::start(follow, options.kernel, options.futexes, &functions);
        Ok(locks.map(|locks| Self {
            locks,
            stacks,
            chains: HashMap::new(),
            waiting: Vec::new(),
            in_kernel: Vec::new(),
        }))
    }

    /// Unwinds the copied stacks whose mappings are known. `is_over` ends the trace.
    fn drain(&mut self, is_over: bool) -> Result<(), BpfError> {
        let Self { locks, stacks, chains, waiting, in_kernel } = self;
        let open = if is_over { locks.waits_in_progress()? } else { Vec::new() };
        if is_over {
            let now_ns = monotonic_ns();
            let kernel = locks.kernel_waits_in_progress()?.into_iter();
            in_kernel.extend(kernel.map(|wait| {
                let ns = now_ns.saturating_sub(wait.start_ns);
                (wait, ns)
            }));
            locks.stop();
            stacks.iter_mut().for_each(CopiedStacks::stop);
        }
        let Some(stacks) = stacks else { return Ok(()) };
        locks.drain(|bytes| {
            if let Some(time_ns) = FutexStack::time_ns(bytes) {
                stacks.push(time_ns, bytes);
            }
        });
        let Ok(()) = stacks.drain(is_over, |stacks, bytes| {
            if let Some(copy) = FutexStack::parse(bytes) {
                chains.insert(copy.chain, stacks.unwind_copy(&copy));
            }
            Ok::<_, Infallible>(())
        });
        for wait in open {
            let copy = FutexStack::parse(&wait.copy);
            let Some((copy, spaces)) = copy.zip(stacks.spaces()) else { continue };
            let frames = spaces.unwind_copy(&copy);
            waiting.push(WaitInProgress {
                row: named(row_of_one("futex", wait_ns(&copy, &wait)), Some(&frames)),
                tid: wait.tid,
                is_earlier: wait.is_earlier,
            });
        }
        Ok(())
    }
}

/// Returns the kernel functions that contain these addresses. If kallsyms can't be read, callers are
/// printed as addresses.
fn kernel_names(host: &Host, addresses: &BTreeSet<u64>) -> HashMap<u64, KernelName> {
    let kallsyms = if addresses.is_empty() {
        Vec::new()
    } else {
        std::fs::read(host.path(KALLSYMS)).unwrap_or_default()
    };
    names(&kallsyms, addresses)
}

/// Finds the functions that return with a kernel lock. If kallsyms can't be read, waits that began before the trace aren't seen.
fn find_lock_functions(host: &Host) -> Vec<LockFunction> {
    lock_functions(&std::fs::read(host.path(KALLSYMS)).unwrap_or_default())
}

/// Returns the sums of one wait, which has lasted for `ns` nanoseconds.
fn sums_of_one(wait: &KernelWait, ns: u64) -> LockSums {
    LockSums {
        kind: LockKind::Kernel(wait.flags),
        chain: 0,
        frames: wait.frames.clone(),
        waits: 1,
        total_ns: ns,
        max_ns: ns,
    }
}

/// Returns how long a thread has waited so far, in nanoseconds.
fn wait_ns(copy: &FutexStack<'_>, wait: &FutexWait) -> u64 {
    copy.time_ns.saturating_sub(wait.start_ns)
}

fn futex_row(sums: &LockSums, frames: Option<&Vec<UserFrame>>) -> LockRow {
    named(row_without_caller(sums, "futex"), frames)
}

/// Adds the caller to a futex's row.
fn named(row: LockRow, frames: Option<&Vec<UserFrame>>) -> LockRow {
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
