//! What is to be recorded, and how.

use std::path::PathBuf;
use std::time::Duration;

use tare_events::{CallGraph, Event, EventGroup};
use tare_format::abi::Flags;
use tare_kernel::host::CpuList;
use thiserror::Error;

/// What is to be recorded, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The events; none for `cycles`, or `cpu-clock` where there is no PMU.
    pub groups: Vec<EventGroup>,
    /// How they are sampled, and what is recorded beside samples.
    pub sampling: Sampling,
    /// Whose events are recorded.
    pub target: Target,
    /// How the tasks that a command starts are followed, with [`Target::Command`].
    pub follow: Follow,
    /// Whether children and new threads are recorded, where an event doesn't say.
    pub inherit: bool,
    /// When recording begins.
    pub begin: Begin,
    /// Whether the caller may disable and enable events while they are recorded.
    pub may_pause: bool,
    /// The ring buffers.
    pub rings: Rings,
    /// Whether the table of build ids is written.
    pub build_ids: bool,
    /// The folder that the binaries are kept in which samples can lie in, in the layout of perf's
    /// cache of build ids; `None`: they are not kept.
    pub keep_binaries: Option<PathBuf>,
    /// What of running processes is described.
    pub synthesize: Synthesize,
    /// Whether the recorder's own threads are recorded, too.
    pub include_self: bool,
    /// How many threads read ring buffers, the caller's included; `None`: one for each 32 CPUs.
    pub readers: Option<usize>,
    /// The SCHED_FIFO priority of threads that read ring buffers beside the caller's.
    pub realtime_priority: Option<u32>,
    /// Whether the time that tasks are not on a CPU is recorded, too.
    pub off_cpu: Option<OffCpu>,
    /// Samples of `raw_syscalls:sys_enter` and `sys_exit`, which are then the only events, are written
    /// by BPF programs, at a third of what perf events take of each call: where these can be loaded,
    /// recording begins at once, without pauses, and times are by `CLOCK_MONOTONIC`.
    pub calls_by_programs: bool,
    /// Who records: the recording tells.
    pub program: Program,
}

/// Which of the time that tasks are not on a CPU is recorded. It has call chains where other events
/// have: those by DWARF, unless frame pointers are asked for ([`Sampling::call_graph`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Waits that are shorter are left out.
    pub min: Duration,
    /// Waits from this length on are samples of their own.
    pub long: Option<Duration>,
    /// Who ends waits, with call chains.
    pub wakers: bool,
    /// Call chains by frame pointers, instead of copies of the user stack.
    pub frame_pointers: bool,
}

impl Default for Options {
    /// All CPUs' default event, at 999 Hz. Target and CPUs are for the caller to choose.
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
            program: Program::default(),
        }
    }
}

/// The program that records, as the recording's description names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// Its command line, its own name first.
    pub command_line: Vec<String>,
}

/// When recording begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At once; events of a command with its execve.
    AtOnce,
    /// After this time.
    After(Duration),
    /// When the caller enables the events.
    OnRequest,
}

/// Whose events are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Those of the command and what it starts.
    Command(Cpus),
    /// The same, by events on whole CPUs: what other tasks do is left out when the recording is
    /// read.
    CommandOnCpus(CpuList),
    /// The same, by events on a cgroup of the command's own, on these CPUs.
    CommandInCgroup(CpuList),
    /// Those of all threads of these processes.
    Processes(Vec<i32>, Cpus),
    /// Those of these threads.
    Threads(Vec<i32>, Cpus),
    /// Those of the running processes of this user.
    User(u32, Cpus),
    /// All that happens on these CPUs.
    Cpus(CpuList),
    /// What tasks of cgroups do on these CPUs.
    Cgroups {
        /// One name for all events, or one for each event in turn.
        names: Vec<String>,
        /// The CPUs.
        cpus: CpuList,
    },
}

impl Target {
    /// Whether whole CPUs are recorded, which needs more rights than recording one's own tasks.
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

/// On which CPUs tasks are recorded: each of their events is opened on each of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// Wherever they can run.
    All,
    /// Only there.
    These(CpuList),
}

/// How the tasks that a command starts are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The first of these that can be done.
    Auto,
    /// By a cgroup of its own, with events on it.
    Cgroup,
    /// By events on whole CPUs; what is not the command's is left out.
    System,
    /// By copies of the parent's events, which each child gets.
    Inherit,
}

/// The ring buffers of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rings {
    /// Bytes of data of each, a power of two of pages; `None`: as many as may be locked, 2 to 8 MiB:
    /// what events of known rates bring in 4 s, or all where nobody knows how much comes.
    pub bytes: Option<u64>,
    /// What happens to records that a reader doesn't take away in time.
    pub keep: Keep,
    /// How often their records are written at least.
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
    /// All: they are written as they come.
    All,
    /// The last that fit into the ring buffers, which are overwritten.
    WhatFits,
    /// The last so many seconds.
    Last(Duration),
}

/// What of running processes is described, in records that the kernel would have written had the
/// recorder been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthesize {
    /// Their names and parents.
    pub tasks: bool,
    /// What they map.
    pub maps: bool,
    /// Cgroups.
    pub cgroups: bool,
    /// At the end of the recording, not at its beginning.
    pub at_the_end: bool,
}

impl Default for Synthesize {
    fn default() -> Self {
        Self { tasks: true, maps: true, cgroups: false, at_the_end: false }
    }
}

/// How events are sampled, and what is recorded beside samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// How often.
    pub rate: Rate,
    /// Whether a frequency that the kernel doesn't allow is an error.
    pub strict_frequency: bool,
    /// What sampling may cost.
    pub budget: Option<Budget>,
    /// How events get call chains that don't say it themselves.
    pub call_graph: CallGraph,
    /// Whether tracepoints have call chains too.
    pub call_graph_of_tracepoints: bool,
    /// Bytes of the stack that a sample holds, for call chains by DWARF.
    pub stack_bytes: u32,
    /// Which part of call chains is wanted.
    pub callchains: Callchains,
    /// The kinds of branches (`PERF_SAMPLE_BRANCH_*`).
    pub branches: Option<u64>,
    /// What samples hold beyond what each event needs (`PERF_SAMPLE_*`).
    pub fields: u64,
    /// User registers in samples.
    pub user_registers: u64,
    /// Registers at the interrupt in samples.
    pub interrupt_registers: u64,
    /// The clock of times; `None`: the kernel's own.
    pub clock: Option<i32>,
    /// What the event that keeps track of processes reports, beyond their names and maps.
    pub tracking: Flags,
    /// Exact counts of each thread at its end.
    pub counts_of_threads: bool,
    /// Clocks and cycles with a fixed period where a frequency is asked for: children then start
    /// with the right one.
    pub fixed_periods: bool,
    /// Cgroups of samples, and their names.
    pub all_cgroups: bool,
    /// The levels of all events.
    pub levels: Levels,
}

/// Bytes of the stack that a sample holds where nobody says: perf's choice.
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

/// What sampling may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// A share of the recorded CPUs' time.
    pub share: f64,
    /// Samples a second that are kept whatever they cost.
    pub min_hz: u64,
}

/// How often an event is sampled that doesn't say it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As suits the event: each tracepoint, 999 Hz for others.
    OfEvent,
    /// So many times a second.
    Frequency(u64),
    /// As often as the kernel allows.
    MaxFrequency,
    /// Every so many occurrences.
    Period(u64),
    /// Never.
    Never,
}

/// Which part of a call chain is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callchains {
    /// All of it.
    Both,
    /// The user's frames.
    User,
    /// The kernel's frames.
    Kernel,
}

/// The levels that all events are restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// As each event says.
    OfEvent,
    /// User space (`--all-user`).
    User,
    /// The kernel (`--all-kernel`).
    Kernel,
}

/// A term of an event that a recording has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnsupportedTerm {
    /// `percore` sums up counts.
    #[error("percore sums up counts, and samples have none: leave it out")]
    PerCore,
    /// `aux-output` and `aux-sample-size` want an AUX area.
    #[error("tare records no AUX area (Intel PT, CoreSight): leave the aux terms out")]
    Aux,
    /// `nr` limits what is shown.
    #[error(
        "nr limits what is shown, and a recording shows nothing: leave it out, or end the recording with --max-size"
    )]
    MaxEvents,
}

impl Sampling {
    /// Restricts an event to the levels of all.
    ///
    /// # Errors
    /// The event has a term that a recording has no use for.
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
