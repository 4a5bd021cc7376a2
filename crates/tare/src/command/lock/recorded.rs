//! `tare lock -i`: reads the tracepoints of lock contention from a recording.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use tare_format::record::Sample;
use tare_render::count;
use tare_replay::{CpuMode, EventFilter, Machine, Replay, ReplayOptions, Replayed, Sink};
use tare_trace::lock::{KernelName, NoLockEvents, RecordedLocks, UnfinishedWaits};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::resolved::lock::Lock;
use crate::command::output::create;
use crate::command::recording::open;
use crate::exit::{Exit, Refusal, say};

pub(super) fn run(lock: &Lock, input: &Path) -> Outcome {
    let progress = ProgressLine::beside_stdout();
    let mut symbols = lock.options.symbols.clone();
    let mut recording = open(input, &mut symbols, &progress)?;
    let mut out = create(lock.output.as_deref().unwrap_or(Path::new("-")))?;
    let mut sink = LockSink::default();
    let replay = Replay::new(ReplayOptions { symbols, ..ReplayOptions::default() });
    let losses = replay.run(&mut recording, &mut sink)?;
    sink.locks.learn(recording.description());
    if !sink.locks.has_events() {
        let message = format!("{}: {NoLockEvents}", input.display());
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    drop(progress);
    let missing = (sink.locks.uncounted_waits() + losses.lost_records, 0);
    let rows = sink.locks.rows(lock.key, &sink.names);
    super::show(lock, &mut out, rows, &UnfinishedWaits::default(), missing)?;
    let uncounted = sink.locks.uncounted_waits();
    if uncounted > 0 {
        say(&format!(
            "{} did not fit into the table of locks and are missing",
            count(uncounted, "wait")
        ));
    }
    tare_render::loss_lines(&losses).iter().for_each(|line| say(line));
    Ok(Exit::Success)
}

/// Collects waits and, at the end, the names of the kernel functions in their call chains.
#[derive(Default)]
struct LockSink {
    locks: RecordedLocks,
    names: HashMap<u64, KernelName>,
}

impl Sink for LockSink {
    type Error = anyhow::Error;

    fn event_filter(&self) -> Option<EventFilter> {
        let mut known = RecordedLocks::default();
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
        _machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        self.locks.learn(sample.description);
        let fields = sample.fields;
        if let (Some(time_ns), Some(event), Some(raw)) = (sample.time_ns, sample.event, fields.raw)
        {
            let tid = fields.head.tid.unwrap_or(0).unsigned_abs();
            let cpu = fields.head.cpu.unwrap_or(0);
            self.locks.add(event, time_ns, tid, cpu, raw, fields.callchain);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        for address in self.locks.addresses() {
            let symbol = machine.dso_address(CpuMode::Kernel, -1, address);
            if let Some(symbol) = symbol.and_then(|at| machine.symbol(at).ok()) {
                let name = machine.symbol_name(symbol).to_owned();
                let is_lock_code = machine.is_lock_function(address);
                self.names.insert(address, KernelName::new(name, is_lock_code));
            }
        }
        Ok(())
    }
}
