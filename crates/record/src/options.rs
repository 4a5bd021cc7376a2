//! Options of a recorder.

use std::path::PathBuf;
use std::time::Duration;

use tare_events::{CallGraph, Event, EventGroup};
use tare_format::abi::Flags;
use tare_kernel::host::CpuList;
use thiserror::Error;

/// Options of a recorder: the events, the tasks or CPUs to record, and how.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The events. If empty: `cycles`, or `cpu-clock` on a machine without a PMU.
    pub groups: Vec<EventGroup>,
    /// How events are sampled, and which other records are written.
    pub sampling: Sampling,
    /// The tasks or CPUs to record.
    pub target: Target,
    /// How the tasks that a command starts are followed, for [`Target::Command`].
    pub follow: Follow,
    /// Whether children and new threads are recorded, unless an event's own term says otherwise.
    pub inherit: bool,
    /// When recording begins.
    pub begin: Begin,
    /// Whether the caller may disable and enable events during the recording.
    pub may_pause: bool,
    /// The ring buffers.
    pub rings: Rings,
    /// Whether to write the table of build ids.
    pub build_ids: bool,
    /// Folder in which to keep the binaries that samples can lie in, in the layout of perf's
    /// build-id cache; `None`: they are not kept.
    pub keep_binaries: Option<PathBuf>,
    /// Which running processes' properties are described.
    pub synthesize: Synthesize,
    /// Whether the recorder's own threads are recorded too.
    pub include_self: bool,
    /// Number of threads that read ring buffers, including the caller's; `None`: one per 32 CPUs.
    pub readers: Option<usize>,
    /// The SCHED_FIFO priority of the additional reader threads.
    pub realtime_priority: Option<u32>,
    /// Records off-CPU time too, with these options.
    pub off_cpu: Option<OffCpu>,
    /// Records `raw_syscalls:sys_enter` and `sys_exit` with BPF programs, at a third of the cost of
    /// perf events per call. They are then the only events. If the programs can be loaded,
    /// recording begins at once and can't be paused, and times are in `CLOCK_MONOTONIC`.
    pub calls_by_programs: bool,
    /// The program that records, as the recording names it.
    pub program: RecorderProgram,
}

/// Which waits are recorded as off-CPU time. They have call chains if other events do: by DWARF,
/// unless frame pointers are requested ([`Sampling::call_graph`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Shortest wait that is recorded.
    pub min: Duration,
    /// Waits of at least this length become samples of their own.
    pub long: Option<Duration>,
    /// Whether to record the wakers of waiting tasks, with call chains.
    pub wakers: bool,
    /// Whether call chains come from frame pointers, instead of stack copies.
    pub frame_pointers: bool,
}

impl Default for RecorderOptions {
    /// The default event of all CPUs, at 999 Hz. The caller chooses target and CPUs.
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            sampling: Sampling::default(),
            target: Target::Command(Cpus::All),
            follow: Follow::Auto,
            inherit: true,
            begin: Begin::AtOnce,
            may_pause: false,
            rings: Rings::default(),
            build_ids: true,
            keep_binaries: None,
            synthesize: Synthesize::default(),
            include_self: false,
            readers: None,
            realtime_priority: None,
            off_cpu: None,
            calls_by_programs: false,
            program: RecorderProgram::default(),
        }
    }
}

/// The program that records, as the recording's description names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderProgram {
    /// Its version.
    pub version: String,
    /// Its command line, beginning with its name.
    pub command_line: Vec<String>,
}

/// When recording begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At once; events of a command begin with its execve.
    AtOnce,
    /// After this delay.
    After(Duration),
    /// When the caller enables the events.
    OnRequest,
}

/// The tasks or CPUs to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The command and the tasks that it starts.
    Command(Cpus),
    /// The same, with events on whole CPUs. Samples of other tasks are dropped when the recording
    /// is read.
    CommandOnCpus(CpuList),
    /// The same, with events on the command's own cgroup, on these CPUs.
    CommandInCgroup(CpuList),
    /// All threads of these processes.
    Processes(Vec<i32>, Cpus),
    /// These threads.
    Threads(Vec<i32>, Cpus),
    /// The running processes of this user.
    User(u32, Cpus),
    /// Everything on these CPUs.
    Cpus(CpuList),
    /// The tasks of cgroups, on these CPUs.
    Cgroups {
        /// One name for all events, or one per event in turn.
        names: Vec<String>,
        /// The CPUs.
        cpus: CpuList,
    },
}

impl Target {
    /// Whether whole CPUs are recorded, which needs more privileges than recording one's own tasks.
    #[must_use]
    pub fn is_per_cpu(&self) -> bool {
        matches!(
            self,
            Self::Cpus(_)
                | Self::Cgroups { .. }
                | Self::CommandOnCpus(_)
                | Self::CommandInCgroup(_)
        )
    }
}

/// The CPUs on which tasks are recorded: each of their events is opened on each of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// All CPUs.
    All,
    /// Only these CPUs.
    These(CpuList),
}

/// How the tasks that a command starts are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The first of the following that is possible.
    Auto,
    /// By a cgroup of its own, with events on it.
    Cgroup,
    /// By events on whole CPUs; samples of other tasks are dropped.
    System,
    /// By event inheritance: the kernel copies the parent's events to each child.
    Inherit,
}

/// The ring buffers of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rings {
    /// Bytes of data per ring buffer, a power of two of pages. `None`: as much as may be locked, 2
    /// to 8 MiB. If all event rates are known, the size is enough for 4 s of records.
    pub bytes: Option<u64>,
    /// What happens to records that the reader doesn't collect in time.
    pub keep: Keep,
    /// Longest time between two writes of records.
    pub flush_interval: Duration,
}

impl Default for Rings {
    fn default() -> Self {
        Self { bytes: None, keep: Keep::All, flush_interval: Duration::from_millis(250) }
    }
}

/// Which records stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    /// All: records are written as they come.
    All,
    /// The last records that fit into the ring buffers, which are overwritten.
    WhatFits,
    /// The records of this last period.
    Last(Duration),
}

/// Which properties of running processes are described, in the records that the kernel would have
/// written had the recorder been running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthesize {
    /// Names and parents.
    pub tasks: bool,
    /// Mappings.
    pub maps: bool,
    /// Cgroups.
    pub cgroups: bool,
    /// Describe processes at the end of the recording, not at its beginning.
    pub at_the_end: bool,
}

impl Default for Synthesize {
    fn default() -> Self {
        Self { tasks: true, maps: true, cgroups: false, at_the_end: false }
    }
}

/// How events are sampled, and which other records are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The sampling rate.
    pub rate: Rate,
    /// Whether a frequency above the kernel's limit is an error.
    pub strict_frequency: bool,
    /// Limit on the cost of sampling.
    pub budget: Option<Budget>,
    /// How events get call chains, unless their own term says otherwise.
    pub call_graph: CallGraph,
    /// Whether tracepoints have call chains too.
    pub call_graph_of_tracepoints: bool,
    /// Bytes of the stack in a sample, for call chains by DWARF.
    pub stack_bytes: u32,
    /// Which part of call chains is recorded.
    pub callchains: Callchains,
    /// The kinds of branches (`PERF_SAMPLE_BRANCH_*`).
    pub branches: Option<u64>,
    /// Fields of samples beyond the ones each event needs (`PERF_SAMPLE_*`).
    pub fields: u64,
    /// User registers in samples.
    pub user_registers: u64,
    /// Registers at the interrupt in samples.
    pub interrupt_registers: u64,
    /// The clock of timestamps; `None`: the kernel's default.
    pub clock: Option<i32>,
    /// The records that the event that tracks processes reports, besides names and mappings.
    pub tracking: Flags,
    /// Record exact counts of each thread at its exit.
    pub counts_of_threads: bool,
    /// Use a fixed period for clocks and cycles if a frequency is requested: children then start
    /// with the right rate.
    pub fixed_periods: bool,
    /// Record the cgroups of samples, and their names.
    pub all_cgroups: bool,
    /// Privilege levels of all events.
    pub levels: Levels,
}

/// Bytes of the stack in a sample by default, as in perf.
const STACK_BYTES: u32 = 8192;

impl Default for Sampling {
    fn default() -> Self {
        Self {
            rate: Rate::OfEvent,
            strict_frequency: false,
            budget: None,
            call_graph: CallGraph::No,
            call_graph_of_tracepoints: false,
            stack_bytes: STACK_BYTES,
            callchains: Callchains::Both,
            branches: None,
            fields: 0,
            user_registers: 0,
            interrupt_registers: 0,
            clock: Some(rustix::time::ClockId::Monotonic as i32),
            tracking: Flags::empty(),
            counts_of_threads: false,
            fixed_periods: false,
            all_cgroups: false,
            levels: Levels::OfEvent,
        }
    }
}

/// A limit on the cost of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Share of the recorded CPUs' time.
    pub share: f64,
    /// Lowest sampling frequency in Hz, kept whatever it costs.
    pub min_hz: u64,
}

/// The sampling rate of events whose own term sets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// The event's default: every occurrence of a tracepoint, 999 Hz for others.
    OfEvent,
    /// Frequency in Hz.
    Frequency(u64),
    /// The kernel's highest allowed frequency.
    MaxFrequency,
    /// Occurrences per sample.
    Period(u64),
    /// Never.
    Never,
}

/// Which part of a call chain is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callchains {
    /// All of it.
    Both,
    /// User frames.
    User,
    /// Kernel frames.
    Kernel,
}

/// The privilege levels to which all events are restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// Each event's own levels.
    OfEvent,
    /// User space (`--all-user`).
    User,
    /// The kernel (`--all-kernel`).
    Kernel,
}

/// A term of an event that makes no sense in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnsupportedTerm {
    /// `percore` sums up counts.
    #[error("percore sums up counts, and samples have none: leave it out")]
    PerCore,
    /// `aux-output` and `aux-sample-size` need an AUX area.
    #[error("tare records no AUX area (Intel PT, CoreSight): leave the aux terms out")]
    Aux,
    /// `nr` limits the displayed events.
    #[error(
        "nr limits the printed events, and a recording prints none: leave it out, or end the recording with --max-size"
    )]
    MaxEvents,
}

impl Sampling {
    /// Restricts an event to the levels of all events.
    ///
    /// # Errors
    /// Fails if the event has a term that makes no sense in a recording.
    pub fn apply_levels(&self, event: &mut Event) -> Result<(), UnsupportedTerm> {
        if event.percore {
            return Err(UnsupportedTerm::PerCore);
        }
        if event.sampling.aux_output || event.sampling.aux_sample_size.is_some() {
            return Err(UnsupportedTerm::Aux);
        }
        if event.sampling.max_events.is_some() {
            return Err(UnsupportedTerm::MaxEvents);
        }
        let others = match self.levels {
            Levels::OfEvent => return Ok(()),
            Levels::User => Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV,
            Levels::Kernel => Flags::EXCLUDE_USER | Flags::EXCLUDE_HV,
        };
        event.attr.flags.remove(Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_USER | Flags::EXCLUDE_HV);
        event.attr.flags |= others;
        event.explicit_levels = true;
        Ok(())
    }
}
