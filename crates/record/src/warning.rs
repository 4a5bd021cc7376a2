//! What a caller is to be told that is no error: values, for the caller to word.

use std::path::PathBuf;

use tare_format::ledger::Ledger;

/// Something that was done in another way than was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// This machine has no CPU PMU: `cpu-clock`, a timer, takes the place of `cycles`.
    TimerInsteadOfCycles,
    /// The kernel allows no more than `limit` samples a second (`kernel.perf_event_max_sample_rate`).
    LowerRate {
        /// What was asked for.
        asked_hz: u64,
        /// What the kernel allows.
        limit_hz: u64,
    },
    /// This kernel lacks a feature that a recording can do without.
    KernelLacks(Feature),
    /// The events of a weak group don't fit together: each is on its own.
    WeakGroupSplit {
        /// The event that led the group.
        leader: String,
    },
    /// This user may not sample the kernel: events are restricted to user space.
    UserSpaceOnly {
        /// `kernel.perf_event_paranoid`, where it can be read.
        paranoid: Option<i64>,
    },
    /// Ring buffers came out smaller than was asked for, or than they could be.
    SmallRings {
        /// Bytes of the smallest.
        bytes: u64,
        /// What was wanted.
        wanted_bytes: u64,
        /// What stood in the way.
        limit: RingLimit,
    },
    /// BPF programs can't be had, and perf events record system calls in their place.
    CallsByEvents {
        /// Why.
        why: String,
    },
    /// BPF programs can't be loaded, and perf events take their place: why, and what these cost and
    /// lack.
    StepBack(String),
    /// Running processes can't be described: the recording goes on in the same file.
    NotSwitched {
        /// Why.
        reason: String,
    },
}

/// A feature of newer kernels that a recording can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// User call chains that come later (Linux 6.19): they are in the samples.
    DeferredCallchains,
    /// Groups that are read with each sample, in children (Linux 6.12): what the first thread
    /// starts is not recorded.
    GroupReadsInChildren,
    /// `PERF_FORMAT_LOST` (Linux 6.0): losses are known by ring buffer, not by event.
    LostByEvent,
    /// Build ids in records of mappings (Linux 5.12): they are read from the files at the end.
    BuildIdsInMappings,
    /// `PERF_SAMPLE_WEIGHT_STRUCT` (Linux 5.12): a sample has one weight.
    WeightStruct,
    /// The short form of branch records (Linux 5.7 and 4.4).
    TerseBranches,
    /// `PERF_SAMPLE_CGROUP` (Linux 5.7).
    Cgroups,
    /// `PERF_RECORD_KSYMBOL` (Linux 5.1): it doesn't tell of code that it makes itself.
    KernelSymbols,
    /// A PMU that tells guests from their host.
    GuestsFromHost,
}

/// A file of a recording that was completed, while the recording goes on in the next one.
#[derive(Clone, Debug)]
pub struct FinishedFile {
    /// The file.
    pub path: PathBuf,
    /// Its ledger.
    pub ledger: Ledger,
}

/// What a caller is to be told while a recording is under way.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Something was done in another way than was asked for.
    Warning(Warning),
    /// A file was completed; the recording goes on in the next one.
    Finished(Box<FinishedFile>),
}

/// What keeps ring buffers small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingLimit {
    /// The memory that this user may lock (`RLIMIT_MEMLOCK`, `kernel.perf_event_mlock_kb`).
    LockedMemory,
    /// The size of this process's address space (`RLIMIT_AS`).
    AddressSpace,
}
