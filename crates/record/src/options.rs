//! Options of a recorder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tare_events::{CallGraph, Event, EventGroup};
use tare_format::abi::Flags;
use tare_kernel::host::CpuList;
use thiserror::Error;

/// Options of a recorder: the events, the tasks or CPUs to record, and how.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The events. If empty: `cycles`, or `cpu-clock` if the machine has no PMU or off-CPU time is
    /// recorded.
    pub groups: Vec<EventGroup>,
    /// How events are sampled, and which other records are written.
    pub sampling: Sampling,
    /// The tasks or CPUs to record.
    pub target: Target,
    /// How the tasks that a command starts are followed, for [`Target::Command`] on all CPUs.
    pub follow: Follow,
    /// Whether events on tasks record children and new threads, unless an event's own term says
    /// otherwise.
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
    /// Which properties of running processes are described.
    pub synthesize: Synthesize,
    /// Whether the recorder's own threads are recorded too. Otherwise tracepoints and BPF programs
    /// leave them out, and readers drop their samples of other events.
    pub include_self: bool,
    /// Number of threads that read ring buffers, including the caller's; `None`: one per 32 online
    /// CPUs, rounded up.
    pub readers: Option<usize>,
    /// The SCHED_FIFO priority of the additional reader threads.
    pub realtime_priority: Option<u32>,
    /// Records off-CPU time too, with these options.
    pub off_cpu: Option<OffCpu>,
    /// Whether BPF programs record system calls, at a third of the cost of perf events per call.
    /// The only events in `groups` must be `raw_syscalls:sys_enter` and `raw_syscalls:sys_exit`, in
    /// this order. Perf events record them if the programs can't be loaded, if recording doesn't
    /// begin at once or may be paused, and with `include_self`, [`Keep::WhatFits`], or another
    /// clock than `CLOCK_MONOTONIC`.
    pub calls_by_programs: bool,
    /// The program that records, as the recording names it.
    pub program: RecorderProgram,
    /// Set by the caller to end the copies of binaries at the end of the recording. Files that are
    /// not copied by then count as failed.
    pub is_copying_over: Arc<AtomicBool>,
}

/// Which waits are recorded as off-CPU time. They have call chains if [`Sampling::call_graph`] asks
/// for them: from stack copies (DWARF), unless `frame_pointers` is set, this processor's registers
/// are unknown, or perf events replace the BPF programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Shortest wait that is recorded.
    pub min: Duration,
    /// Waits of at least this length become samples of their own.
    pub long: Option<Duration>,
    /// Whether to record the wakers of waiting tasks, with call chains if waits have them.
    pub wakers: bool,
    /// Whether call chains come from frame pointers, instead of stack copies.
    pub frame_pointers: bool,
}

impl Default for RecorderOptions {
    /// The default event at 999 Hz, for a command on all CPUs.
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
            is_copying_over: Arc::default(),
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
    /// At once; a command is recorded from its execve on.
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
    /// The running processes of this user, except this one.
    User(u32, Cpus),
    /// Everything on these CPUs.
    Cpus(CpuList),
    /// The tasks of cgroups, on these CPUs.
    Cgroups {
        /// One name for all event groups, or one per group in their order.
        names: Vec<String>,
        /// The CPUs.
        cpus: CpuList,
    },
}

impl Target {
    /// Whether events are opened on whole CPUs or cgroups, which needs more privileges than events
    /// on one's own tasks.
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
    /// All online CPUs; for a command, those of the recorder's cpuset.
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
    /// Bytes of data per ring buffer, rounded up to a power of two of pages. `None`: 8 MiB, or if
    /// all event rates are known, enough for 4 s of records (or two flush intervals), but 2 to 8
    /// MiB. In each case less if no more may be locked.
    pub bytes: Option<u64>,
    /// Which records stay.
    pub keep: Keep,
    /// Longest time between two reads of the ring buffers. At least 1 s if the output keeps nothing
    /// and no binaries are kept.
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
    /// The samples of this last period, and all records of processes, to which samples refer.
    Last(Duration),
}

/// Which properties of running processes are described, in the records that the kernel would have
/// written had the recorder been running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthesize {
    /// Names and parents. Without them, mappings are left out too.
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
    /// Whether tracepoints and probes have call chains too.
    pub call_graph_of_tracepoints: bool,
    /// Bytes of the stack in a sample, for call chains by DWARF; 0 with [`CallGraph::Auto`]: as many
    /// as the rings have room for.
    pub stack_bytes: u32,
    /// Which part of call chains is recorded.
    pub callchains: Callchains,
    /// The kinds of branches (`PERF_SAMPLE_BRANCH_*`) in samples; `None`: no branches.
    pub branches: Option<u64>,
    /// Further fields of samples (`PERF_SAMPLE_*`). Time and instruction pointer depend on the
    /// event alone.
    pub fields: u64,
    /// Mask of user registers in samples. Call chains by DWARF add those that they need.
    pub user_registers: u64,
    /// Mask of registers at the interrupt in samples.
    pub interrupt_registers: u64,
    /// The clock of timestamps; `None`: the kernel's default.
    pub clock: Option<i32>,
    /// Further records that the event that tracks processes reports, besides names, mappings,
    /// forks, exits and symbols of kernel code.
    pub tracking: Flags,
    /// Record exact counts of each thread at its exit.
    pub counts_of_threads: bool,
    /// Use a fixed period for clocks and cycles if a frequency is requested: children then start
    /// with the right rate.
    pub fixed_periods: bool,
    /// The recorder ignores this: `fields`, `tracking` and [`Synthesize::cgroups`] select the
    /// cgroups of samples and their names.
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
    /// The event's default: every occurrence of a tracepoint, probe or breakpoint, 999 Hz for
    /// others.
    OfEvent,
    /// Frequency in Hz.
    Frequency(u64),
    /// The highest frequency that the kernel allows.
    MaxFrequency,
    /// Occurrences per sample.
    Period(u64),
    /// No samples, even of events whose own term sets a rate.
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
