//! Which events are opened, and on which tasks and CPUs.

use rustix::io::Errno;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::record::Layout;
use tare_format::tracepoint::Format;
use tare_kernel::bpf::FollowedTasks;
use tare_kernel::host::Host;
use tare_kernel::open::{EventFile, EventTarget, Kernel, System};
use tare_kernel::procfs;
use tare_kernel::ring::{AddError, OrderedRings};
use tare_kernel::tracefs::Tracefs;
use tare_symbols::SymbolOptions;

use super::PerfError;
use crate::stacks::{COPIED, REGISTERS};

/// Which page faults are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Faults that read from a disk.
    pub major: bool,
    /// All other faults.
    pub minor: bool,
}

impl Faults {
    /// Parses the words of `perf trace -F`; without a text no faults, `None` for an unknown word.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        let (major, minor) = match text {
            None => (false, false),
            Some("all") => (true, true),
            Some("maj") => (true, false),
            Some("min") => (false, true),
            Some(_) => return None,
        };
        Some(Self { major, minor })
    }
}

/// Which stacks are unwound. The value says where to look for symbols.
#[derive(Clone, Debug, Default)]
pub enum UnwoundStacks {
    /// None.
    #[default]
    Nothing,
    /// Those of calls, which perf events copy.
    Calls(SymbolOptions),
    /// Those that BPF programs copy: perf events only trace the mappings of processes.
    CopiedByBpf(SymbolOptions),
}

impl UnwoundStacks {
    /// Returns where to look for symbols, if any stack is unwound.
    pub(super) fn symbols(&self) -> Option<&SymbolOptions> {
        match self {
            Self::Nothing => None,
            Self::Calls(symbols) | Self::CopiedByBpf(symbols) => Some(symbols),
        }
    }

    fn is_of_calls(&self) -> bool {
        matches!(self, Self::Calls(_))
    }
}

/// What to trace.
#[derive(Clone, Debug, Default)]
pub struct PerfOptions {
    /// System calls.
    pub calls: bool,
    /// Page faults.
    pub faults: Faults,
    /// Context switches.
    pub switches: bool,
    /// Tracepoints, as `system` and `name`; `*` in the name matches anything.
    pub tracepoints: Vec<(String, String)>,
    /// The cgroup of each call.
    pub cgroups: bool,
    /// Which stacks are unwound.
    pub stacks: UnwoundStacks,
    /// Tracepoints whose raw data is passed on, as `system` and `name`.
    pub raw: Vec<(&'static str, &'static str)>,
    /// The kernel's call chain with each sample of `raw`.
    pub chains: bool,
}

impl PerfOptions {
    /// Whether anything is traced at all.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.calls
            || self.switches
            || self.stacks.symbols().is_some()
            || self.faults != Faults::default()
            || !self.tracepoints.is_empty()
            || !self.raw.is_empty()
    }
}

/// The kind of an event's records.
#[derive(Clone, Debug)]
pub(super) enum TraceEventKind {
    Enter,
    Exit,
    Signal,
    /// The beginning of a call, opened for its call chain only.
    Stack,
    Fault {
        major: bool,
    },
    /// Records about threads: start, exit and name; on request also switches and mappings.
    Threads,
    Tracepoint(Box<Tracepoint>),
    /// An index into `PerfOptions::raw`.
    Raw(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Tracepoint {
    pub(super) name: String,
    pub(super) format: Option<Format>,
}

/// The opened events.
#[derive(Default)]
pub(super) struct OpenTracepoints {
    /// Kind of each event, in layout order.
    pub(super) kinds: Vec<TraceEventKind>,
    pub(super) rings: OrderedRings,
}

/// An event to be opened.
struct UnopenedEvent {
    kind: TraceEventKind,
    attr: Attr,
    name: String,
    /// Whether tracing works without it.
    optional: bool,
}

const FIELDS: u32 = abi::PERF_SAMPLE_IDENTIFIER | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME;

/// `PERF_REG_X86_AX` and `PERF_REG_ARM64_X0`. Any register would do: the kernel puts the task's ABI
/// before the registers, and only that is read.
const ANY_REGISTER: u64 = 1;

/// Returns the registers of a 64-bit call's arguments (`PERF_REG_X86_*`), which still hold them at
/// the return. `None` on Arm, where the result has replaced the first argument.
pub(super) fn argument_registers() -> Option<[u32; 6]> {
    const DI_SI_DX_R10_R8_R9: [u32; 6] = [5, 4, 3, 18, 16, 17];
    cfg!(target_arch = "x86_64").then_some(DI_SI_DX_R10_R8_R9)
}

fn attr(kind: u32, config: u64, fields: u32, ring_bytes: u32) -> Attr {
    Attr {
        kind,
        config,
        sampling: Sampling::Period(1),
        sample_type: u64::from(FIELDS | fields),
        flags: Flags::DISABLED | Flags::SAMPLE_ID_ALL | Flags::WATERMARK | Flags::USE_CLOCKID,
        clockid: libc::CLOCK_MONOTONIC,
        wakeup: ring_bytes / 8,
        ..Attr::default()
    }
}

/// Describes an event to open. The signal tracepoint is optional, because kernels may lack it.
fn unopened_event(kind: TraceEventKind, attr: Attr, name: &str) -> UnopenedEvent {
    let optional = matches!(kind, TraceEventKind::Signal);
    UnopenedEvent { kind, attr, name: name.to_owned(), optional }
}

/// Plans the events. Only tracepoints, which include system calls, need tracefs.
fn plan_events(
    wanted: &PerfOptions,
    ring_bytes: u32,
    host: &Host,
) -> Result<Vec<UnopenedEvent>, PerfError> {
    let software =
        |config: u32, fields| attr(abi::PERF_TYPE_SOFTWARE, config.into(), fields, ring_bytes);
    let cpu = if wanted.switches { abi::PERF_SAMPLE_CPU } else { 0 };
    let mut threads = software(abi::PERF_COUNT_SW_DUMMY, cpu);
    threads.flags |= Flags::TASK | Flags::COMM;
    threads.flags.set(Flags::CONTEXT_SWITCH, wanted.switches);
    threads.flags.set(Flags::MMAP | Flags::MMAP2, wanted.stacks.symbols().is_some());
    let mut all = vec![unopened_event(TraceEventKind::Threads, threads, "dummy")];
    for (is_wanted, major, name, config) in [
        (wanted.faults.major, true, "major-faults", abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        (wanted.faults.minor, false, "minor-faults", abi::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    ] {
        if is_wanted {
            let attr = software(config, abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_ADDR);
            all.push(unopened_event(TraceEventKind::Fault { major }, attr, name));
        }
    }
    let no_tracepoints = wanted.tracepoints.is_empty() && wanted.raw.is_empty();
    if !wanted.calls && no_tracepoints && !wanted.stacks.is_of_calls() {
        return Ok(all);
    }
    let tracefs = Tracefs::find(host)?;
    let traced = |config, fields| attr(abi::PERF_TYPE_TRACEPOINT, config, fields, ring_bytes);
    if wanted.calls {
        all.extend(plan_calls(wanted, ring_bytes, &tracefs)?);
    }
    if wanted.stacks.is_of_calls() && !wanted.calls {
        let mut stack = traced(tracefs.id("raw_syscalls", "sys_enter")?, 0);
        copy_stack(&mut stack, wanted);
        all.push(unopened_event(TraceEventKind::Stack, stack, "raw_syscalls:sys_enter"));
    }
    for (at, (system, name)) in wanted.raw.iter().enumerate() {
        let chain = if wanted.chains { abi::PERF_SAMPLE_CALLCHAIN } else { 0 };
        let fields = abi::PERF_SAMPLE_RAW | abi::PERF_SAMPLE_CPU | chain;
        let mut raw = traced(tracefs.id(system, name)?, fields);
        raw.flags.set(Flags::EXCLUDE_CALLCHAIN_USER, wanted.chains);
        all.push(unopened_event(TraceEventKind::Raw(at), raw, &format!("{system}:{name}")));
    }
    for (name, id, format) in tracepoints(&wanted.tracepoints, &tracefs)? {
        let point = Tracepoint { name: name.clone(), format };
        let kind = TraceEventKind::Tracepoint(Box::new(point));
        all.push(unopened_event(kind, traced(id, abi::PERF_SAMPLE_RAW), &name));
    }
    Ok(all)
}

/// Returns the events that trace system calls and signals.
fn plan_calls(
    wanted: &PerfOptions,
    ring_bytes: u32,
    tracefs: &Tracefs,
) -> Result<Vec<UnopenedEvent>, PerfError> {
    let cgroup = if wanted.cgroups { abi::PERF_SAMPLE_CGROUP } else { 0 };
    let fields = abi::PERF_SAMPLE_RAW | cgroup;
    let traced = |id| attr(abi::PERF_TYPE_TRACEPOINT, id, fields, ring_bytes);
    let mut enter = traced(tracefs.id("raw_syscalls", "sys_enter")?);
    enter.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_USER);
    enter.sample_regs_user = ANY_REGISTER;
    copy_stack(&mut enter, wanted);
    let mut exit = traced(tracefs.id("raw_syscalls", "sys_exit")?);
    if let Some(registers) = argument_registers() {
        exit.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_USER);
        exit.sample_regs_user = registers.iter().fold(0, |mask, register| mask | 1 << register);
    }
    let mut all = vec![
        unopened_event(TraceEventKind::Enter, enter, "raw_syscalls:sys_enter"),
        unopened_event(TraceEventKind::Exit, exit, "raw_syscalls:sys_exit"),
    ];
    if let Ok(id) = tracefs.id("signal", "signal_deliver") {
        all.push(unopened_event(TraceEventKind::Signal, traced(id), "signal:signal_deliver"));
    }
    Ok(all)
}

/// Adds the parts of a call chain to an event's samples if call chains are requested: the chain by
/// frame pointers, registers and the stack.
fn copy_stack(attr: &mut Attr, wanted: &PerfOptions) {
    if !wanted.stacks.is_of_calls() {
        return;
    }
    attr.sample_type |= u64::from(
        abi::PERF_SAMPLE_CALLCHAIN | abi::PERF_SAMPLE_REGS_USER | abi::PERF_SAMPLE_STACK_USER,
    );
    attr.flags |= Flags::EXCLUDE_CALLCHAIN_KERNEL;
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = COPIED;
}

/// Returns name, id and format of each requested tracepoint.
fn tracepoints(
    requested: &[(String, String)],
    tracefs: &Tracefs,
) -> Result<Vec<(String, u64, Option<Format>)>, PerfError> {
    let mut all = Vec::new();
    for (system, pattern) in requested {
        let names = tracefs.events(system)?;
        let before = all.len();
        for name in names.iter().filter(|name| matches(pattern, name)) {
            let format = tracefs.format(system, name)?;
            let format = Format::parse(&String::from_utf8_lossy(&format));
            all.push((format!("{system}:{name}"), tracefs.id(system, name)?, format));
        }
        if all.len() == before {
            // No tracepoint matches: this fails with an error that names the pattern.
            tracefs.id(system, pattern)?;
        }
    }
    Ok(all)
}

/// Whether a name matches a pattern in which `*` matches anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

/// Returns the tasks to open events on; `None` for whole CPUs.
fn tasks(follow: &FollowedTasks, host: &Host) -> Result<Option<Vec<i32>>, PerfError> {
    match follow {
        FollowedTasks::All(_) => Ok(None),
        FollowedTasks::Command(child) => Ok(Some(vec![*child])),
        FollowedTasks::Processes(pids) => {
            let mut tids = Vec::new();
            for &pid in pids {
                match procfs::threads(host, pid) {
                    Ok(threads) => tids.extend(threads),
                    Err(_) => return Err(PerfError::NoProcess(pid)),
                }
            }
            Ok(Some(tids))
        }
    }
}

/// The events being opened.
struct Opening<'a> {
    follow: &'a FollowedTasks,
    tasks: Option<Vec<i32>>,
    cpus: &'a [u32],
    ring_bytes: u32,
    opened: OpenTracepoints,
}

pub(super) fn open(
    wanted: &PerfOptions,
    follow: &FollowedTasks,
    ring_bytes: u32,
    host: &Host,
) -> Result<OpenTracepoints, PerfError> {
    let cpus = host.online_cpus().map_err(|source| PerfError::Host {
        path: "/sys/devices/system/cpu/online".to_owned(),
        source,
    })?;
    let mut opening = Opening {
        follow,
        tasks: tasks(follow, host)?,
        cpus: cpus.as_slice(),
        ring_bytes,
        opened: OpenTracepoints::default(),
    };
    for planned in plan_events(wanted, ring_bytes, host)? {
        opening.open(planned)?;
    }
    Ok(opening.opened)
}

impl Opening<'_> {
    /// Opens an event on each task and CPU.
    fn open(&mut self, mut planned: UnopenedEvent) -> Result<(), PerfError> {
        planned.attr.flags.set(Flags::INHERIT, self.tasks.is_some());
        let mut ids = Vec::new();
        for &cpu in self.cpus {
            let targets: Vec<_> = match &self.tasks {
                None => vec![EventTarget::Cpu(cpu)],
                Some(tids) => tids.iter().map(|&tid| EventTarget::TaskOnCpu(tid, cpu)).collect(),
            };
            for target in targets {
                let event = match System.open(&planned.attr, target, None) {
                    Ok(event) => event,
                    Err(_) if planned.optional => continue,
                    // The thread exited meanwhile; its process existed.
                    Err(Errno::SRCH) if matches!(self.follow, FollowedTasks::Processes(_)) => {
                        continue;
                    }
                    Err(errno) => return Err(self.refused(&planned.name, errno)),
                };
                exclude_own_process(&planned.kind, self.tasks.is_none(), &*event);
                ids.push(event.id().map_err(|errno| self.refused(&planned.name, errno))?);
                let added = self.opened.rings.add(cpu, event, self.ring_bytes as usize);
                added.map_err(|error| match error {
                    AddError::Ring(error) => error.into(),
                    AddError::Output(errno) => self.refused(&planned.name, errno),
                })?;
            }
        }
        self.opened.kinds.push(planned.kind);
        self.opened.rings.add_layout(Layout::from(&planned.attr), ids);
        Ok(())
    }

    fn refused(&self, event: &str, errno: Errno) -> PerfError {
        let event = event.to_owned();
        match errno {
            Errno::PERM | Errno::ACCESS => PerfError::NotPermitted { event },
            Errno::MFILE => PerfError::TooManyFiles { cpus: self.cpus.len() },
            _ => PerfError::Open { event, errno },
        }
    }
}

/// Excludes this process from a trace of the whole machine by a filter: otherwise each line that it
/// prints would cause another one. For thread records, faults and raw tracepoints, the decoder
/// does.
fn exclude_own_process(kind: &TraceEventKind, whole_machine: bool, event: &dyn EventFile) {
    let is_traced = !matches!(
        kind,
        TraceEventKind::Threads | TraceEventKind::Fault { .. } | TraceEventKind::Raw(_)
    );
    if whole_machine && is_traced {
        let own = rustix::process::getpid().as_raw_nonzero();
        if let Ok(filter) = std::ffi::CString::new(format!("common_pid != {own}")) {
            // If the kernel refuses the filter, the decoder drops these samples.
            let _ = event.set_filter(&filter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text() {
        let cases = [("sched_*", "sched_switch"), ("*", "x"), ("a*b*c", "axxbyyc"), ("ab", "ab")];
        assert!(cases.iter().all(|(pattern, name)| matches(pattern, name)));
        assert!(!matches("sched_*", "signal") && !matches("a*b*c", "acb") && !matches("ab", "abc"));
    }
}
