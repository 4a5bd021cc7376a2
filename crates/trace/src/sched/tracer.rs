//! The source of live scheduler events: BPF programs, or perf events if BPF isn't available.

use std::os::fd::BorrowedFd;

use tare_kernel::bpf::{
    FollowedTasks, PerfFallback, SchedEvent, SchedEvents, SchedRecord, SchedTask,
};
use tare_kernel::host::Host;

use super::event::{SchedAction, State, Task};
use super::perf::PerfSched;
use crate::tracer::{TraceError, neither, step_back};

/// Drawbacks of perf events compared with BPF programs, for the message about the fallback.
const LACKS: &str =
    "each switch of the whole machine costs more, and a full ring buffer loses records";

/// Traces scheduler events as they happen.
#[derive(Debug)]
pub struct SchedTracer {
    source: SchedSource,
    /// This process.
    own: i32,
    /// Whether the whole machine is traced, idle tasks included.
    follows_all: bool,
}

#[derive(Debug)]
enum SchedSource {
    Bpf(Box<SchedEvents>),
    Perf(Box<PerfSched>),
}

impl SchedTracer {
    /// Starts tracing. BPF programs record migrations only if `migrations`, perf events always. If
    /// BPF programs can't be loaded, it falls back to perf events, and the second value says why.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(
        follow: &FollowedTasks,
        migrations: bool,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<(Self, Option<PerfFallback>), TraceError> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let follows_all = matches!(follow, FollowedTasks::All(_));
        let error = match SchedEvents::start(follow, migrations, ring_bytes) {
            Ok(programs) => {
                let source = SchedSource::Bpf(Box::new(programs));
                return Ok((Self { source, own, follows_all }, None));
            }
            Err(error) => error,
        };
        let step = step_back(error, LACKS)?;
        match PerfSched::start(follow, ring_bytes, host) {
            Ok(perf) => {
                let source = SchedSource::Perf(Box::new(perf));
                Ok((Self { source, own, follows_all }, Some(step)))
            }
            Err(perf) => Err(neither(step, perf)),
        }
    }

    /// Returns descriptors that become readable when a ring buffer has many records.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (programs, perf) = match &self.source {
            SchedSource::Bpf(programs) => (Some(programs.file()), None),
            SchedSource::Perf(perf) => (None, Some(perf.files())),
        };
        programs.into_iter().chain(perf.into_iter().flatten())
    }

    /// Calls `each` with pending events. `is_over` ends the trace and hands over all that are left.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn drain<E>(
        &mut self,
        is_over: bool,
        mut each: impl FnMut(u64, &SchedAction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let own = self.own;
        let selects_idle = self.follows_all;
        match &mut self.source {
            SchedSource::Bpf(programs) => {
                if is_over {
                    programs.stop();
                }
                programs.drain(|record| each(record.time_ns, &action(&record, own, selects_idle)))
            }
            SchedSource::Perf(perf) => perf.drain(is_over, each),
        }
    }

    /// Number of lost records.
    ///
    /// # Errors
    /// [`TraceError::Bpf`] if the programs' maps can't be read.
    pub fn missing(&self) -> Result<u64, TraceError> {
        match &self.source {
            SchedSource::Bpf(programs) => programs.missing().map_err(TraceError::Bpf),
            SchedSource::Perf(perf) => Ok(perf.missing()),
        }
    }
}

/// Returns the action that a record describes. `own` is this process, which isn't selected.
fn action<'a>(record: &SchedRecord<'a>, own: i32, selects_idle: bool) -> SchedAction<'a> {
    let task = |task: &SchedTask<'a>| {
        let tid = task.tid.cast_signed();
        let pid = task.process.cast_signed();
        let is_selected = if tid == 0 { selects_idle } else { task.is_followed && pid != own };
        Task { tid, pid: Some(pid), comm: task.comm, is_selected }
    };
    let cpu = record.cpu;
    let subject = task(&record.task);
    let other = task(&record.other);
    match record.event {
        SchedEvent::Switch(state) => {
            SchedAction::Switch { cpu, prev: subject, state: State(state.into()), next: other }
        }
        SchedEvent::Wakeup => SchedAction::Wakeup { cpu, waker: other, task: subject },
        SchedEvent::Migrate { from, to } => {
            SchedAction::Migrate { cpu, mover: other, task: subject, from, to }
        }
        SchedEvent::Begin => SchedAction::Begin(subject),
    }
}
