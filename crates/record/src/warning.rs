//! Warnings and notices of a recording, as values for the caller to phrase.

use std::path::PathBuf;

use tare_format::ledger::Ledger;

/// A deviation from the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// This machine has no CPU PMU, or its PMU doesn't count cycles: `cpu-clock`, a timer, replaces
    /// `cycles`.
    TimerInsteadOfCycles,
    /// The frequency was lowered to the kernel's limit (`kernel.perf_event_max_sample_rate`).
    LowerRate {
        /// The requested frequency, in Hz.
        asked_hz: u64,
        /// The limit, in Hz.
        limit_hz: u64,
    },
    /// Threads that start during the recording aren't recorded by this event.
    FirstThreadsOnly {
        /// The event, a probe of a user-space function.
        event: String,
    },
    /// The kernel lacks an optional feature.
    KernelLacks(Feature),
    /// The events of a weak group don't fit together: each is opened on its own.
    WeakGroupSplit {
        /// The leader of the group.
        leader: String,
    },
    /// This user may not sample the kernel: events are restricted to user space.
    UserSpaceOnly {
        /// `kernel.perf_event_paranoid`, if it can be read.
        paranoid: Option<i64>,
    },
    /// Ring buffers are smaller than requested, or than the default.
    SmallRings {
        /// Bytes of the smallest ring buffer.
        bytes: u64,
        /// The intended size, in bytes.
        wanted_bytes: u64,
        /// Bytes of the largest copy of a stack to unwind that fits, if it is smaller than usual.
        copied_bytes: Option<u32>,
        /// The limit that kept them small.
        limit: RingLimit,
    },
    /// BPF programs can't be loaded, so perf events record system calls.
    CallsByEvents {
        /// The reason.
        why: String,
    },
    /// BPF programs can't be loaded, so perf events record waits: the reason, and the cost and gaps
    /// of events.
    StepBack(String),
    /// The next file of a series couldn't begin, so the recording continues in the same one; or it
    /// began, and lacks stacks that waits refer to.
    NotSwitched {
        /// The reason.
        reason: String,
    },
}

/// An optional feature of newer kernels, or of a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Deferred user call chains (Linux 6.19). Without them the chains are in the samples.
    DeferredCallchains,
    /// Group reads in the samples of children (Linux 6.12). Without them, the group's events aren't
    /// inherited: tasks that recorded threads start are missing.
    GroupReadsInChildren,
    /// `PERF_FORMAT_LOST` (Linux 6.0). Without it, losses are known by ring buffer, not by event.
    LostByEvent,
    /// Build ids in records of mappings (Linux 5.12). Without them, they are read from the files at
    /// the end.
    BuildIdsInMappings,
    /// `PERF_SAMPLE_WEIGHT_STRUCT` (Linux 5.12). Without it a sample has a single weight.
    WeightStruct,
    /// The short form of branch records (Linux 5.7 and 4.4).
    TerseBranches,
    /// `PERF_SAMPLE_CGROUP` (Linux 5.7).
    Cgroups,
    /// `PERF_RECORD_KSYMBOL` (Linux 5.1). Without it, code that the kernel generates has no
    /// symbols.
    KernelSymbols,
    /// A PMU that distinguishes guests from their host.
    GuestsFromHost,
}

/// A completed file of a recording that continues in the next one.
#[derive(Clone, Debug)]
pub struct FinishedFile {
    /// The file.
    pub path: PathBuf,
    /// Its ledger.
    pub ledger: Ledger,
}

/// A notice for the caller during a recording.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A deviation from the options.
    Warning(Warning),
    /// A file was completed; the recording continues in the next one.
    Finished(Box<FinishedFile>),
}

/// The limit that keeps ring buffers small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingLimit {
    /// The limit on locked memory (`RLIMIT_MEMLOCK`, `kernel.perf_event_mlock_kb`).
    LockedMemory,
    /// The limit on this process's address space (`RLIMIT_AS`).
    AddressSpace,
}
