//! Options of `tare trace`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tare_events::probes::{self, Probe, ProbeRequest};
use tare_kernel::bpf::SumKey;
use tare_kernel::command::find_in_path;
use tare_kernel::host::Host;
use tare_trace::{
    CallSelection, DescriptorInfo, Faults, FunctionOptions, LineOptions, PerfOptions,
    parse_nanoseconds,
};

use super::{size, symbols, targets};
use crate::cli::raw;
use crate::exit::Refusal;

/// Whose calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceScope {
    /// The command's.
    Command,
    /// Running processes'.
    Processes(Vec<i32>),
    /// The whole machine; with a command until it ends.
    All,
}

/// Form of the output.
#[derive(Clone, Debug)]
pub(crate) enum TraceView {
    /// Sums.
    Summary {
        /// Of these calls.
        calls: CallSelection,
        /// Of what each.
        by: SumKey,
        /// With histograms.
        histograms: bool,
    },
    /// Each call.
    Calls {
        /// Which, and how.
        lines: LineOptions,
        /// What is shown between them.
        wanted: Box<PerfOptions>,
        /// Size of the ring buffer in bytes, a power of two.
        ring_bytes: u32,
    },
    /// Calls of functions.
    FunctionProbes(Box<FunctionProbes>),
    /// Nothing: all goes into this file. How much may wait in the kernel for each CPU, where that is
    /// told.
    Data(PathBuf, Option<u32>),
}

/// Probed functions and places.
#[derive(Clone, Debug)]
pub(crate) struct FunctionProbes {
    /// Which.
    pub(crate) probes: Vec<Probe>,
    /// Whether each call is shown.
    pub(crate) each: bool,
    /// Shortest shown call, in nanoseconds.
    pub(crate) min_duration_ns: u64,
    /// With histograms.
    pub(crate) histograms: bool,
    /// Number of slowest calls to show, and size of the ring buffer.
    pub(crate) options: FunctionOptions,
}

/// Default size of the ring buffer in bytes.
pub(crate) const RING_BYTES: u32 = 8 << 20;

/// Traced tasks, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct TraceTarget {
    pub(crate) command: Vec<OsString>,
    pub(crate) target: TraceScope,
    pub(crate) timeout: Option<Duration>,
}

impl TraceTarget {
    /// # Errors
    /// Fails without a process, or for an id that no process has.
    pub(super) fn new(
        pids: &[i32],
        all: bool,
        command: Vec<OsString>,
        timeout_ms: Option<u64>,
    ) -> Result<Self, Refusal> {
        let target = match (pids, all, command.is_empty()) {
            ([], true, _) => TraceScope::All,
            ([], false, false) => TraceScope::Command,
            ([], false, true) => {
                return Err(Refusal::usage("give a command, -p PID or -a (the whole machine)"));
            }
            (pids, ..) => TraceScope::Processes(targets::tasks(pids)?),
        };
        Ok(Self { command, target, timeout: timeout_ms.map(Duration::from_millis) })
    }
}

/// Resolved options.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) traced: TraceTarget,
    pub(crate) view: TraceView,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Trace {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option makes no sense.
    pub(crate) fn new(raw: raw::TraceArgs) -> Result<Self, Refusal> {
        let (calls, tracepoints) = raw.calls.as_deref().map_or(Ok(Default::default()), |text| {
            CallSelection::with_tracepoints(text)
                .map_err(|error| Refusal::usage(format!("--calls: {error}")))
        })?;
        let wanted = PerfOptions {
            faults: Faults::parse(raw.faults.as_deref())
                .ok_or_else(|| Refusal::usage("--faults: give all, maj or min"))?,
            switches: raw.switches,
            tracepoints,
            stacks: raw.stacks.then(|| symbols::resolve(raw::SymbolSearch::default())),
            ..PerfOptions::default()
        };
        let command = raw.command.clone();
        let traced = TraceTarget::new(&raw.pid, raw.all_cpus, command, raw.timeout)?;
        Ok(Self {
            view: view(&raw, &traced.target, calls, wanted)?,
            traced,
            output: raw.output,
            json: raw.json,
        })
    }
}

fn view(
    raw: &raw::TraceArgs,
    target: &TraceScope,
    calls: CallSelection,
    wanted: PerfOptions,
) -> Result<TraceView, Refusal> {
    if (raw.summary || raw.data.is_some()) && !wanted.tracepoints.is_empty() {
        return Err(Refusal::usage(
            "-e: tracepoints are shown between calls; use `tare record -e` to record them alone",
        ));
    }
    let min_duration_ns = raw.min_duration.as_deref().map_or(Ok(0), |text| {
        parse_nanoseconds(text).ok_or_else(|| {
            Refusal::usage(format!(
                "--min-duration {text}: give a time such as 500ns, 10us, 1ms or 2s"
            ))
        })
    })?;
    let ring_bytes = ring_bytes(raw.ring_size.as_deref())?;
    let probes = probes(raw, target)?;
    if !probes.is_empty() {
        let symbols = symbols::resolve(raw::SymbolSearch::default());
        return Ok(TraceView::FunctionProbes(Box::new(FunctionProbes {
            probes,
            each: raw.each,
            min_duration_ns,
            histograms: raw.hist,
            options: FunctionOptions { slowest: raw.slowest, symbols, ring_bytes },
        })));
    }
    if let Some(file) = &raw.data {
        let ring_bytes = raw.ring_size.is_some().then_some(ring_bytes);
        return Ok(TraceView::Data(file.clone(), ring_bytes));
    }
    if raw.summary {
        let by = match (raw.per_thread, raw.per_cgroup) {
            (true, _) => SumKey::Thread,
            (_, true) => SumKey::Cgroup,
            _ => SumKey::Call,
        };
        return Ok(TraceView::Summary { calls, by, histograms: raw.hist });
    }
    let lines = LineOptions {
        calls,
        string: raw.string_limit.into(),
        durations: raw.durations,
        failures: raw.failures,
        min_duration_ns,
        json: raw.json,
        descriptors: match raw.decode_fds {
            0 => DescriptorInfo::Number,
            1 => DescriptorInfo::Path,
            _ => DescriptorInfo::Details,
        },
    };
    Ok(TraceView::Calls { lines, wanted: Box::new(wanted), ring_bytes })
}

/// Parses `--ring-size`.
pub(super) fn ring_bytes(typed: Option<&str>) -> Result<u32, Refusal> {
    typed.map_or(Ok(RING_BYTES), |text| {
        let bytes = size::bytes(text, 1).and_then(|bytes| u32::try_from(bytes).ok());
        let fits = |bytes: &u32| bytes.is_power_of_two() && (1 << 16..=1 << 30).contains(bytes);
        bytes.filter(fits).ok_or_else(|| {
            Refusal::usage(format!("--ring-size {text}: give a power of two from 64K to 1G"))
        })
    })
}

/// The functions and places that are asked for.
fn probes(raw: &raw::TraceArgs, target: &TraceScope) -> Result<Vec<Probe>, Refusal> {
    let path = std::env::var_os("PATH");
    let find = |name: &str| find_in_path(name.as_ref(), path.as_deref());
    let files = || match target {
        TraceScope::Processes(pids) => {
            pids.iter().flat_map(|&pid| probes::list_mapped_files(&Host::default(), pid)).collect()
        }
        _ => raw
            .command
            .first()
            .and_then(|word| word.to_str())
            .map(PathBuf::from)
            .into_iter()
            .collect(),
    };
    let request =
        ProbeRequest { functions: &raw.probe, kernel_functions: &raw.kprobe, usdt: &raw.usdt };
    request.resolve(files, &find).map_err(|error| Refusal::usage(error.to_string()))
}
