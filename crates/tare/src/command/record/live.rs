//! Runs a recording: the supervisor waits for ring buffers, signals, orders and deadlines, and the
//! recorder acts on them until either ends it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tare_kernel::cgroup::CpuTime;
use tare_kernel::child::WaitingChild;
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_record::output::FileSwitch;
use tare_record::{Notice, RecordError, Recording, RecordingResult, RecordingState};

use super::{sample_cost, wording};
use crate::cli::resolved::record::RecordOptions;
use crate::command::control::{Control, Order};
use crate::command::supervise::{Ending, Supervisor, Wake};
use crate::exit::say;

/// How often the end of a recording looks whether it is finished.
const SIGNAL_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A recording that has ended.
pub(super) struct EndedRecording {
    pub(super) finished: RecordingResult,
    pub(super) ending: Ending,
}

/// Words an error of the recorder.
type Explain<'a> = &'a dyn Fn(RecordError) -> anyhow::Error;

/// A recording under way.
pub(super) struct LiveRecording<'a> {
    record: &'a RecordOptions,
    host: &'a Host,
    signals: &'a Signals,
    supervisor: Supervisor<'a>,
    has_command: bool,
    recording: Recording,
}

impl<'a> LiveRecording<'a> {
    /// `child` stays held until [`LiveRecording::run`].
    pub(super) fn new(
        record: &'a RecordOptions,
        host: &'a Host,
        signals: &'a Signals,
        child: Option<WaitingChild>,
        recording: Recording,
    ) -> anyhow::Result<Self> {
        let control = record.control.as_deref().map(Control::open).transpose()?;
        let has_command = child.is_some();
        let supervisor = Supervisor::new(Some(signals), child)
            .with_timeout(record.timeout)
            .with_control(control);
        Ok(Self { record, host, signals, supervisor, has_command, recording })
    }

    /// Lets the command go, and records until the recording ends.
    pub(super) fn run(mut self, explain: Explain<'_>) -> anyhow::Result<EndedRecording> {
        self.supervisor.let_go()?;
        self.say_notices();
        self.record(explain)?;
        self.recording.stop().map_err(explain)?;
        // A command may take a while to exit, so this comes before the ring buffers are emptied for
        // the last time.
        let ending = self.supervisor.stop()?;
        self.say_notices();
        // SIGTERM may mean that the machine shuts down: then there is no time to calibrate.
        let is_urgent = ending.signal.is_some_and(|signal| signal != Signal::INT.as_raw());
        if self.record.calibrates && !is_urgent {
            self.recording.calibrate(&mut |events| sample_cost::measure(self.host, events));
        }
        let used = ending.exited.map(|ended| CpuTime { user: ended.user, system: ended.system });
        let finished = finish(self.record, self.signals, self.recording, used).map_err(explain)?;
        Ok(EndedRecording { finished, ending })
    }

    fn record(&mut self, explain: Explain<'_>) -> anyhow::Result<()> {
        loop {
            let deadline = self.recording.deadline();
            let wake = self.supervisor.wait(&[self.recording.as_fd()], Some(deadline))?;
            self.recording.count_system_calls(wake.system_calls);
            let processed = match wake.is_ready(0) {
                true => self.recording.process(),
                false => self.recording.process_due(),
            };
            let state = processed.map_err(explain)?.clone();
            self.say_notices();
            self.carry_out_orders(&wake).map_err(explain)?;
            if wake.is_snapshot_requested {
                self.recording.snapshot().map_err(explain)?;
                if self.record.output.options.switch == Some(FileSwitch::Signal) {
                    self.recording.switch();
                    self.say_notices();
                }
            }
            // A recorder that has stopped still waits for the command, whose status is tare's.
            let is_over = match state {
                RecordingState::Recording => false,
                RecordingState::TargetsEnded => true,
                RecordingState::Stopped(_) => !self.has_command,
            };
            if wake.end.is_some() || is_over {
                return Ok(());
            }
        }
    }

    fn carry_out_orders(&mut self, wake: &Wake) -> Result<(), RecordError> {
        for order in &wake.orders {
            match order {
                Order::Enable => self.recording.enable()?,
                Order::Disable => self.recording.disable()?,
                Order::Ping | Order::Stop => {}
            }
            self.supervisor.acknowledge();
        }
        Ok(())
    }

    /// Prints the recorder's notices, unless with `-q`.
    fn say_notices(&mut self) {
        for notice in self.recording.take_notices() {
            match notice {
                Notice::Finished(file) if !self.record.quiet => say(&format!(
                    "{} -> {}",
                    tare_render::ledger_summary(&file.ledger).swap_remove(0),
                    file.path.display()
                )),
                Notice::Warning(warning) if !self.record.quiet => say(&wording::warning(&warning)),
                Notice::Finished(_) | Notice::Warning(_) => {}
            }
        }
    }
}

/// Finishes a recording. A signal ends the copies of binaries (`--keep-binaries`).
fn finish(
    record: &RecordOptions,
    signals: &Signals,
    recording: Recording,
    used: Option<CpuTime>,
) -> Result<RecordingResult, RecordError> {
    if record.options.keep_binaries.is_none() {
        return recording.finish(used);
    }
    let is_finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_finished.load(Ordering::Relaxed) {
                let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&SIGNAL_CHECK));
                let arrived = signals.next().ok().flatten();
                if arrived.is_some_and(|signal| signal.number != Signal::CHILD.as_raw()) {
                    record.options.is_copying_over.store(true, Ordering::Relaxed);
                }
            }
        });
        let finished = recording.finish(used);
        is_finished.store(true, Ordering::Relaxed);
        finished
    })
}
