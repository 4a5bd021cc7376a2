//! `tare sched -i`: reads the scheduler's tracepoints from a recording.

use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::Path;

use tare_format::record::{Record, Sample};
use tare_replay::{EventFilter, Machine, Replay, ReplayOptions, Replayed, SampleDetail, Sink};
use tare_symbols::SymbolOptions;
use tare_trace::sched::{NoSchedEvents, SchedAction, Task, Tracepoints};
use tare_tui::ProgressLine;

use super::output::SchedOutput;
use crate::Outcome;
use crate::cli::resolved::sched::{RecordedSource, Sched, SchedForm};
use crate::command::output::create;
use crate::command::recording::{open, refusal};
use crate::exit::{Exit, Refusal, say};

pub(super) fn run(options: &Sched, recorded: &RecordedSource) -> Outcome {
    let progress = ProgressLine::beside_stdout();
    let mut recording = open(&recorded.input, &mut SymbolOptions::default(), &progress)?;
    let out = create(options.output.as_deref().unwrap_or(Path::new("-")))?;
    let windows = recorded.times.windows(recording.description()).map_err(refusal)?;
    let mut windows = windows.iter();
    let (from_ns, to_ns) = windows.next().unwrap_or((0, u64::MAX));
    if windows.next().is_some() {
        return Err(Refusal::usage("--time: one range at a time").into());
    }
    let out: Box<dyn std::io::Write> = out;
    let output = SchedOutput::new(options, BufWriter::new(out), from_ns, to_ns);
    let detail = TaskDetail::new(options, recorded);
    let mut sink = SchedSink { output, tracepoints: Tracepoints::default(), recorded, detail };
    let reads_ahead = options.form.lists_switches();
    let options =
        ReplayOptions { detail: SampleDetail::Samples, reads_ahead, ..ReplayOptions::default() };
    let replay = Replay::new(options);
    let losses = replay.run(&mut recording, &mut sink)?;
    sink.tracepoints.learn(recording.description());
    if !sink.tracepoints.has_switches() {
        let message = format!("{}: {NoSchedEvents}", recorded.input.display());
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    drop(progress);
    let all = recorded.pids.is_empty() && recorded.tids.is_empty();
    sink.output.finish(None, all, losses.lost_records)?;
    tare_render::loss_lines(&losses).iter().for_each(|line| say(line));
    Ok(Exit::Success)
}

/// What is looked up about tasks besides the fields of the tracepoints.
#[derive(Clone, Copy)]
struct TaskDetail {
    /// Process and name of tasks that wake or move others.
    others: bool,
    /// The process of every task, not only of those that leave a CPU.
    processes: bool,
}

impl TaskDetail {
    fn new(options: &Sched, recorded: &RecordedSource) -> Self {
        let others =
            matches!(options.form, SchedForm::Timehist(form) if form.wakeups || form.migrations);
        Self { others, processes: others || !recorded.pids.is_empty() }
    }
}

/// Decodes the scheduler's tracepoints and passes them to the output.
struct SchedSink<'a> {
    output: SchedOutput<'a>,
    tracepoints: Tracepoints,
    recorded: &'a RecordedSource,
    detail: TaskDetail,
}

impl SchedSink<'_> {
    /// Adds the process and name that the recording has of a task, and whether the task is
    /// selected.
    fn complete<'a>(&self, machine: &'a Machine, task: &mut Task<'a>, wants_process: bool) {
        let RecordedSource { pids, tids, .. } = self.recorded;
        task.pid = task.pid.filter(|pid| *pid > 0);
        if task.comm.is_empty() || wants_process && task.pid.is_none() {
            let known = machine.thread(task.tid);
            task.pid = task.pid.or(known.map(tare_replay::Thread::pid));
            if task.comm.is_empty() {
                task.comm = known.and_then(tare_replay::Thread::comm).unwrap_or_default();
            }
        }
        let all = pids.is_empty() && tids.is_empty();
        let is_listed =
            || tids.contains(&task.tid) || task.pid.is_some_and(|pid| pids.contains(&pid));
        task.is_selected = all || is_listed();
    }

    fn complete_all<'a>(&self, machine: &'a Machine, action: &mut SchedAction<'a>) {
        let TaskDetail { others, processes } = self.detail;
        match action {
            SchedAction::Switch { prev, next, .. } => {
                self.complete(machine, prev, true);
                self.complete(machine, next, processes);
            }
            SchedAction::Wakeup { waker: other, task, .. }
            | SchedAction::Migrate { mover: other, task, .. } => {
                if others {
                    self.complete(machine, other, true);
                }
                self.complete(machine, task, processes);
            }
            SchedAction::Begin(_) => {}
        }
    }
}

impl Sink for SchedSink<'_> {
    type Error = anyhow::Error;

    fn event_filter(&self) -> Option<EventFilter> {
        let mut known = Tracepoints::default();
        Some(EventFilter::new(move |description, event| {
            known.learn(description);
            known.reads(event)
        }))
    }

    fn wants_callchain(&self, _sample: &Replayed<'_, Sample<'_>>) -> bool {
        false
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        self.tracepoints.learn(sample.description);
        let head = &sample.fields.head;
        let Some(time_ns) = sample.time_ns else { return Ok(ControlFlow::Continue(())) };
        let Some(event) = sample.event else { return Ok(ControlFlow::Continue(())) };
        let Some(raw) = sample.fields.raw else { return Ok(ControlFlow::Continue(())) };
        let current =
            Task { tid: head.tid.unwrap_or(-1), pid: head.pid, comm: b"", is_selected: true };
        let cpu = head.cpu.unwrap_or(0);
        let Some(mut action) = self.tracepoints.decode(event, raw, current, cpu) else {
            return Ok(ControlFlow::Continue(()));
        };
        self.complete_all(machine, &mut action);
        self.output.add_action(time_ns, &action)?;
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let _ = machine;
        if let (Record::Fork(task), Some(time_ns)) = (record.fields, record.time_ns) {
            let task = Task { tid: task.tid, pid: Some(task.pid), comm: b"", is_selected: true };
            self.output.add_action(time_ns, &SchedAction::Begin(task))?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
