//! Rate and contents of samples.

use tare_events::{CallGraph, branch_kind, branch_kinds};
use tare_format::abi::Flags;
use tare_format::abi::bindings as abi;
use tare_record::options::{Budget, Callchains, Levels, Rate, Sampling, Target};

use super::registers;
use crate::cli::raw;
use crate::exit::Refusal;

/// Default bytes of stack in a sample, as in perf.
const STACK_BYTES: u32 = 8192;
/// Kernel's limit of `sample_stack_user` in bytes, a multiple of eight below 64 KiB.
const LARGEST_STACK: u32 = 65_528;

pub(super) fn resolve(
    raw: &raw::RecordArgs,
    target: &Target,
    levels: Levels,
) -> Result<Sampling, Refusal> {
    let bpf_events = !raw.output.no_bpf_event;
    let raw = &raw.sampling;
    let (call_graph, stack_bytes) = call_graph(raw)?;
    if raw.latency && matches!(target, Target::Cpus(_) | Target::Cgroups { .. }) {
        return Err(Refusal::usage(
            "--latency: it counts the running threads of a program; give a command, or -p PID",
        ));
    }
    let mut tracking = Flags::empty();
    tracking.set(Flags::MMAP_DATA, raw.data || raw.phys_data || raw.data_page_size);
    tracking.set(Flags::CONTEXT_SWITCH, raw.switch_events || raw.latency);
    tracking.set(Flags::NAMESPACES, raw.namespaces);
    tracking.set(Flags::CGROUP, raw.sampler.all_cgroups);
    tracking.set(Flags::BUILD_ID, raw.buildid_mmap);
    tracking.set(Flags::BPF_EVENT, bpf_events);
    let registers = |option, text: &Option<String>| {
        text.as_deref().map_or(Ok(0), |text| registers::parse(option, text))
    };
    Ok(Sampling {
        rate: rate(raw)?,
        strict_frequency: raw.strict_freq,
        budget: budget(raw)?,
        call_graph,
        call_graph_of_tracepoints: raw.sampler.with_call_graph || raw.sampler.call_graph.is_some(),
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
        all_cgroups: raw.sampler.all_cgroups,
        levels,
    })
}

fn rate(raw: &raw::record::SamplingArgs) -> Result<Rate, Refusal> {
    Ok(match (raw.no_samples, raw.sampler.count, raw.sampler.frequency.as_deref()) {
        (true, ..) => Rate::Never,
        (_, Some(period), _) => Rate::Period(period),
        (_, _, None) => Rate::OfEvent,
        (_, _, Some("max")) => Rate::MaxFrequency,
        (_, _, Some(text)) => match text.parse() {
            Ok(hz) if hz > 0 => Rate::Frequency(hz),
            _ => return Err(Refusal::usage(format!("-F {text}: give a frequency in Hz, or max"))),
        },
    })
}

fn budget(raw: &raw::record::SamplingArgs) -> Result<Option<Budget>, Refusal> {
    let Some(text) = raw.sampler.max_overhead.as_deref() else { return Ok(None) };
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 50.0 => {
            Ok(Some(Budget { share: percent / 100.0, min_hz: raw.sampler.min_rate }))
        }
        _ => Err(Refusal::usage(format!(
            "--max-overhead {text}: give percent, above 0 and at most 50, as in 1%"
        ))),
    }
}

fn call_graph(raw: &raw::record::SamplingArgs) -> Result<(CallGraph, u32), Refusal> {
    if raw.no_call_graph {
        return Ok((CallGraph::No, STACK_BYTES));
    }
    let Some(text) = raw.sampler.call_graph.as_deref() else {
        return Ok(match raw.sampler.with_call_graph {
            true => (CallGraph::Auto, 0),
            false => (CallGraph::FramePointer, STACK_BYTES),
        });
    };
    let refuse = |why: &str| Refusal::usage(format!("--call-graph {text}: {why}"));
    match text.split_once(',') {
        None => match text {
            "auto" => Ok((CallGraph::Auto, 0)),
            "fp" => Ok((CallGraph::FramePointer, STACK_BYTES)),
            "dwarf" => Ok((CallGraph::Dwarf, STACK_BYTES)),
            "dwarf+fp" => Ok((CallGraph::DwarfAndFramePointer, STACK_BYTES)),
            "lbr" => Ok((CallGraph::LastBranchRecord, STACK_BYTES)),
            _ => {
                Err(refuse("give auto[,BYTES], fp[,defer], dwarf[,BYTES], dwarf+fp[,BYTES] or lbr"))
            }
        },
        Some(("fp", "defer")) => Ok((CallGraph::DeferredFramePointer, STACK_BYTES)),
        Some((how @ ("auto" | "dwarf" | "dwarf+fp"), bytes)) => {
            let bytes = bytes.parse().ok().filter(|bytes| (8..=LARGEST_STACK).contains(bytes));
            let bytes = bytes.ok_or_else(|| {
                refuse(&format!("a sample holds 8 to {LARGEST_STACK} bytes of the stack"))
            })?;
            let how = match how {
                "auto" => CallGraph::Auto,
                "dwarf" => CallGraph::Dwarf,
                _ => CallGraph::DwarfAndFramePointer,
            };
            Ok((how, bytes.next_multiple_of(8)))
        }
        Some(_) => Err(refuse("only dwarf takes a size, as in dwarf,16384")),
    }
}

fn branches(raw: &raw::record::SamplingArgs) -> Result<Option<u64>, Refusal> {
    if raw.branch_any {
        return Ok(Some(abi::PERF_SAMPLE_BRANCH_ANY.into()));
    }
    let mut bits = 0;
    for name in &raw.branch_filter {
        let unknown = || {
            Refusal::usage(format!(
                "-j: unknown kind of branch '{name}'; known kinds: {}",
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

fn fields(raw: &raw::record::SamplingArgs) -> u64 {
    let fields = [
        (raw.data, abi::PERF_SAMPLE_ADDR),
        (raw.phys_data, abi::PERF_SAMPLE_PHYS_ADDR),
        (raw.data_page_size, abi::PERF_SAMPLE_DATA_PAGE_SIZE),
        (raw.code_page_size, abi::PERF_SAMPLE_CODE_PAGE_SIZE),
        (raw.weight, abi::PERF_SAMPLE_WEIGHT_STRUCT),
        (raw.transaction, abi::PERF_SAMPLE_TRANSACTION),
        (raw.period, abi::PERF_SAMPLE_PERIOD),
        (raw.sample_cpu, abi::PERF_SAMPLE_CPU),
        (raw.raw_samples, abi::PERF_SAMPLE_RAW),
        (raw.sampler.all_cgroups, abi::PERF_SAMPLE_CGROUP),
    ];
    fields
        .into_iter()
        .filter(|(is_typed, _)| *is_typed)
        .fold(0, |bits, (_, field)| bits | u64::from(field))
}

/// `CLOCK_TAI` of `include/uapi/linux/time.h`.
const CLOCK_TAI: i32 = 11;

/// Parses a clock, by perf's name or by number; `None` for the kernel's own. Only the kernel checks
/// numbers (`perf_event_set_clock`).
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
