//! Makes studies of the cost of sampling on this machine.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use indicatif::ProgressBar;
use rustix::io::Errno;
use tare_events::{Event, Sources, parse};
use tare_format::abi::Flags;
use tare_kernel::host::Host;
use tare_kernel::open::{Kernel, System};
use tare_kernel::signals::Signals;
use tare_measure::overhead::calibration::Conditions;
use tare_measure::overhead::pinned::{PinError, PinnedThread};
use tare_measure::overhead::plan::{CallGraph, StudyPlan};
use tare_measure::overhead::rates::{self, AttachedProfiler, StudyHooks};
use tare_measure::overhead::sampler::{Sampler, SamplerError};
use tare_measure::overhead::tracing::Probes;

use super::profiler::{self, Attached, Placeholders};
use super::rate_limit::RateLimit;
use crate::cli::resolved;
use crate::exit::{Exit, Refusal};
use tare_measure::overhead::study::{Study, StudyHost, VERSION};
use tare_tui::progress_bar;

/// State that all studies of one run share.
pub(super) struct StudySession<'a> {
    pub(super) asked: &'a resolved::overhead::Study,
    pub(super) host: &'a Host,
    pub(super) sources: &'a Sources,
    pub(super) signals: &'a Signals,
    pub(super) pinned: PinnedThread,
    pub(super) limit: RateLimit<'a>,
    pub(super) bar: Option<ProgressBar>,
    interrupted: bool,
}

/// Why a study has no result.
#[derive(Debug)]
pub(super) enum StudyFailure {
    /// A signal ended it.
    Interrupted,
    /// Anything else.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for StudyFailure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl<'a> StudySession<'a> {
    pub(super) fn new(
        asked: &'a resolved::overhead::Study,
        host: &'a Host,
        sources: &'a Sources,
        signals: &'a Signals,
        limit: RateLimit<'a>,
        shows_bar: bool,
    ) -> anyhow::Result<Self> {
        let pinned = PinnedThread::to(asked.cpu).map_err(|error| match error {
            PinError::Forbidden(cpu) => {
                Refusal::usage(format!("-C {cpu}: this process may not run there")).into()
            }
            _ => anyhow::Error::from(error),
        })?;
        Ok(Self {
            asked,
            host,
            sources,
            signals,
            pinned,
            limit,
            bar: shows_bar.then(|| progress_bar(1, "{bar:24} {percent:>3}% {msg}, {eta} left")),
            interrupted: false,
        })
    }

    /// Makes a study of every event with every call graph.
    pub(super) fn studies(&mut self) -> Result<Vec<Study>, StudyFailure> {
        let events = if self.asked.events.is_empty() {
            vec![self.default_event()?]
        } else {
            self.asked.events.clone()
        };
        let mut studies = Vec::new();
        for event in events {
            for &call_graph in &self.asked.call_graphs {
                studies.push(self.study(event.clone(), call_graph)?);
            }
        }
        Ok(studies)
    }

    /// The default event: cycles if this machine has them, otherwise cpu-clock.
    fn default_event(&self) -> anyhow::Result<Event> {
        let lacks_cycles = |event: &Event| {
            matches!(
                self.open(event),
                Err(SamplerError::Open {
                    errno: Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV,
                    ..
                })
            )
        };
        for name in ["cycles", "cpu-clock"] {
            let groups = parse(name, self.sources).map_err(|error| anyhow::anyhow!("{error}"))?;
            let event = groups
                .into_iter()
                .flat_map(|group| group.events)
                .next()
                .with_context(|| format!("there is no event '{name}'"))?;
            if name == "cpu-clock" || !lacks_cycles(&event) {
                return Ok(event);
            }
        }
        Err(anyhow::anyhow!("there is no event to sample with"))
    }

    fn open(&self, event: &Event) -> Result<Sampler, SamplerError> {
        Sampler::open(&System, event, CallGraph::None, 1, self.pinned.cpu())
    }

    /// Adapts the event, with a note for each change: lowers the precision of `:P`, and limits the
    /// event to user mode if this user may not sample the kernel.
    fn permitted(&self, event: &mut Event, notes: &mut Vec<String>) -> anyhow::Result<()> {
        if event.precise_max {
            event.attr.precise_ip = 0;
            notes.push(format!(
                "'{}' samples as precisely as any event: a study asks for no more",
                event.name
            ));
        }
        if event.attr.flags.contains(Flags::EXCLUDE_KERNEL) {
            return self.open(event).map(drop).map_err(|error| self.explained(&error));
        }
        let refused = match self.open(event) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let forbidden =
            matches!(refused, SamplerError::Open { errno: Errno::ACCESS | Errno::PERM, .. });
        if !forbidden || event.explicit_levels {
            return Err(self.explained(&refused));
        }
        event.attr.flags |= Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV;
        self.open(event).map_err(|error| self.explained(&error))?;
        notes.push(format!(
            "{}: samples of user mode only, this user may not sample the kernel",
            event.name
        ));
        event.name.push_str(":u");
        Ok(())
    }

    fn explained(&self, error: &SamplerError) -> anyhow::Error {
        let remedy = match error {
            SamplerError::Open { errno: Errno::ACCESS | Errno::PERM, .. } => {
                "`sudo sysctl kernel.perf_event_paranoid=1` allows it; `tare doctor` says more".to_owned()
            }
            SamplerError::Open { errno: Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV, .. } => {
                "this machine can't sample it; -e cpu-clock works everywhere, and `tare list` shows the rest".to_owned()
            }
            SamplerError::Open { errno: Errno::INVAL, .. } => {
                let limit = self.limit.before().map_or_else(|| "?".to_owned(), |limit| limit.to_string());
                format!("the kernel allows {limit} Hz at most (kernel.perf_event_max_sample_rate)")
            }
            _ => return Refusal { exit: Exit::Failure, message: error.to_string() }.into(),
        };
        Refusal { exit: Exit::Failure, message: format!("{error}: {remedy}") }.into()
    }

    fn study(&mut self, mut event: Event, call_graph: CallGraph) -> Result<Study, StudyFailure> {
        let began = Instant::now();
        let mut notes = Vec::new();
        self.permitted(&mut event, &mut notes)?;
        let probes = self.probes(&event, &mut notes);
        let rates = self.allowed_rates(&mut notes);
        let asked = self.asked;
        let plan = StudyPlan {
            event,
            call_graph,
            rates,
            cpu: self.pinned.cpu(),
            slice_ns: asked.slice_ns,
            pairs: asked.pairs,
            loads: asked.loads.clone(),
            seed: asked.seed,
        };
        let waited_before = waited_ns(self.host);
        if let Some(bar) = &self.bar {
            bar.set_length(u64::try_from(plan.steps()).unwrap_or(0));
            bar.set_position(0);
            bar.set_message(format!(
                "{} {}",
                tare_format::printable(&plan.event.name),
                call_graph.name()
            ));
        }
        let mut hooks = SessionHooks { event: plan.event.name.clone(), call_graph, session: self };
        let rows = rates::measure_rates(&plan, &System as &dyn Kernel, &probes, &mut hooks)?;
        let Some(rows) = rows else { return Err(StudyFailure::Interrupted) };
        let elapsed = began.elapsed();
        notes.extend(self.notes(&rows, &probes, waited_before, elapsed));
        let machine = StudyHost::detect(self.host);
        Ok(Study {
            version: VERSION,
            conditions: Conditions {
                host: machine.host.clone(),
                kernel: machine.kernel.clone(),
                event: plan.event.name,
                call_graph,
                cpu_model: Some(machine.cpu_model.clone()),
            },
            machine,
            time: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            seconds: elapsed.as_secs_f64(),
            cpu: plan.cpu,
            slice_ms: plan.slice_ns as f64 / 1e6,
            pairs: plan.pairs,
            seed: plan.seed,
            uninterrupted: tare_kernel::schedule::real_time().is_some(),
            max_sample_rate: self.limit.before(),
            fits: rates::fit_figures(&rows),
            rows,
            notes,
        })
    }

    fn probes(&self, event: &Event, notes: &mut Vec<String>) -> Probes {
        let found = Probes::find(&event.attr, self.host).map_err(|error| error.to_string());
        let lacks = |probes: &Probes| match (&probes.handler, &probes.interrupt) {
            (None, None) => Some("the kernel has no trace events around its samples".to_owned()),
            _ => None,
        };
        match found {
            Ok(probes) => {
                notes.extend(
                    lacks(&probes).map(|why| format!("no handler and interrupt figures: {why}")),
                );
                probes
            }
            Err(why) => {
                notes.push(format!("no handler and interrupt figures: {why}"));
                Probes::default()
            }
        }
    }

    /// The requested rates that the kernel allows.
    fn allowed_rates(&self, notes: &mut Vec<String>) -> Vec<u64> {
        let limit =
            self.limit.before().and_then(|limit| u64::try_from(limit).ok()).unwrap_or(u64::MAX);
        let (allowed, beyond): (Vec<u64>, Vec<u64>) =
            self.asked.rates.iter().partition(|rate| **rate <= limit);
        if !beyond.is_empty() {
            let beyond: Vec<String> = beyond.iter().map(u64::to_string).collect();
            notes.push(format!("left out: {} Hz, the kernel takes {limit} at most (kernel.perf_event_max_sample_rate)", beyond.join(", ")));
        }
        allowed
    }

    fn notes(
        &self,
        rows: &[rates::RateRow],
        probes: &Probes,
        waited_before: u64,
        elapsed: Duration,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for row in rows.iter().filter(|row| row.is_throttled()) {
            let mut why = vec![format!("{:.0} a second delivered", row.delivered_hz)];
            if row.throttles > 0 {
                why.push(format!("stopped by the kernel {} times", row.throttles));
            }
            if row.lost > 0 {
                why.push(format!("{} samples lost", row.lost));
            }
            why.push(match row.limit_lowered_to {
                Some(limit) => format!("the kernel's limit was lowered to {limit}"),
                None => "the kernel's limit is unchanged".to_owned(),
            });
            notes.push(format!("throttled, not fitted: {} Hz ({})", row.asked_hz, why.join(", ")));
        }
        let sampled = || rows.iter().any(|row| row.asked_hz > 0 && row.samples > 0);
        if sampled()
            && probes.handler.is_some()
            && rows.iter().all(|row| row.cost.handler_us.is_none())
        {
            notes.push(
                "no handler and interrupt figures: the kernel's trace events can't be opened"
                    .to_owned(),
            );
        }
        if rows.iter().any(|row| row.asked_hz > 0 && row.samples == 0) {
            notes
                .push("a rate had no sample at all: this event doesn't occur in a loop".to_owned());
        }
        if tare_kernel::schedule::real_time().is_none() {
            notes.push("the loops share their CPU with other programs on equal terms: root's slices are not interrupted".to_owned());
        }
        let waited =
            waited_ns(self.host).saturating_sub(waited_before) as f64 / elapsed.as_nanos() as f64;
        if waited > 0.05 {
            notes.push(format!(
                "other programs used this CPU for {:.0}% of the time; on an idle machine the intervals are narrower",
                waited * 100.0
            ));
        }
        notes
    }
}

/// Time that the main thread has waited for a CPU, in nanoseconds.
fn waited_ns(host: &Host) -> u64 {
    let text = host.read("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

impl Drop for StudySession<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Connects a study with the terminal, the user's signals, profilers, and the kernel's limit.
struct SessionHooks<'s, 'a> {
    event: String,
    call_graph: CallGraph,
    session: &'s mut StudySession<'a>,
}

impl StudyHooks for SessionHooks<'_, '_> {
    type Error = StudyFailure;

    fn step(&mut self) -> bool {
        if let Some(bar) = &self.session.bar {
            bar.inc(1);
        }
        while let Ok(Some(signal)) = self.session.signals.next() {
            self.session.interrupted |= signal.number != rustix::process::Signal::CHILD.as_raw();
        }
        !self.session.interrupted
    }

    fn start_profilers(&mut self, hz: u64) -> Result<Vec<AttachedProfiler>, StudyFailure> {
        if hz == 0 {
            return Ok(Vec::new());
        }
        let StudySession { asked, pinned, signals, .. } = &mut *self.session;
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let placeholders = Placeholders {
            rate: hz,
            event: &self.event,
            tid,
            cpu: pinned.cpu(),
            call_graph: self.call_graph,
        };
        let start = |profiler| -> anyhow::Result<AttachedProfiler> {
            let attached = Attached::start(profiler, &placeholders, signals)?;
            Ok(AttachedProfiler { name: profiler::name(profiler), profiler: Box::new(attached) })
        };
        // A profiler may run on other CPUs than the loop.
        Ok(pinned.run_unpinned(|| {
            asked.profilers.iter().map(start).collect::<anyhow::Result<Vec<_>>>()
        })?)
    }

    fn take_lowered_limit(&mut self) -> Option<i64> {
        self.session.limit.lowered_to()
    }
}
