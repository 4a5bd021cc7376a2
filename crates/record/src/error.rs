//! Why something can't be recorded.

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
    /// Which CPUs are online can't be read.
    #[error("cannot read which CPUs are online: {0}")]
    OnlineCpus(io::Error),
    /// What sysfs says of the CPU's PMUs can't be understood.
    #[error(transparent)]
    DefaultEvent(#[from] EventError),
    /// An event has a term that a recording has no use for.
    #[error("{event}: {term}")]
    Unsupported {
        /// The event.
        event: String,
        /// The term.
        term: UnsupportedTerm,
    },
    /// This way of following a command can't be had.
    #[error("the command can't be followed in this way: {reason}")]
    Follow {
        /// The way that was asked for.
        follow: Follow,
        /// What stands in its way.
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
    /// There are several cgroups, and another number of groups of events.
    #[error("{cgroups} cgroups for {events} events: give one for all, or one for each event")]
    CgroupsOfEvents {
        /// How many cgroups.
        cgroups: usize,
        /// How many groups of events.
        events: usize,
    },
    /// Call chains from copies of the stack need registers, which are not known on this processor.
    #[error("call chains by DWARF are not supported on this processor")]
    NoDwarf,
    /// Call chains from last branch records need those that other branches fill.
    #[error(
        "{event}: call chains from last branch records and sampled branches need the same records"
    )]
    BranchesTwice {
        /// The event.
        event: String,
    },
    /// `kernel.perf_event_max_sample_rate` can't be read.
    #[error("kernel.perf_event_max_sample_rate can't be read")]
    NoMaxRate,
    /// So many samples a second are not allowed.
    #[error(
        "{asked_hz} samples a second are not allowed: kernel.perf_event_max_sample_rate is {limit_hz}"
    )]
    RateNotAllowed {
        /// What was asked for.
        asked_hz: u64,
        /// What the kernel allows.
        limit_hz: u64,
    },
    /// A budget is for events of whole CPUs and cgroups.
    #[error("a budget is for events of whole CPUs and cgroups, and these are of tasks")]
    BudgetOfTasks,
    /// A budget changes rates, and this event has a period.
    #[error("{event}: a budget changes rates, and this one has a period")]
    BudgetOfPeriod {
        /// The event.
        event: String,
    },
    /// Nothing is known of what a sample costs, or the event is in a group.
    #[error("{event}: nothing is known of what a sample costs, or it is in a group")]
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
    /// The kernel takes the event only without something.
    #[error("cannot record '{event}': {reason}")]
    NotTaken {
        /// The event.
        event: String,
        /// Why not.
        reason: NotTaken,
    },
    /// The kernel's rules forbid it.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why the tasks of a command are not followed in a way that sees more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotFollowed {
    /// An option is for events that are inherited.
    #[error("{0} asks for it")]
    OptionNeedsInherit(InheritOption),
    /// Events on whole CPUs are not allowed.
    #[error(
        "events on whole CPUs are not allowed ({0}; CAP_PERFMON or kernel.perf_event_paranoid=0 allows them)"
    )]
    CpusNotAllowed(Errno),
    /// The command can't have a cgroup of its own.
    #[error(transparent)]
    NoCgroup(#[from] TransientError),
    /// No event can be opened on a new cgroup.
    #[error("no event can be opened on a new cgroup ({0})")]
    NoEventOnCgroup(Errno),
}

/// An option that only inherited events fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InheritOption {
    /// Children are not to be recorded.
    #[error("-i")]
    NoInherit,
    /// Exact counts of each thread.
    #[error("-s")]
    CountsOfThreads,
    /// An event says itself whether it is inherited.
    #[error("an event's term inherit or no-inherit")]
    OfEvent,
}

/// Why the kernel doesn't take an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// No branch records of this kind.
    #[error("there are no branch records of this kind here")]
    Branches,
    /// The clock can't be read when this event interrupts.
    #[error("its clock can't be read when this event interrupts")]
    Clock,
    /// The PMU is not that precise.
    #[error("its PMU is not that precise")]
    Precision,
    /// The registers can't be sampled.
    #[error("these registers can't be sampled here")]
    InterruptRegisters,
    /// Page sizes (Linux 5.11).
    #[error("this kernel knows no page sizes of samples (Linux 5.11)")]
    PageSizes,
    /// Physical addresses need CAP_PERFMON.
    #[error("physical addresses are for those with CAP_PERFMON, or CAP_SYS_ADMIN")]
    PhysicalAddresses,
    /// Namespaces need CAP_PERFMON.
    #[error("namespaces are for those with CAP_PERFMON, or CAP_SYS_ADMIN")]
    Namespaces,
    /// The depth of call chains is above `kernel.perf_event_max_stack`.
    #[error("the kernel takes no such depth of call chains (kernel.perf_event_max_stack)")]
    Depth,
    /// It can be counted, and not sampled.
    #[error("it can be counted, but not sampled")]
    OnlyCounted,
    /// It doesn't fit into its group.
    #[error("it doesn't fit into its group")]
    Group,
    /// This machine doesn't have it.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// Another answer of the kernel.
    #[error(transparent)]
    Kernel(Errno),
}

/// Why a recording can't begin, or has to end.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The time that tasks are not on a CPU can't be had.
    #[error("{}", .0.first_line())]
    OffCpu(#[from] BpfError),
    /// System calls can't be had from the programs that were loaded for them.
    #[error("system calls: {0}")]
    Calls(#[source] BpfError),
    /// It can't be had by BPF programs, nor by perf events.
    #[error("{}, and by perf events: {events}", programs.first_line())]
    OffCpuNeither {
        /// Why not by programs.
        programs: BpfError,
        /// Why not by events.
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
    /// A process that isn't there.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// A process can't be waited for.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A cgroup that isn't there.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A cgroup's folder can't be opened.
    #[error("cgroup '{name}': {source}")]
    CgroupFolder {
        /// The cgroup.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The processes of this machine can't be listed.
    #[error("cannot list processes: {0}")]
    Processes(io::Error),
    /// A user without processes.
    #[error("user {0} has no processes")]
    NoProcessesOfUser(u32),
    /// Events can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A filter that the kernel can't take.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// No ring buffer can be mapped.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A thread that reads ring buffers can't be started, or ended by itself.
    #[error("a thread that reads ring buffers can't be started, or is gone: {0}")]
    Thread(io::Error),
    /// This user may not have the priority.
    #[error("this user may not have a realtime priority: {0}")]
    Priority(Errno),
    /// The kernel can't wait for the files.
    #[error("cannot wait for events: {0}")]
    Poll(Errno),
    /// Events can't be enabled, disabled or identified.
    #[error("cannot {doing}: {errno}")]
    Event {
        /// What was to be done.
        doing: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The formats of tracepoints can't be read.
    #[error(transparent)]
    Tracepoint(#[from] TracefsError),
    /// Running processes can't be described.
    #[error("cannot describe what runs already: {0}")]
    Synthesize(io::Error),
    /// The ledger is too long for a note.
    #[error(transparent)]
    Note(#[from] TooLong),
    /// The output takes nothing.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Why the kernel can't take a filter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// It is longer than a page.
    #[error("{event}: the filter has {bytes} bytes, and the kernel takes {longest}: shorten it")]
    TooLong {
        /// The event.
        event: String,
        /// Its length.
        bytes: usize,
        /// What the kernel takes.
        longest: usize,
    },
    /// It holds a NUL.
    #[error("{event}: a filter can't hold a NUL")]
    Nul {
        /// The event.
        event: String,
    },
}
