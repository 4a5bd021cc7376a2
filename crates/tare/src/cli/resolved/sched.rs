//! Options of `tare sched`.

use std::path::PathBuf;

use tare_replay::TimeRanges;
use tare_trace::sched::{SortKey, TimehistOptions};

use super::script::{cpus, times};
use super::trace::{TraceTarget, ring_bytes};
use crate::cli::perf;
use crate::cli::raw::{self, SchedSort};
use crate::exit::Refusal;

/// A recording, and the tasks and times to read from it.
#[derive(Clone, Debug)]
pub(crate) struct RecordedSource {
    /// `-` is standard input.
    pub(crate) input: PathBuf,
    pub(crate) pids: Vec<i32>,
    pub(crate) tids: Vec<i32>,
    pub(crate) times: TimeRanges,
}

/// Source of the switches.
#[derive(Clone, Debug)]
pub(crate) enum SchedSource {
    Recording(RecordedSource),
    Live {
        traced: TraceTarget,
        /// Size of the ring buffer in bytes, a power of two.
        ring_bytes: u32,
    },
}

/// Form of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SchedForm {
    /// A line for each switch.
    Timehist(TimehistOptions),
    /// A line for each switch, with the task of each CPU.
    Map,
    /// Totals per command or thread.
    Sums {
        by: SortKey,
        /// Whether each thread has a line of its own.
        per_thread: bool,
        /// Whether to print a histogram of waits.
        histogram: bool,
    },
}

impl SchedForm {
    /// Whether lines are written while events are read, and not only totals at the end.
    pub(crate) fn lists_switches(self) -> bool {
        !matches!(self, Self::Sums { .. })
    }
}

/// The resolved options of `tare sched`.
#[derive(Clone, Debug)]
pub(crate) struct Sched {
    pub(crate) source: SchedSource,
    pub(crate) form: SchedForm,
    /// The CPUs to show; empty for all.
    pub(crate) cpus: Vec<u32>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Sched {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn new(raw: raw::SchedArgs) -> Result<Self, Refusal> {
        let form = if raw.timehist {
            let raw::SchedArgs { wakeups, migrations, state, next, .. } = raw;
            SchedForm::Timehist(TimehistOptions { wakeups, migrations, state, next })
        } else if raw.map {
            SchedForm::Map
        } else {
            let by = match raw.sort {
                SchedSort::Max => SortKey::Max,
                SchedSort::Avg => SortKey::Average,
                SchedSort::Runtime => SortKey::Runtime,
                SchedSort::Switch => SortKey::Switches,
                SchedSort::Wait => SortKey::Wait,
            };
            SchedForm::Sums { by, per_thread: raw.per_thread, histogram: raw.hist }
        };
        let source = match raw.input.input {
            Some(input) => SchedSource::Recording(RecordedSource {
                input,
                pids: raw.traced.pids(),
                tids: raw::TaskList::ids(&raw.tid),
                times: times(raw.range.time.as_deref())?,
            }),
            None => {
                // clap doesn't ask for -i if it finds an option that conflicts with -i.
                let of_recordings =
                    [("--tid", !raw.tid.is_empty()), ("--time", raw.range.time.is_some())];
                if let Some((option, _)) = of_recordings.iter().find(|(_, is_typed)| *is_typed) {
                    return Err(Refusal::usage(format!(
                        "{option} selects from a recording: give -i FILE with it"
                    )));
                }
                perf::refuse_subcommand("sched", &raw.traced.command, raw.traced.after_dashes)?;
                let no_target = raw.traced.pid.is_empty()
                    && !raw.traced.all_cpus
                    && raw.traced.command.is_empty();
                if no_target {
                    return Err(Refusal::usage(
                        "give a command, -p PID, -a (the whole machine) or -i FILE (a recording)",
                    ));
                }
                SchedSource::Live {
                    traced: TraceTarget::resolve(&raw.traced)?,
                    ring_bytes: ring_bytes(raw.ring.ring_size.as_deref())?,
                }
            }
        };
        let cpus = cpus(raw.range.cpu.as_deref())?;
        Ok(Self { source, form, cpus, output: raw.result.output, json: raw.json })
    }
}
