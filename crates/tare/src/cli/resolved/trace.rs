//! Whose system calls are traced, which of them, and in which form they are shown.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tare_kernel::bpf::By;
use tare_trace::Chosen;

use super::targets;
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

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) command: Vec<OsString>,
    pub(crate) target: Target,
    pub(crate) calls: Chosen,
    pub(crate) by: By,
    pub(crate) histograms: bool,
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
        if !raw.summary {
            return Err(Refusal::usage("give -s: sums of system calls"));
        }
        let calls = raw.calls.as_deref().map_or(Ok(Chosen::default()), |text| {
            Chosen::parse(text).map_err(|error| Refusal::usage(format!("--calls: {error}")))
        })?;
        Ok(Self {
            command: raw.command,
            target,
            calls,
            by: match (raw.per_thread, raw.per_cgroup) {
                (true, _) => By::Thread,
                (_, true) => By::Cgroup,
                _ => By::Call,
            },
            histograms: raw.hist,
            timeout: raw.timeout.map(Duration::from_millis),
            output: raw.output,
            json: raw.json,
        })
    }
}
