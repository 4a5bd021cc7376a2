//! Plans the events and groups to open, as the kernel accepts them, and where they are opened.
//!
//! `rate` decides how often an event is sampled, using the CPU's `speed` to turn a frequency into a
//! period; `slower` adds the lower rates of a budget. `attr` decides the fields of its samples.
//! `tracking` makes an event track processes. `settle` asks the kernel, and falls back if it
//! rejects an optional feature. `copies` decides how much of a stack to copy. `off_cpu` plans the
//! event for off-CPU time, and `system_calls` the BPF programs for system calls. `cpus` finds the
//! CPUs and targets of events.

mod attr;
mod copies;
mod cpus;
mod off_cpu;
mod rate;
mod settle;
mod slower;
mod speed;
mod system_calls;
mod tracking;

use std::fmt;

use tare_events::{CallGraph, Event, EventGroup, Sources};
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling as Sampled};
use tare_kernel::call_samples::CallSamples;
use tare_kernel::host::{CpuList, Host};
use tare_kernel::open::Kernel;
use tare_kernel::probe::{AccessProbe, Refusal as Refused};

use self::attr::AttrDefaults;
pub(crate) use self::cpus::cpus;
use self::rate::Rates;
use self::settle::Settler;
use crate::error::PlanError;
use crate::options::{Begin, Cpus, Keep, RecorderOptions, Target};
use crate::warning::Warning;
use tare_format::ledger::FixedPeriod;

/// The events to open.
#[derive(Debug)]
pub struct RecordPlan {
    /// The events, in the order of the recording's attributes; group members follow their leader.
    pub events: Vec<PlannedEvent>,
    /// The event for off-CPU time, which is never opened.
    pub off_cpu: Option<Attr>,
    /// The programs that write the samples of system calls, whose events are never opened.
    pub calls: Option<CallSamples>,
    /// Indexes of the events whose copied stacks the recorder unwinds. The event for off-CPU time
    /// has the index after the others.
    pub unwound: Vec<usize>,
    /// Deviations from the options.
    pub warnings: Vec<Warning>,
}

/// An event, ready to be opened at each of its targets.
#[derive(Debug)]
pub struct PlannedEvent {
    /// The event as the user named it; with `:u` added if the kernel had to be excluded.
    pub event: Event,
    /// The attribute, without features that the kernel rejected.
    pub attr: Attr,
    /// Index in [`RecordPlan::events`] of the group leader; `None` for a leader.
    pub leader: Option<usize>,
    /// Index of the target's cgroup; `None` for whole CPUs, and if the target is no cgroup.
    pub cgroup: Option<usize>,
    /// The CPUs on which it is opened.
    pub cpus: CpuList,
    /// When it starts.
    pub start: EventStart,
    /// The fixed period that replaces its frequency, if one does.
    pub fixed: Option<FixedPeriod>,
    /// Lower rates for a budget, in Hz, descending.
    pub slower: Vec<u64>,
    /// Whether BPF programs write its samples, so that it isn't opened.
    pub by_programs: bool,
    /// The fields that a filter can use; `None` if the event accepts no filter.
    fields: Option<Vec<String>>,
}

/// When an event starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStart {
    /// With the program that the command executes.
    OnExec,
    /// As soon as everything is open.
    AtOnce,
    /// After the delay, or when the caller enables it.
    Later,
    /// With the leader of its group.
    WithLeader,
}

impl PlannedEvent {
    /// Whether it counts nanoseconds of CPU time.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        is_clock(&self.attr)
    }

    /// Whether each sample is an interrupt of a timer or a counter.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.is_clock() || !is_software(&self.event)
    }

    /// Returns its highest sampling rate per CPU if that is known: for clocks, and for hardware
    /// counters with a frequency. Other events occur in bursts.
    pub(crate) fn samples_a_second(&self) -> Option<u64> {
        if self.attr.flags.intersects(Flags::CONTEXT_SWITCH | Flags::TEXT_POKE) {
            return None;
        }
        match (self.attr.sampling, &self.fixed) {
            (Sampled::None, _) => Some(0),
            _ if self.by_programs || !self.is_interrupt() => None,
            (Sampled::Frequency(hz), _) => Some(hz),
            (Sampled::Period(_), Some(fixed)) => Some(fixed.hz),
            (Sampled::Period(ns), None) if self.is_clock() => Some(1_000_000_000 / ns.max(1)),
            (Sampled::Period(_), None) => None,
        }
    }

    /// Whether it only tracks processes: it is never sampled, and pauses don't stop it.
    #[must_use]
    pub fn is_tracking_only(&self) -> bool {
        self.attr.kind == abi::PERF_TYPE_SOFTWARE
            && self.attr.config == u64::from(abi::PERF_COUNT_SW_DUMMY)
            && self.attr.flags.contains(Flags::COMM)
    }

    /// Whether it accepts a filter, as tracepoints and probes do.
    #[must_use]
    pub fn has_filter_fields(&self) -> bool {
        self.fields.is_some()
    }

    pub(crate) fn filter_fields(&self) -> Option<&[String]> {
        self.fields.as_deref()
    }
}

/// Whether the event is a clock, which counts nanoseconds of CPU time.
fn is_clock(attr: &Attr) -> bool {
    attr.kind == abi::PERF_TYPE_SOFTWARE
        && [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_TASK_CLOCK]
            .into_iter()
            .any(|clock| attr.config == u64::from(clock))
}

/// Whether the event is a tracepoint or a probe, which accept filters.
fn is_traced(event: &Event) -> bool {
    event.attr.kind == abi::PERF_TYPE_TRACEPOINT || is_probe(event)
}

/// Whether the kernel itself generates the event, without a hardware counter.
fn is_software(event: &Event) -> bool {
    matches!(
        event.attr.kind,
        abi::PERF_TYPE_SOFTWARE | abi::PERF_TYPE_TRACEPOINT | abi::PERF_TYPE_BREAKPOINT
    ) || is_probe(event)
}

/// Probes have no fixed type: each of their PMUs has a dynamic number.
fn is_probe(event: &Event) -> bool {
    matches!(event.pmu.as_deref(), Some("uprobe" | "kprobe"))
}

impl RecordPlan {
    /// Returns the bytes of the smallest copy of a stack that is unwound while recording, if limited
    /// memory for rings makes it smaller than the largest possible one.
    pub(crate) fn small_copy(&self) -> Option<u32> {
        let copies = self.unwound.iter().filter_map(|event| self.events.get(*event));
        let copies = copies.map(|planned| planned.attr.sample_stack_user);
        copies.min().filter(|bytes| *bytes < copies::LARGEST_COPY)
    }

    /// Plans the options on this machine.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(
        options: &RecorderOptions,
        host: &Host,
        kernel: &dyn Kernel,
    ) -> Result<Self, PlanError> {
        let mut warnings = Vec::new();
        let sources = Sources::new(host.clone());
        let replaced = replaced_events(options, &sources, kernel, &mut warnings)?;
        let groups = replaced.as_deref().unwrap_or(&options.groups);
        let all_cpus = cpus(&options.target, host)?;
        let mut planner = Planner {
            options,
            defaults: AttrDefaults {
                max_stack: changed_max_stack(options, host),
                ..defaults(options)
            },
            sources: &sources,
            all_cpus,
            rates: Rates::new(&options.sampling, host, kernel),
        };
        let mut settling = Settler::new(kernel, host, options.target.is_per_cpu());
        let mut events = Vec::new();
        check_cgroups(&options.target, groups.len())?;
        let calls = system_calls::load(options, host, &sources, &mut warnings);
        let dummy_tracks = calls.is_some() || planner.needs_dummy(groups);
        for (number, group) in groups.iter().enumerate() {
            let mut members = planner.group(group, number, events.len())?;
            if let Some(first) = members.first_mut().filter(|_| events.is_empty() && !dummy_tracks)
            {
                tracking::track(&planner.defaults, &mut first.attr);
            }
            settling.group(&mut members, group.weak)?;
            if calls.is_some() {
                members.iter_mut().for_each(system_calls::leave_to_programs);
            }
            events.extend(members);
        }
        if let Some(budget) = options.sampling.budget {
            slower::add(&options.target, budget, &mut events)?;
        }
        if dummy_tracks {
            let mut dummy = [planner.dummy()];
            settling.group(&mut dummy, false)?;
            events.extend(dummy);
        }
        let off_cpu = off_cpu::attr(options, &planner.defaults);
        tracking::add_data(&mut events, off_cpu.as_ref());
        tracking::add_deferred(&mut events);
        events.iter_mut().for_each(|event| planner.set_start(event));
        warnings.extend(planner.rates.warning);
        warnings.extend(settling.warnings);
        warnings.extend(of_first_threads_only(&options.target, groups));
        let mut unwound = fit_unwound(&mut events, &planner.defaults, options, host);
        unwound.extend(off_cpu::is_unwound(options, off_cpu.as_ref()).then_some(events.len()));
        Ok(Self { events, off_cpu, calls, unwound, warnings })
    }
}

fn defaults(options: &RecorderOptions) -> AttrDefaults<'_> {
    let some_cpus = matches!(
        options.target,
        Target::Command(Cpus::These(_))
            | Target::Processes(_, Cpus::These(_))
            | Target::Threads(_, Cpus::These(_))
            | Target::User(_, Cpus::These(_))
    );
    let per_cpu = options.target.is_per_cpu();
    AttrDefaults {
        sampling: &options.sampling,
        names_cpu: per_cpu || some_cpus,
        inherit: options.inherit && !per_cpu,
        overwrite: options.rings.keep == Keep::WhatFits,
        max_stack: None,
    }
}

/// Returns the indexes of the events whose copied stacks the recorder unwinds, and unless the
/// options state the size of copies, fits it to the rings.
fn fit_unwound(
    events: &mut [PlannedEvent],
    defaults: &AttrDefaults<'_>,
    options: &RecorderOptions,
    host: &Host,
) -> Vec<usize> {
    let is_unwound = |planned: &PlannedEvent| {
        planned.attr.sample_type & u64::from(abi::PERF_SAMPLE_STACK_USER) != 0
            && defaults.call_graph(&planned.event) == CallGraph::Auto
    };
    let all = events.iter().enumerate();
    let unwound: Vec<_> =
        all.filter(|(_, planned)| is_unwound(planned)).map(|(index, _)| index).collect();
    if options.sampling.stack_bytes == 0 {
        copies::fit(events, &unwound, &options.rings, host);
    }
    unwound
}

/// Returns the limit on the frames of call chains, if an administrator changed it.
fn changed_max_stack(options: &RecorderOptions, host: &Host) -> Option<u16> {
    if options.sampling.call_graph == CallGraph::No {
        return None;
    }
    let limit = host.sysctl("kernel.perf_event_max_stack").ok()?;
    u16::try_from(limit).ok().filter(|limit| ![0, USUAL_MAX_STACK].contains(limit))
}

/// `PERF_MAX_STACK_DEPTH` of the kernel.
const USUAL_MAX_STACK: u16 = 127;

/// Returns a warning for each probe of a user-space function that isn't opened on whole CPUs.
fn of_first_threads_only<'a>(
    target: &Target,
    groups: &'a [EventGroup],
) -> impl Iterator<Item = Warning> + use<'a> {
    let has_new_threads = !target.is_per_cpu() && !matches!(target, Target::Threads(..));
    let events = groups.iter().flat_map(|group| &group.events);
    events
        .filter(move |event| has_new_threads && event.is_uprobe())
        .map(|event| Warning::FirstThreadsOnly { event: event.name.clone() })
}

/// Returns the events that replace the options' events: the default if there are none, and the
/// clock instead of `cycles` on a machine without a PMU. `None` if nothing is replaced.
fn replaced_events(
    options: &RecorderOptions,
    sources: &Sources,
    kernel: &dyn Kernel,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Vec<EventGroup>>, PlanError> {
    let groups = &options.groups;
    if groups.is_empty() {
        return default_event(options, sources, kernel, warnings).map(Some);
    }
    if !groups.iter().any(is_cycles) || has_pmu(sources, kernel) {
        return Ok(None);
    }
    warnings.push(Warning::TimerInsteadOfCycles);
    with_timer(groups, sources).map(Some)
}

/// Returns `cycles`, or the clock if off-CPU time is recorded, or with a warning if the machine has
/// no PMU.
fn default_event(
    options: &RecorderOptions,
    sources: &Sources,
    kernel: &dyn Kernel,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<EventGroup>, PlanError> {
    let has_pmu = has_pmu(sources, kernel);
    // The clock counts nanoseconds, as off-CPU time does: together they cover all of the time.
    let is_clock = !has_pmu || options.off_cpu.is_some();
    let text = if is_clock { "cpu-clock" } else { "cycles:P" };
    if !has_pmu && options.off_cpu.is_none() {
        warnings.push(Warning::TimerInsteadOfCycles);
    }
    let mut groups = tare_events::parse(text, sources)?;
    for event in groups.iter_mut().flat_map(|group| &mut group.events) {
        options
            .sampling
            .apply_levels(event)
            .map_err(|term| PlanError::Unsupported { event: event.name.clone(), term })?;
    }
    Ok(groups)
}

fn has_pmu(sources: &Sources, kernel: &dyn Kernel) -> bool {
    !sources.lacks_cpu_pmu() && AccessProbe::new(kernel, None).cycles() != Err(Refused::NoSuchEvent)
}

/// Whether the group is the event `cycles` alone.
fn is_cycles(group: &EventGroup) -> bool {
    let [event] = &group.events[..] else { return false };
    event.attr.kind == abi::PERF_TYPE_HARDWARE
        && event.attr.config == u64::from(abi::PERF_COUNT_HW_CPU_CYCLES)
}

/// Replaces `cycles` by the clock, with its levels and rate, as perf does on a machine without a
/// PMU.
fn with_timer(groups: &[EventGroup], sources: &Sources) -> Result<Vec<EventGroup>, PlanError> {
    let replace = |group: &EventGroup| {
        if !is_cycles(group) {
            return Ok(group.clone());
        }
        let cycles = &group.events[0];
        let levels = cycles.name.split_once(':').map_or("", |(_, modifiers)| modifiers);
        let levels: String = levels.chars().filter(|letter| "ukhGH".contains(*letter)).collect();
        let colon = if levels.is_empty() { "" } else { ":" };
        let mut clock = tare_events::parse(&format!("cpu-clock{colon}{levels}"), sources)?;
        for event in clock.iter_mut().flat_map(|group| &mut group.events) {
            event.sampling = cycles.sampling.clone();
        }
        Ok(clock.remove(0))
    };
    groups.iter().map(replace).collect()
}

fn check_cgroups(target: &Target, groups: usize) -> Result<(), PlanError> {
    match target {
        Target::Cgroups { names, .. } if names.len() > 1 && names.len() != groups => {
            Err(PlanError::CgroupsOfEvents { cgroups: names.len(), events: groups })
        }
        _ => Ok(()),
    }
}

/// Prints each event with its attribute, one field per line: `--dry-run` and `-vv`.
impl fmt::Display for RecordPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|planned| {
            writeln!(
                f,
                "perf_event_attr of {} on CPU {}:",
                tare_format::printable(&planned.event.name),
                planned.cpus
            )?;
            writeln!(f, "{}", planned.attr)
        })
    }
}

struct Planner<'a> {
    options: &'a RecorderOptions,
    defaults: AttrDefaults<'a>,
    sources: &'a Sources,
    all_cpus: CpuList,
    rates: Rates<'a>,
}

impl Planner<'_> {
    /// Whether an event of its own tracks processes. The first event can't if it is started and
    /// stopped, is pinned, sees only some tasks or CPUs, lacks the time, is inherited differently,
    /// or may be overwritten. Neither does it if records of context switches are requested, or if
    /// there are other events on whole CPUs.
    fn needs_dummy(&self, groups: &[EventGroup]) -> bool {
        let Some(first) = groups.first().and_then(|group| group.events.first()) else {
            return true;
        };
        let starts_and_stops = self.options.begin != Begin::AtOnce || self.options.may_pause;
        let sees_some = matches!(self.options.target, Target::Cgroups { .. })
            || first.cpus.is_some()
            || first.attr.flags.contains(Flags::PINNED);
        let differs = first.sampling.time == Some(false)
            || first.inherit.is_some_and(|inherit| inherit != self.defaults.inherit);
        let overwritten = first.sampling.overwrite.unwrap_or(self.defaults.overwrite);
        // A budget starts and stops the events of its rates.
        let starts_and_stops = starts_and_stops || self.options.sampling.budget.is_some();
        let several = self.options.target.is_per_cpu()
            && groups.iter().map(|group| group.events.len()).sum::<usize>() > 1;
        starts_and_stops
            || sees_some
            || differs
            || overwritten
            || several
            || self.defaults.sampling.tracking.contains(Flags::CONTEXT_SWITCH)
    }

    /// Plans the events of a group. `first` is the leader's index in the plan.
    fn group(
        &mut self,
        group: &EventGroup,
        number: usize,
        first: usize,
    ) -> Result<Vec<PlannedEvent>, PlanError> {
        let mut members: Vec<PlannedEvent> = Vec::new();
        for event in &group.events {
            let rate = if group.sample_read && !members.is_empty() {
                Sampled::None
            } else {
                self.rates.rate_for(event)?
            };
            let fixed = self.rates.fixed(event, rate);
            let mut attr = self
                .defaults
                .attr(event, fixed.map_or(rate, |fixed| Sampled::Period(fixed.period)))?;
            if group.sample_read {
                match members.first() {
                    None => {
                        attr.sample_type |= u64::from(abi::PERF_SAMPLE_READ);
                        attr.read_format |= ReadFormat::GROUP;
                    }
                    Some(leader) => sample_like(&mut attr, &leader.attr),
                }
            }
            attr.flags.set(
                Flags::INHERIT,
                attr.flags.contains(Flags::INHERIT) && !self.options.target.is_per_cpu(),
            );
            let leader = (!members.is_empty()).then_some(first);
            members.push(PlannedEvent {
                cgroup: self.cgroup_of(number),
                cpus: cpus::having(event, &self.all_cpus)?,
                fields: self.fields(event)?,
                event: event.clone(),
                attr,
                leader,
                fixed,
                slower: Vec::new(),
                by_programs: false,
                start: EventStart::AtOnce,
            });
        }
        Ok(members)
    }

    fn cgroup_of(&self, group: usize) -> Option<usize> {
        match &self.options.target {
            Target::CommandInCgroup(_) => Some(0),
            Target::Cgroups { names, .. } if names.len() == 1 => Some(0),
            Target::Cgroups { .. } => Some(group),
            _ => None,
        }
    }

    /// Returns the fields that a filter can use (of a probe without a tracepoint only
    /// `common_pid`); `None` if the event accepts no filter.
    fn fields(&self, event: &Event) -> Result<Option<Vec<String>>, PlanError> {
        let Some(tracepoint) = &event.tracepoint else {
            return Ok(is_traced(event).then(|| vec!["common_pid".to_owned()]));
        };
        let fields = self
            .sources
            .tracefs()
            .and_then(|tracefs| tracefs.fields(&tracepoint.system, &tracepoint.name));
        fields.map(Some).map_err(|source| PlanError::Fields { event: event.name.clone(), source })
    }

    fn dummy(&self) -> PlannedEvent {
        let (event, attr) = tracking::dummy(&self.defaults);
        let cgroup = matches!(self.options.target, Target::CommandInCgroup(_)).then_some(0);
        PlannedEvent {
            event,
            attr,
            leader: None,
            cgroup,
            cpus: self.all_cpus.clone(),
            fixed: None,
            slower: Vec::new(),
            by_programs: false,
            fields: None,
            start: EventStart::AtOnce,
        }
    }

    /// Sets when an event starts. Members start and stop with their leader; tracking waits for
    /// nothing but a command's execve.
    fn set_start(&self, planned: &mut PlannedEvent) {
        let tracks = planned.attr.flags.contains(Flags::COMM);
        let on_exec = matches!(self.options.target, Target::Command(_));
        planned.start = match (planned.leader, self.options.begin) {
            (Some(_), _) => EventStart::WithLeader,
            (None, Begin::AtOnce) => {
                if on_exec {
                    EventStart::OnExec
                } else {
                    EventStart::AtOnce
                }
            }
            (None, _) if tracks => {
                if on_exec {
                    EventStart::OnExec
                } else {
                    EventStart::AtOnce
                }
            }
            (None, _) => EventStart::Later,
        };
        planned.attr.flags.set(Flags::DISABLED, planned.start != EventStart::WithLeader);
        planned.attr.flags.set(Flags::ENABLE_ON_EXEC, planned.start == EventStart::OnExec);
    }
}

/// Gives a counted member of a group the fields of the leader's samples: the kernel checks them
/// although the member takes no samples, and readers expect one layout in a group.
fn sample_like(attr: &mut Attr, leader: &Attr) {
    attr.sample_type = leader.sample_type;
    attr.read_format = leader.read_format;
    attr.branch_sample_type = leader.branch_sample_type;
    attr.sample_regs_user = leader.sample_regs_user;
    attr.sample_regs_intr = leader.sample_regs_intr;
    attr.sample_stack_user = leader.sample_stack_user;
    attr.flags.set(Flags::WRITE_BACKWARD, leader.flags.contains(Flags::WRITE_BACKWARD));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_changed_limit_on_frames_is_stated() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&folder).unwrap();
        let mut options = RecorderOptions::default();
        options.sampling.call_graph = CallGraph::FramePointer;
        let stated = |options: &RecorderOptions, limit: &str| {
            std::fs::write(folder.join("perf_event_max_stack"), limit).unwrap();
            changed_max_stack(options, &Host::at(root.path()))
        };
        let limits = ["127\n", "512\n", "64\n", "100000\n"];
        let found = limits.map(|limit| stated(&options, limit));
        assert_eq!(found, [None, Some(512), Some(64), None], "the last is above the attribute's");
        options.sampling.call_graph = CallGraph::No;
        assert_eq!(stated(&options, "512\n"), None);
    }
}
