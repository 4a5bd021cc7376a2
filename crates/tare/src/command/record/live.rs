//! A recording under way: wait for the recorder, the command, signals, orders and the time-out.

use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tare_kernel::cgroup::CpuTime;
use tare_kernel::child::{ChildExit, RunningChild, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_record::output::Switch;
use tare_record::{Notice, RecordError, Recording, RecordingResult, State};

use super::{sample_cost, wording};
use crate::cli::resolved::record::RecordOptions;
use crate::command::control::{self, Control, Order};
use crate::command::interrupt::{end_child, pass_on};
use crate::exit::say;

/// What a recording leaves behind.
pub(super) struct RecordOutcome {
    pub(super) finished: RecordingResult,
    /// How the command ended; `None` where there was none, or it goes on.
    pub(super) ended: Option<ChildExit>,
    /// The signal that ended the recording.
    pub(super) signal: Option<i32>,
}

/// Words an error of the recorder.
type Explain<'a> = &'a dyn Fn(RecordError) -> anyhow::Error;

/// A recording under way.
pub(super) struct Live<'a> {
    record: &'a RecordOptions,
    host: &'a Host,
    signals: &'a Signals,
    control: Option<Control>,
    recording: Recording,
    child: Option<RunningChild>,
    signal: Option<i32>,
    timeout: Option<Instant>,
}

/// What is ready.
#[derive(Clone, Copy, Debug, Default)]
struct ReadyDescriptors {
    recording: bool,
    signal: bool,
    control: bool,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        record: &'a RecordOptions,
        host: &'a Host,
        signals: &'a Signals,
        recording: Recording,
    ) -> anyhow::Result<Self> {
        let control = record.control.as_deref().map(Control::open).transpose()?;
        let timeout = record.timeout.map(|timeout| Instant::now() + timeout);
        Ok(Self { record, host, signals, control, recording, child: None, signal: None, timeout })
    }

    /// Lets the command go, and records until something ends that.
    pub(super) fn run(
        mut self,
        child: Option<WaitingChild>,
        explain: Explain<'_>,
    ) -> anyhow::Result<RecordOutcome> {
        self.child =
            child.map(WaitingChild::start).transpose().context("cannot start the command")?;
        self.say_notices();
        let ended = self.wait(explain)?;
        self.recording.stop().map_err(explain)?;
        // Before the ring buffers are emptied for the last time: a command that is told to end may
        // still take a while.
        let ended = match (ended, &mut self.child) {
            (None, Some(child)) => end_child(child)?,
            (ended, _) => ended,
        };
        self.say_notices();
        // Who sends another signal than Ctrl-C, as a machine does that shuts down, won't wait.
        let is_hurried = self.signal.is_some_and(|signal| signal != Signal::INT.as_raw());
        if self.record.calibrates && !is_hurried {
            self.recording.calibrate(&mut |events| sample_cost::measure(self.host, events));
        }
        let used = ended.map(|ended| CpuTime { user: ended.user, system: ended.system });
        let finished = self.recording.finish(used).map_err(explain)?;
        Ok(RecordOutcome { finished, ended, signal: self.signal })
    }

    /// Waits until something ends the recording; how the command ended, if that was it.
    fn wait(&mut self, explain: Explain<'_>) -> anyhow::Result<Option<ChildExit>> {
        loop {
            let ready = self.poll()?;
            let processed = match ready.recording {
                true => self.recording.process(),
                false => self.recording.process_due(),
            };
            let state = processed.map_err(explain)?.clone();
            self.say_notices();
            let stop = ready.control && self.orders().map_err(explain)?;
            let insisted = ready.signal && self.signals(explain)?;
            if let Some(child) = self.child.as_mut().filter(|_| ready.signal)
                && let Some(ended) = child.try_wait()?
            {
                return Ok(Some(ended));
            }
            let alone = self.child.is_none();
            let is_over = match state {
                State::Recording => false,
                State::TargetsEnded => true,
                State::Stopped(_) => alone,
            };
            let interrupted_alone = alone && self.signal.is_some();
            let timed_out = self.timeout.is_some_and(|at| at <= Instant::now());
            if stop || insisted || is_over || interrupted_alone || timed_out {
                return Ok(None);
            }
        }
    }

    /// Waits for the recorder, a signal, an order or a deadline.
    fn poll(&mut self) -> anyhow::Result<ReadyDescriptors> {
        let deadline = self.recording.deadline();
        let until = self.timeout.map_or(deadline, |timeout| deadline.min(timeout));
        let left = timespec(until.saturating_duration_since(Instant::now()));
        let mut files = vec![
            PollFd::new(&self.recording, PollFlags::IN),
            PollFd::new(self.signals, PollFlags::IN),
        ];
        files.extend(self.control.as_ref().map(|control| PollFd::new(control, PollFlags::IN)));
        match poll(&mut files, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for events"),
        }
        let is_ready = |at: usize| files.get(at).is_some_and(|file| !file.revents().is_empty());
        let ready =
            ReadyDescriptors { recording: is_ready(0), signal: is_ready(1), control: is_ready(2) };
        drop(files);
        self.recording.count_system_calls(1);
        Ok(ready)
    }

    /// Carries out what came over `--control`; whether it was to stop.
    fn orders(&mut self) -> Result<bool, RecordError> {
        let Some(mut control) = self.control.take() else { return Ok(false) };
        let (orders, ended) = control.orders();
        let mut stop = false;
        for order in orders {
            match order {
                Order::Enable => self.recording.enable()?,
                Order::Disable => self.recording.disable()?,
                Order::Ping => {}
                Order::Stop => stop = true,
            }
            control.acknowledge();
        }
        // An end of file would else wake the recorder without end.
        if ended == control::ControlEnd::No {
            self.control = Some(control);
        }
        Ok(stop)
    }

    /// Looks at the signals that arrived; whether the user insists that tare ends now.
    fn signals(&mut self, explain: Explain<'_>) -> anyhow::Result<bool> {
        let arrived = pass_on(self.signals, self.child.as_ref(), &mut self.signal)?;
        // Each signal is read, and then that there is none left; and the command is asked for.
        self.recording.count_system_calls(arrived.signals + 2);
        if arrived.asked {
            self.recording.snapshot().map_err(explain)?;
            if self.record.output.options.switch == Some(Switch::Signal) {
                self.recording.switch();
                self.say_notices();
            }
        }
        Ok(arrived.insisted && self.child.is_some())
    }

    /// Says what the recorder has to say.
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

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
