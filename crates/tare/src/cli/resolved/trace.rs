//! Options of `tare trace`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_events::probes::{self, Probe, ProbeFiles, ProbeRequest};
use tare_kernel::bpf::SumKey;
use tare_kernel::command::find_in_path;
use tare_kernel::functions::ProbeLocation;
use tare_kernel::host::Host;
use tare_render::count;
use tare_trace::{
    CallSelection, DescriptorInfo, Faults, FunctionOptions, HexStrings, LineOptions, LineStamps,
    LineTime, PerfOptions, SignalSelection, UnwoundStacks, parse_nanoseconds,
};

use super::{size, symbols, targets};
use crate::cli::{perf, raw};
use crate::exit::{Refusal, say};

/// The tasks to trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceScope {
    /// The command and its children.
    Command,
    /// Running processes and their children.
    Processes(Vec<i32>),
    /// The whole machine, until the command exits if there is one.
    All,
}

/// Form of the output.
#[derive(Clone, Debug)]
pub(crate) enum TraceView {
    /// Sums of calls.
    Summary {
        /// The calls to sum up.
        calls: CallSelection,
        /// How calls are grouped: by call, or by call and thread or cgroup.
        by: SumKey,
        /// Whether to print histograms.
        histograms: bool,
    },
    /// A line for each call.
    Calls(Box<CallLines>),
    /// A line for each call of a recording.
    Recorded(PathBuf, Box<CallLines>),
    /// Calls of functions.
    FunctionProbes(Box<FunctionProbes>),
    /// A recording in this file. The size of each CPU's ring buffer in bytes, if given.
    Data(PathBuf, Option<u32>),
}

/// Options of printing a line for each call.
#[derive(Clone, Debug)]
pub(crate) struct CallLines {
    /// The calls to print, and their layout.
    pub(crate) lines: LineOptions,
    /// The events to print between calls.
    pub(crate) wanted: PerfOptions,
    /// Size of the ring buffer in bytes, a power of two.
    pub(crate) ring_bytes: u32,
    /// Number of lines after which the trace ends.
    pub(crate) max_lines: Option<u64>,
    /// Whether to print sums at the end.
    pub(crate) totals: bool,
}

/// Probed functions and places.
#[derive(Clone, Debug)]
pub(crate) struct FunctionProbes {
    /// The functions and places.
    pub(crate) probes: Vec<Probe>,
    /// Whether to print each call.
    pub(crate) each: bool,
    /// Shortest duration of a printed call, in nanoseconds.
    pub(crate) min_duration_ns: u64,
    /// Whether to print histograms.
    pub(crate) histograms: bool,
    /// The tracer's options.
    pub(crate) options: FunctionOptions,
}

/// Default size of the ring buffer in bytes.
pub(crate) const RING_BYTES: u32 = 8 << 20;

/// The tasks to trace, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct TraceTarget {
    pub(crate) command: Vec<OsString>,
    pub(crate) target: TraceScope,
    pub(crate) timeout: Option<Duration>,
}

impl TraceTarget {
    /// Resolves the options that name tasks, and the end of tracing.
    ///
    /// # Errors
    /// Fails if there is no command, `-p` or `-a`, or if `-p` has an id below 1.
    pub(super) fn resolve(raw: &raw::TracedArgs) -> Result<Self, Refusal> {
        let pids = raw.pids();
        let target = match (raw.all_cpus, raw.command.is_empty()) {
            _ if !pids.is_empty() => TraceScope::Processes(targets::tasks(pids)?),
            (true, _) => TraceScope::All,
            (false, false) => TraceScope::Command,
            (false, true) => {
                return Err(Refusal::usage("give a command, -p PID or -a (the whole machine)"));
            }
        };
        Ok(Self { command: raw.command.clone(), target, timeout: raw.end.duration() })
    }
}

/// The resolved options of `tare trace`.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) traced: TraceTarget,
    pub(crate) view: TraceView,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

/// The events that all `-e` select.
struct ChosenEvents {
    calls: CallSelection,
    /// System and name of tracepoints.
    tracepoints: Vec<(String, String)>,
    signals: SignalSelection,
    /// A value of `--faults`.
    faults: Option<&'static str>,
}

impl ChosenEvents {
    /// Parses all `-e`. With `with_calls`, a list of page faults alone selects all calls too.
    fn parse(typed: &[String], with_calls: bool) -> Result<Self, Refusal> {
        let mut signals = SignalSelection::default();
        let mut lists = Vec::new();
        for text in typed {
            let set =
                ["signal=", "signals=", "s="].iter().find_map(|start| text.strip_prefix(start));
            match set {
                Some(set) => {
                    signals = SignalSelection::parse(set).ok_or_else(|| {
                        Refusal::usage(format!(
                            "-e {text}: give names of signals such as SIGTERM, all or none"
                        ))
                    })?;
                }
                None => {
                    lists.push(
                        ["trace=", "t="].iter().find_map(|p| text.strip_prefix(p)).unwrap_or(text),
                    );
                }
            }
        }
        let joined = (!lists.is_empty()).then(|| lists.join(","));
        let (typed, faults) = split_faults(joined.as_deref());
        let typed = typed.filter(|calls| !(with_calls && calls == "none"));
        let (calls, tracepoints) = typed.as_deref().map_or(Ok(Default::default()), |text| {
            CallSelection::with_tracepoints(text)
                .map_err(|error| Refusal::usage(format!("--calls: {error}")))
        })?;
        Ok(Self { calls, tracepoints, signals, faults })
    }
}

impl Trace {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn new(raw: raw::TraceArgs) -> Result<Self, Refusal> {
        let ChosenEvents { calls, tracepoints, signals, faults } =
            ChosenEvents::parse(&raw.calls, raw.syscalls)?;
        let calls = if raw.no_syscalls { no_calls()? } else { calls };
        let wanted = PerfOptions {
            faults: Faults::parse(raw.faults.as_deref().or(faults))
                .ok_or_else(|| Refusal::usage("--faults: give all, maj or min"))?,
            switches: raw.switches,
            tracepoints,
            stacks: if raw.stacks || raw.call_graph.is_some() {
                UnwoundStacks::Calls(symbols::resolve(raw::SymbolSearch::default()))
            } else {
                UnwoundStacks::Nothing
            },
            ..PerfOptions::default()
        };
        let traced = if raw.input.is_some() {
            TraceTarget { command: Vec::new(), target: TraceScope::All, timeout: None }
        } else {
            TraceTarget::resolve(&raw.traced)?
        };
        refuse_values_of_perf(&raw)?;
        Ok(Self {
            view: view(&raw, &traced.target, (calls, signals), wanted)?,
            traced,
            output: raw.result.output,
            json: raw.json,
        })
    }
}

/// Refuses perf's `-C CPUS` and `-t TID`, which are flags here, as in strace: the value would be
/// the command.
fn refuse_values_of_perf(raw: &raw::TraceArgs) -> Result<(), Refusal> {
    let option = match (raw.with_summary, raw.timestamps) {
        (true, _) => "--cpu",
        (_, 1..) => "--tid",
        _ => return Ok(()),
    };
    let word = raw.traced.command.first().and_then(|word| word.to_str());
    let word = word.filter(|_| !raw.traced.after_dashes).unwrap_or_default();
    let is_list = word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || ",-".contains(c));
    let path = std::env::var_os("PATH");
    if !is_list || find_in_path(word.as_ref(), path.as_deref()).is_some() {
        return Ok(());
    }
    perf::answer_option("trace", option).map_or(Ok(()), |answer| Err(Refusal::usage(answer)))
}

fn view(
    raw: &raw::TraceArgs,
    target: &TraceScope,
    chosen: (CallSelection, SignalSelection),
    wanted: PerfOptions,
) -> Result<TraceView, Refusal> {
    if (raw.summary || raw.data.is_some()) && !wanted.tracepoints.is_empty() {
        return Err(Refusal::usage(
            "-e: tracepoints are shown between calls; use `tare record -e` to record them alone",
        ));
    }
    let min_duration_ns = min_duration_ns(raw)?;
    let ring_bytes = ring_bytes(raw.ring.ring_size.as_deref())?;
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
        let ring_bytes = raw.ring.ring_size.is_some().then_some(ring_bytes);
        return Ok(TraceView::Data(file.clone(), ring_bytes));
    }
    if raw.summary {
        let by = match (raw.per_thread, raw.per_cgroup) {
            (true, _) => SumKey::Thread,
            (_, true) => SumKey::Cgroup,
            _ => SumKey::Call,
        };
        return Ok(TraceView::Summary { calls: chosen.0, by, histograms: raw.hist });
    }
    let lines = line_options(raw, chosen, min_duration_ns);
    let max_lines = raw.max_events;
    let totals = raw.with_summary;
    let lines = Box::new(CallLines { lines, wanted, ring_bytes, max_lines, totals });
    Ok(match &raw.input {
        Some(input) => TraceView::Recorded(input.clone(), lines),
        None => TraceView::Calls(lines),
    })
}

/// Resolves which calls and signals are printed, and how.
fn line_options(
    raw: &raw::TraceArgs,
    chosen: (CallSelection, SignalSelection),
    min_duration_ns: u64,
) -> LineOptions {
    LineOptions {
        calls: chosen.0,
        signals: chosen.1,
        stamps: LineStamps {
            time: match raw.timestamps {
                0 => LineTime::Nothing,
                1 => LineTime::Second,
                2 => LineTime::Microsecond,
                _ => LineTime::SinceEpoch,
            },
            is_relative: raw.relative_timestamps,
        },
        paths: raw.trace_path.iter().map(|path| path.as_bytes().to_vec()).collect(),
        hex: match raw.strings_in_hex {
            0 => HexStrings::Nothing,
            1 => HexStrings::NotText,
            _ => HexStrings::All,
        },
        environments: raw.no_abbrev,
        numbers: raw.syscall_number,
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
    }
}

/// Takes perf's events of page faults out of the calls, as a value of `--faults`. A list of faults
/// alone selects no call.
fn split_faults(calls: Option<&str>) -> (Option<String>, Option<&'static str>) {
    const EVENTS: [(&str, &str); 4] = [
        ("page-faults", "all"),
        ("faults", "all"),
        ("major-faults", "maj"),
        ("minor-faults", "min"),
    ];
    let Some(calls) = calls else { return (None, None) };
    let find = |word: &str| EVENTS.iter().find(|(event, _)| *event == word.trim());
    let faults = calls.split(',').find_map(find).map(|(_, which)| *which);
    let others: Vec<&str> = calls.split(',').filter(|word| find(word).is_none()).collect();
    let others = if others.is_empty() { "none".to_owned() } else { others.join(",") };
    (Some(others), faults)
}

/// Selects no system call.
fn no_calls() -> Result<CallSelection, Refusal> {
    CallSelection::parse("none").map_err(|error| Refusal::usage(error.to_string()))
}

/// Resolves `--min-duration`, or perf's `--duration` in milliseconds.
fn min_duration_ns(raw: &raw::TraceArgs) -> Result<u64, Refusal> {
    if let Some(milliseconds) = raw.duration {
        let duration = Duration::try_from_secs_f64(milliseconds / 1e3)
            .ok()
            .and_then(|duration| u64::try_from(duration.as_nanos()).ok());
        return duration
            .ok_or_else(|| Refusal::usage(format!("--duration {milliseconds}: not a duration")));
    }
    raw.min_duration.as_deref().map_or(Ok(0), |text| {
        parse_nanoseconds(text).ok_or_else(|| {
            Refusal::usage(format!(
                "--min-duration {text}: give a time such as 500ns, 10us, 1ms or 2s"
            ))
        })
    })
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

/// Returns the functions and places to probe.
fn probes(raw: &raw::TraceArgs, target: &TraceScope) -> Result<Vec<Probe>, Refusal> {
    let path = std::env::var_os("PATH");
    let find = |name: &str| find_in_path(name.as_ref(), path.as_deref());
    let pids = match target {
        TraceScope::Processes(pids) => pids.as_slice(),
        _ => &[],
    };
    let host = Host::default();
    let default = || -> Vec<PathBuf> {
        if !pids.is_empty() {
            return pids.iter().flat_map(|&pid| probes::list_mapped_files(&host, pid)).collect();
        }
        let program = raw.traced.command.first().and_then(|word| word.to_str());
        let program = program.map(|word| match word.contains('/') {
            true => PathBuf::from(word),
            false => find(word).unwrap_or_else(|| word.into()),
        });
        program.into_iter().collect()
    };
    let request =
        ProbeRequest { functions: &raw.probe, kernel_functions: &raw.kprobe, usdt: &raw.usdt };
    let files = ProbeFiles { find: &find, pids };
    let mut probes =
        request.resolve(default, &files).map_err(|error| Refusal::usage(error.to_string()))?;
    warn_about_functions(&probes, pids, &host);
    if !raw.probe_returns {
        leave_out_returns(&mut probes, pids, &host)?;
    }
    Ok(probes)
}

/// Says which names stand for several functions, and which files the traced processes don't map.
fn warn_about_functions(probes: &[Probe], pids: &[i32], host: &Host) {
    let several = probes.iter().filter(|probe| probe.is_one_of_several);
    let names: Vec<&str> = several.map(|probe| probe.name.as_str()).collect();
    if !names.is_empty() {
        say(&format!(
            "several functions have this name, and each has its own line: {} (FILE:0xOFFSET selects one)",
            shorten(&names)
        ));
    }
    for probe in probes.iter().filter(|probe| probe.inlined > 0) {
        say(&format!(
            "{}: the compiler inlined this function at {}; calls there aren't counted",
            probe.name,
            count(probe.inlined as u64, "place")
        ));
    }
    for probe in probes {
        let Some(others) = &probe.selected_with else { continue };
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let shared = match others.as_slice() {
            [] => String::new(),
            others => format!("; calls of {} count too, as they use the same", shorten(others)),
        };
        say(&format!(
            "{}: the probe is on the implementation that is selected on this machine{shared}",
            probe.name
        ));
    }
    let mut files: Vec<&Path> = probes.iter().filter_map(probed_file).collect();
    files.dedup();
    for file in files {
        let is_unmapped = |&&pid: &&i32| probes::maps_file(host, pid, file) == Some(false);
        let unmapped: Vec<String> = pids.iter().filter(is_unmapped).map(i32::to_string).collect();
        if !unmapped.is_empty() {
            let process = if unmapped.len() == 1 { "process" } else { "processes" };
            say(&format!(
                "{}: not mapped by {process} {}, so no call there is counted (/proc/PID/maps lists the mapped files)",
                file.display(),
                unmapped.join(", ")
            ));
        }
    }
}

/// Joins names, at most the first eight.
fn shorten(names: &[&str]) -> String {
    const MAX_NAMES: usize = 8;
    match names.get(..MAX_NAMES) {
        Some(first) if names.len() > MAX_NAMES => {
            format!("{} and {} more", first.join(", "), names.len() - MAX_NAMES)
        }
        _ => names.join(", "),
    }
}

/// Returns the file that a probe is set in; `None` for the kernel.
fn probed_file(probe: &Probe) -> Option<&Path> {
    match &probe.places.first()?.location {
        ProbeLocation::File { path, .. } => Some(Path::new(OsStr::from_bytes(path.to_bytes()))),
        ProbeLocation::Kernel { .. } => None,
    }
}

/// Counts calls without times where a probe on the return could end the program. Refuses a probe
/// that then lacks its `$retval`.
fn leave_out_returns(probes: &mut [Probe], pids: &[i32], host: &Host) -> Result<(), Refusal> {
    let mut hazards: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    let mut counted: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for probe in probes {
        let file = probed_file(probe).filter(|_| probe.returns).map(Path::to_owned);
        let Some(file) = file else { continue };
        let hazard = hazards.entry(file).or_insert_with_key(|file| find_hazard(file, pids, host));
        let Some(hazard) = hazard.clone() else { continue };
        if probe.reads_at_return() {
            return Err(Refusal::usage(format!(
                "{}: $retval and @return need a probe on the return, which could end the program: {hazard}; --probe-returns sets it all the same",
                probe.name
            )));
        }
        probe.returns = false;
        counted.entry(hazard).or_default().push(&probe.name);
    }
    for (hazard, names) in counted {
        say(&format!(
            "{}: calls are counted without times, because a probe on the return could end the program: {hazard}; --probe-returns times them all the same",
            shorten(&names)
        ));
    }
    Ok(())
}

/// Returns why a probe on the returns of a file's functions could end a program.
fn find_hazard(file: &Path, pids: &[i32], host: &Host) -> Option<String> {
    probes::returns_hazard(file).or_else(|| {
        let mapped = pids.iter().flat_map(|&pid| probes::list_mapped_files(host, pid));
        let mapped: Vec<PathBuf> = mapped.collect();
        let throws = probes::maps_unwinder(mapped.iter().map(PathBuf::as_path));
        throws.then(|| "the process may throw exceptions through it".to_owned())
    })
}
