//! Whose system calls are traced, which of them, and in which form they are shown.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tare_kernel::bpf::By;
use tare_trace::{Chosen, DescriptorInfo, Faults, LineOptions, PerfOptions};

use super::{size, symbols, targets};
use crate::cli::raw;
use crate::exit::Refusal;

/// Whose calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The command's.
    Command,
    /// Running processes'.
    Processes(Vec<i32>),
    /// Everybody's; with a command until that ends.
    All,
}

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) enum View {
    /// Sums.
    Summary {
        /// Of these calls.
        calls: Chosen,
        /// Of what each.
        by: By,
        /// With histograms.
        histograms: bool,
    },
    /// Each call.
    Calls {
        /// Which, and how.
        lines: LineOptions,
        /// What is shown between them.
        wanted: Box<PerfOptions>,
        /// How much may wait in the kernel, a power of two.
        ring_bytes: u32,
    },
    /// Nothing: all goes into this file.
    Data(PathBuf),
}

/// How much of strings is shown, in bytes: as with strace.
const STRING: u16 = 32;
/// How much may wait in the kernel.
pub(crate) const RING_BYTES: u32 = 8 << 20;

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) command: Vec<OsString>,
    pub(crate) target: Target,
    pub(crate) view: View,
    pub(crate) timeout: Option<Duration>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Trace {
    /// Works out what is to be done.
    ///
    /// # Errors
    /// An option that makes no sense, in a line that says what would.
    pub(crate) fn new(raw: raw::Trace) -> Result<Self, Refusal> {
        let target = match (raw.pid.as_slice(), raw.all_cpus, raw.command.is_empty()) {
            ([], true, _) => Target::All,
            ([], false, false) => Target::Command,
            ([], false, true) => {
                return Err(Refusal::usage("give a command, -p PID or -a (the whole machine)"));
            }
            (pids, ..) => Target::Processes(targets::tasks(pids)?),
        };
        let (calls, tracepoints) = raw.calls.as_deref().map_or(Ok(Default::default()), |text| {
            Chosen::with_tracepoints(text)
                .map_err(|error| Refusal::usage(format!("--calls: {error}")))
        })?;
        let wanted = PerfOptions {
            faults: faults(raw.faults.as_deref())?,
            switches: raw.switches,
            tracepoints,
            stacks: raw.stacks.then(|| symbols::resolve(raw::SymbolSearch::default())),
            ..PerfOptions::default()
        };
        Ok(Self {
            view: view(&raw, calls, wanted)?,
            command: raw.command,
            target,
            timeout: raw.timeout.map(Duration::from_millis),
            output: raw.output,
            json: raw.json,
        })
    }
}

/// Which page faults are shown, in the words of `perf trace -F`.
fn faults(text: Option<&str>) -> Result<Faults, Refusal> {
    let (major, minor) = match text {
        None => (false, false),
        Some("all") => (true, true),
        Some("maj") => (true, false),
        Some("min") => (false, true),
        Some(other) => {
            return Err(Refusal::usage(format!("--faults {other}: give all, maj or min")));
        }
    };
    Ok(Faults { major, minor })
}

fn view(raw: &raw::Trace, calls: Chosen, wanted: PerfOptions) -> Result<View, Refusal> {
    if (raw.summary || raw.data.is_some()) && !wanted.tracepoints.is_empty() {
        return Err(Refusal::usage(
            "-e: tracepoints stand between calls; `tare record -e` records them alone",
        ));
    }
    if let Some(file) = &raw.data {
        return Ok(View::Data(file.clone()));
    }
    if raw.summary {
        let by = match (raw.per_thread, raw.per_cgroup) {
            (true, _) => By::Thread,
            (_, true) => By::Cgroup,
            _ => By::Call,
        };
        return Ok(View::Summary { calls, by, histograms: raw.hist });
    }
    let min_duration_ns = raw.min_duration.as_deref().map_or(Ok(0), |text| {
        nanoseconds(text).ok_or_else(|| {
            Refusal::usage(format!("--min-duration {text}: give a time as 500ns, 10us, 1ms or 2s"))
        })
    })?;
    let ring_bytes = raw.ring_size.as_deref().map_or(Ok(RING_BYTES), |text| {
        let bytes = size::bytes(text, 1).and_then(|bytes| u32::try_from(bytes).ok());
        let fits = |bytes: &u32| bytes.is_power_of_two() && (1 << 16..=1 << 30).contains(bytes);
        bytes.filter(fits).ok_or_else(|| {
            Refusal::usage(format!("--ring-size {text}: give a power of two from 64K to 1G"))
        })
    })?;
    let lines = LineOptions {
        calls,
        string: raw.string_limit.unwrap_or(STRING).into(),
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
    Ok(View::Calls { lines, wanted: Box::new(wanted), ring_bytes })
}

/// A short time with its unit.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| (0.0..1e6).contains(number))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds above
    Some((number * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(
            ["500ns", "1.5us", "2ms", "1s"].map(nanoseconds),
            [500, 1500, 2_000_000, 1_000_000_000].map(Some)
        );
        assert_eq!(["1", "ms", "-1ms", "1m", "1e99s"].map(nanoseconds), [None; 5]);
    }
}
