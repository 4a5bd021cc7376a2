//! Errors of planning, starting and running a recording.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use tare_events::{EventError, OpenError, Unavailable};
use tare_format::file::note::TooLong;
use tare_kernel::bpf::BpfError;
use tare_kernel::cgroup::{CgroupError, TransientError};
use tare_kernel::host::CpuList;
use tare_kernel::ring::RingError;
use tare_kernel::targets::TargetError;
use tare_kernel::tracefs::TracefsError;
use thiserror::Error;

use crate::options::{Follow, UnsupportedTerm};
use crate::output::OutputError;

/// Why a recording can't be planned.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The list of online CPUs can't be read.
    #[error("cannot read which CPUs are online: {0}")]
    OnlineCpus(io::Error),
    /// The default event, or the clock that replaces `cycles`, can't be parsed on this machine.
    #[error(transparent)]
    DefaultEvent(#[from] EventError),
    /// An event has a term that makes no sense in a recording.
    #[error("{event}: {term}")]
    Unsupported {
        /// The event.
        event: String,
        /// The term.
        term: UnsupportedTerm,
    },
    /// The requested way to follow a command isn't possible.
    #[error("the command can't be followed in this way: {reason}")]
    Follow {
        /// The requested way.
        follow: Follow,
        /// The reason.
        reason: NotFollowed,
    },
    /// None of the target's CPUs has the event.
    #[error("{event}: none of the CPUs {cpus} has this event")]
    NoCpu {
        /// The event.
        event: String,
        /// The target's CPUs.
        cpus: CpuList,
    },
    /// The number of cgroups is neither one nor the number of event groups.
    #[error("{cgroups} cgroups for {events} events: give one for all, or one for each event")]
    CgroupsOfEvents {
        /// Number of cgroups.
        cgroups: usize,
        /// Number of event groups.
        events: usize,
    },
    /// Call chains from stack copies need registers, which are unknown on this processor.
    #[error("call chains by DWARF are not supported on this processor")]
    NoDwarf,
    /// Call chains from last branch records and sampled branches need the same records.
    #[error(
        "{event}: call chains from last branch records and sampled branches need the same records"
    )]
    BranchesTwice {
        /// The event.
        event: String,
    },
    /// The highest frequency is requested, but `kernel.perf_event_max_sample_rate` can't be read,
    /// or isn't positive.
    #[error("kernel.perf_event_max_sample_rate can't be read")]
    NoMaxRate,
    /// The frequency is above the kernel's limit, with
    /// [`strict_frequency`](crate::options::Sampling::strict_frequency).
    #[error(
        "{asked_hz} samples a second are not allowed: kernel.perf_event_max_sample_rate is {limit_hz}"
    )]
    RateNotAllowed {
        /// The requested frequency, in Hz.
        asked_hz: u64,
        /// The limit, in Hz.
        limit_hz: u64,
    },
    /// A budget needs events of whole CPUs or cgroups.
    #[error("a budget needs events on whole CPUs or cgroups, not on tasks")]
    BudgetOfTasks,
    /// A budget changes rates, but this event has a fixed period.
    #[error("{event}: a budget changes rates, but this event has a fixed period")]
    BudgetOfPeriod {
        /// The event.
        event: String,
    },
    /// The event is neither a clock nor a hardware event, so that its samples' cost is unknown, or
    /// it is a sampled member of a group other than the leader.
    #[error("{event}: the cost of a sample is unknown, or the event is in a group")]
    BudgetOfUnknown {
        /// The event.
        event: String,
    },
    /// The fields of a tracepoint can't be read.
    #[error("{event}: {source}")]
    Fields {
        /// The event.
        event: String,
        /// Why.
        source: TracefsError,
    },
    /// The kernel rejects the event.
    #[error("cannot record '{event}': {reason}")]
    NotTaken {
        /// The event.
        event: String,
        /// The reason.
        reason: NotTaken,
    },
    /// This user may not open the event.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl PlanError {
    /// Whether a plan without a budget would be possible.
    #[must_use]
    pub fn is_of_budget(&self) -> bool {
        matches!(
            self,
            Self::BudgetOfTasks | Self::BudgetOfPeriod { .. } | Self::BudgetOfUnknown { .. }
        )
    }
}

/// Why a command can't be followed in the requested way, or in a preferred one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotFollowed {
    /// An option needs inherited events.
    #[error("{0} asks for it")]
    OptionNeedsInherit(InheritOption),
    /// No event can be opened on a whole CPU.
    #[error(
        "events on whole CPUs are not allowed ({0}; CAP_PERFMON or kernel.perf_event_paranoid=0 allows them)"
    )]
    CpusNotAllowed(Errno),
    /// No cgroup can be created for the command.
    #[error(transparent)]
    NoCgroup(#[from] TransientError),
    /// No event can be opened on a new cgroup.
    #[error("no event can be opened on a new cgroup ({0})")]
    NoEventOnCgroup(Errno),
}

/// An option that needs inherited events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InheritOption {
    /// Children are not to be recorded.
    #[error("-i")]
    NoInherit,
    /// Exact counts per thread.
    #[error("-s")]
    CountsOfThreads,
    /// An event's own term sets inheritance.
    #[error("an event's term inherit or no-inherit")]
    OfEvent,
}

/// Why the kernel rejects an event: a requested feature, or another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// Branch records of this kind.
    #[error("there are no branch records of this kind here")]
    Branches,
    /// The clock: the event's PMU may interrupt by NMI, where this clock can't be read.
    #[error("its clock can't be read when this event interrupts")]
    Clock,
    /// The PMU doesn't reach the precision.
    #[error("its PMU doesn't support this precision")]
    Precision,
    /// Registers at the interrupt.
    #[error("these registers can't be sampled here")]
    InterruptRegisters,
    /// Page sizes (Linux 5.11).
    #[error("this kernel can't sample page sizes (needs Linux 5.11)")]
    PageSizes,
    /// Physical addresses need CAP_PERFMON, or `kernel.perf_event_paranoid` below 2.
    #[error("physical addresses need CAP_PERFMON or CAP_SYS_ADMIN")]
    PhysicalAddresses,
    /// Namespaces need CAP_PERFMON or CAP_SYS_ADMIN.
    #[error("namespaces need CAP_PERFMON or CAP_SYS_ADMIN")]
    Namespaces,
    /// The depth of call chains is above `kernel.perf_event_max_stack`.
    #[error("the depth of call chains is above kernel.perf_event_max_stack")]
    Depth,
    /// The event can be counted, but not sampled.
    #[error("it can be counted, but not sampled")]
    OnlyCounted,
    /// It doesn't fit into its group.
    #[error("it doesn't fit into its group")]
    Group,
    /// This machine doesn't have the event, or refuses it for a reason of [`Unavailable`].
    #[error(transparent)]
    Unavailable(Unavailable),
    /// Another error of the kernel.
    #[error(transparent)]
    Kernel(Errno),
}

/// Why a recording can't start, or has to end.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Off-CPU time can't be recorded.
    #[error("{}", .0.first_line())]
    OffCpu(#[from] BpfError),
    /// The BPF programs that record system calls failed.
    #[error("system calls: {0}")]
    Calls(#[source] BpfError),
    /// Off-CPU time can be recorded neither by BPF programs nor by perf events.
    #[error("{}, and by perf events: {events}", programs.first_line())]
    OffCpuNeither {
        /// The error of the programs.
        programs: BpfError,
        /// The error of the events.
        events: String,
    },
    /// The folder for binaries can't be used.
    #[error("--keep-binaries: {}: {source} (another folder: --keep-binaries=FOLDER)", folder.display())]
    Keep {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process doesn't exist.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// A process can't be waited for.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The cgroup can't be found.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A cgroup's folder can't be opened.
    #[error("cgroup '{name}': {source}")]
    CgroupFolder {
        /// The cgroup.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The processes of this machine can't be listed.
    #[error("cannot list processes: {0}")]
    Processes(io::Error),
    /// The user has no processes besides this one.
    #[error("user {0} has no processes")]
    NoProcessesOfUser(u32),
    /// An event can't be opened, or the kernel rejects its filter.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A filter is invalid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A ring buffer can't be mapped.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A reader thread can't be started, or has died.
    #[error("a reader thread can't be started, or has died: {0}")]
    Thread(io::Error),
    /// The user may not set the priority.
    #[error("this user may not have a realtime priority: {0}")]
    Priority(Errno),
    /// The kernel can't wait for the descriptors, or accepts no further one.
    #[error("cannot wait for events: {0}")]
    Poll(Errno),
    /// The kernel refuses an operation on an open event.
    #[error("cannot {doing}: {errno}")]
    Event {
        /// The attempted operation.
        doing: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// The formats of tracepoints can't be read.
    #[error(transparent)]
    Tracepoint(#[from] TracefsError),
    /// Running processes can't be described.
    #[error("cannot describe running processes: {0}")]
    Synthesize(io::Error),
    /// A ledger or a change of rates exceeds the size of a note.
    #[error(transparent)]
    Note(#[from] TooLong),
    /// The output fails.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Why a filter is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// With its NUL it is longer than a page.
    #[error("{event}: the filter has {bytes} bytes, and the kernel accepts {longest}: shorten it")]
    TooLong {
        /// The event.
        event: String,
        /// Length in bytes, with the clauses that exclude the recorder's threads.
        bytes: usize,
        /// Limit of the kernel, in bytes.
        longest: usize,
    },
    /// It contains a NUL.
    #[error("{event}: a filter can't hold a NUL")]
    Nul {
        /// The event.
        event: String,
    },
}
