//! How events are sampled.

use tare_events::{CallGraph, Event, branch_kind, branch_kinds};
use tare_format::abi::Flags;
use tare_format::abi::bindings as abi;

use super::registers;
use crate::cli::raw;
use crate::exit::Refusal;

/// Bytes of the stack that a sample holds where the user doesn't say: perf's choice.
const STACK_BYTES: u32 = 8192;
/// What the kernel takes at most (`sample_stack_user`), a multiple of eight below 64 KiB.
const LARGEST_STACK: u32 = 65_528;

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

impl Sampling {
    pub(super) fn resolve(raw: &raw::record::Sampling, bpf_events: bool) -> Result<Self, Refusal> {
        let (call_graph, stack_bytes) = call_graph(raw)?;
        let mut tracking = Flags::empty();
        tracking.set(Flags::MMAP_DATA, raw.data || raw.phys_data || raw.data_page_size);
        tracking.set(Flags::CONTEXT_SWITCH, raw.switch_events);
        tracking.set(Flags::NAMESPACES, raw.namespaces);
        tracking.set(Flags::CGROUP, raw.all_cgroups);
        tracking.set(Flags::BUILD_ID, raw.buildid_mmap);
        tracking.set(Flags::BPF_EVENT, bpf_events);
        let registers = |option, text: &Option<String>| {
            text.as_deref().map_or(Ok(0), |text| registers::parse(option, text))
        };
        Ok(Self {
            rate: rate(raw)?,
            strict_frequency: raw.strict_freq,
            budget: budget(raw)?,
            call_graph,
            call_graph_of_tracepoints: raw.with_call_graph || raw.call_graph.is_some(),
            stack_bytes,
            callchains: match (raw.user_callchains, raw.kernel_callchains) {
                (true, _) => Callchains::User,
                (_, true) => Callchains::Kernel,
                _ => Callchains::Both,
            },
            branches: branches(raw)?,
            fields: fields(raw),
            user_registers: registers("--user-regs", &raw.user_regs)?,
            interrupt_registers: registers("--intr-regs", &raw.intr_regs)?,
            clock: clock(raw.clockid.as_deref())?,
            tracking,
            counts_of_threads: raw.stat,
            fixed_periods: false,
            all_cgroups: raw.all_cgroups,
            levels: match (raw.all_user, raw.all_kernel) {
                (true, _) => Levels::User,
                (_, true) => Levels::Kernel,
                _ => Levels::OfEvent,
            },
        })
    }

    /// Restricts an event to the levels of all, and refuses what a recording can't do for it.
    pub(super) fn apply_levels(&self, event: &mut Event) -> Result<(), Refusal> {
        let refuse = |what: &str| Err(Refusal::usage(format!("{}: {what}", event.name)));
        if event.percore {
            return refuse("percore sums up counts, and samples have none: leave it out");
        }
        if event.sampling.aux_output || event.sampling.aux_sample_size.is_some() {
            return refuse(
                "tare records no AUX area (Intel PT, CoreSight): leave the aux terms out",
            );
        }
        if event.sampling.max_events.is_some() {
            return refuse(
                "nr limits what is shown, and a recording shows nothing: leave it out, or end the recording with --max-size",
            );
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

fn rate(raw: &raw::record::Sampling) -> Result<Rate, Refusal> {
    Ok(match (raw.no_samples, raw.count, raw.frequency.as_deref()) {
        (true, ..) => Rate::Never,
        (_, Some(period), _) => Rate::Period(period),
        (_, _, None) => Rate::OfEvent,
        (_, _, Some("max")) => Rate::MaxFrequency,
        (_, _, Some(text)) => match text.parse() {
            Ok(hz) if hz > 0 => Rate::Frequency(hz),
            _ => return Err(Refusal::usage(format!("-F {text}: give samples a second, or max"))),
        },
    })
}

fn budget(raw: &raw::record::Sampling) -> Result<Option<Budget>, Refusal> {
    let Some(text) = raw.max_overhead.as_deref() else { return Ok(None) };
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 50.0 => {
            Ok(Some(Budget { share: percent / 100.0, min_hz: raw.min_rate }))
        }
        _ => Err(Refusal::usage(format!(
            "--max-overhead {text}: give percent, above 0 and at most 50, as in 1%"
        ))),
    }
}

fn call_graph(raw: &raw::record::Sampling) -> Result<(CallGraph, u32), Refusal> {
    if raw.no_call_graph {
        return Ok((CallGraph::No, STACK_BYTES));
    }
    let Some(text) = raw.call_graph.as_deref() else {
        return Ok((CallGraph::FramePointer, STACK_BYTES));
    };
    let refuse = |why: &str| Refusal::usage(format!("--call-graph {text}: {why}"));
    match text.split_once(',') {
        None => match text {
            "fp" => Ok((CallGraph::FramePointer, STACK_BYTES)),
            "dwarf" => Ok((CallGraph::Dwarf, STACK_BYTES)),
            "lbr" => Ok((CallGraph::LastBranchRecord, STACK_BYTES)),
            _ => Err(refuse("give fp, dwarf[,BYTES] or lbr")),
        },
        Some(("dwarf", bytes)) => {
            let bytes = bytes.parse().ok().filter(|bytes| (8..=LARGEST_STACK).contains(bytes));
            let bytes = bytes.ok_or_else(|| {
                refuse(&format!("a sample holds 8 to {LARGEST_STACK} bytes of the stack"))
            })?;
            Ok((CallGraph::Dwarf, bytes.next_multiple_of(8)))
        }
        Some(_) => Err(refuse("only dwarf takes a size, as in dwarf,16384")),
    }
}

fn branches(raw: &raw::record::Sampling) -> Result<Option<u64>, Refusal> {
    if raw.branch_any {
        return Ok(Some(abi::PERF_SAMPLE_BRANCH_ANY.into()));
    }
    let mut bits = 0;
    for name in &raw.branch_filter {
        let unknown = || {
            Refusal::usage(format!(
                "-j: there is no kind of branch '{name}'; there are {}",
                branch_kinds().collect::<Vec<_>>().join(", ")
            ))
        };
        bits |= branch_kind(name).ok_or_else(unknown)?;
    }
    let levels = u64::from(
        abi::PERF_SAMPLE_BRANCH_USER | abi::PERF_SAMPLE_BRANCH_KERNEL | abi::PERF_SAMPLE_BRANCH_HV,
    );
    let kinds = if bits != 0 && bits & !levels == 0 {
        bits | u64::from(abi::PERF_SAMPLE_BRANCH_ANY)
    } else {
        bits
    };
    Ok((kinds != 0).then_some(kinds))
}

fn fields(raw: &raw::record::Sampling) -> u64 {
    let asked = [
        (raw.data, abi::PERF_SAMPLE_ADDR),
        (raw.phys_data, abi::PERF_SAMPLE_PHYS_ADDR),
        (raw.data_page_size, abi::PERF_SAMPLE_DATA_PAGE_SIZE),
        (raw.code_page_size, abi::PERF_SAMPLE_CODE_PAGE_SIZE),
        (raw.weight, abi::PERF_SAMPLE_WEIGHT_STRUCT),
        (raw.transaction, abi::PERF_SAMPLE_TRANSACTION),
        (raw.period, abi::PERF_SAMPLE_PERIOD),
        (raw.sample_cpu, abi::PERF_SAMPLE_CPU),
        (raw.raw_samples, abi::PERF_SAMPLE_RAW),
        (raw.all_cgroups, abi::PERF_SAMPLE_CGROUP),
    ];
    asked
        .into_iter()
        .filter(|(asked, _)| *asked)
        .fold(0, |bits, (_, field)| bits | u64::from(field))
}

/// `include/uapi/linux/time.h`; rustix has no name for it.
const CLOCK_TAI: i32 = 11;

/// The clocks that the kernel takes for events (`perf_event_set_clock`), by perf's names for them.
fn clock(typed: Option<&str>) -> Result<Option<i32>, Refusal> {
    use rustix::time::ClockId;
    let Some(text) = typed else { return Ok(Some(ClockId::Monotonic as i32)) };
    let lower = text.to_ascii_lowercase();
    let clock = match lower.strip_prefix("clock_").unwrap_or(&lower) {
        "perf" => return Ok(None),
        "monotonic" | "mono" => ClockId::Monotonic,
        "monotonic_raw" | "raw" => ClockId::MonotonicRaw,
        "realtime" | "real" => ClockId::Realtime,
        "boottime" | "boot" => ClockId::Boottime,
        "tai" => return Ok(Some(CLOCK_TAI)),
        number => {
            return number.parse().map(Some).map_err(|_| {
                Refusal::usage(format!("-k {text}: give mono, raw, real, boot, tai or perf"))
            });
        }
    };
    Ok(Some(clock as i32))
}
