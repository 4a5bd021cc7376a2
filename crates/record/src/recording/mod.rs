//! A recording under way.
//!
//! `start` opens it and `finish` ends it; `snapshot` and `switch` act on request of the caller.
//! `ledger` computes the ledger's parts, `recount` the counts of a file that had to end early,
//! `cost` the cost of sampling, and `rate_control` keeps that within a `budget`. `modules` tracks
//! kernel modules, `hotplug` CPUs. `targets` are the recorded tasks, `followed` the ones of a
//! command. `system_calls` are recorded by BPF programs. `ring_size` chooses the size of ring
//! buffers, `description` describes the recording.

mod budget;
mod cost;
mod description;
mod finish;
mod followed;
mod hotplug;
mod ledger;
mod modules;
mod rate_control;
mod recount;
mod ring_size;
mod snapshot;
mod start;
mod switch;
mod system_calls;
mod targets;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tare_format::file::writer::Description;
use tare_format::ledger::Ledger;
use tare_kernel::call_samples::CallSamples;

pub use self::finish::RecordingResult;
use self::followed::CgroupUsage;
use self::hotplug::Hotplug;
use self::ledger::Baseline;
use self::modules::Modules;
use self::rate_control::RateControl;
use self::snapshot::Snapshots;
use self::targets::TargetTasks;
use crate::capture::opening::Events;
use crate::capture::poller::{Poller, ReadySources, Source};
use crate::capture::reader::{Pass, Reader, SharedOutput};
use crate::capture::threads::ReaderThread;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::off_cpu::OffCpuTimes;
use crate::options::Begin;
use crate::output::OutputError;
use crate::plan::Start;
use crate::session::Session;
use crate::warning::{Notice, Warning};

/// Interval for checking threads whose exit can't be waited for.
const LOOK: Duration = Duration::from_millis(200);

/// Limit on the files begun per call.
const FILES_A_WAKE: usize = 16;

/// A recording under way. Its caller must call [`Recording::process`].
#[derive(Debug)]
pub struct Recording {
    session: Session,
    /// The recorder's part of the ledger; the rest is added at the end.
    ledger: Ledger,
    /// The description at the beginning.
    description: Description,
    events: Events,
    shared: Arc<SharedOutput>,
    reader: Reader,
    snapshots: Snapshots,
    threads: Vec<ReaderThread>,
    poller: Poller,
    enabled: EnabledTime,
    counts: Counts,
    deadlines: Deadlines,
    cgroup: CgroupUsage,
    /// Number of threads that read ring buffers.
    readers: usize,
    /// Counters' values when the current file began.
    before: Baseline,
    tasks: TargetTasks,
    /// Ledger of all completed files.
    total: Option<Ledger>,
    /// The shortest time that the flight recorder could keep records, if that was less than
    /// requested.
    shortest: Option<Duration>,
    state: State,
    /// The recorder's CPU time when events were last stopped, in nanoseconds.
    until_ns: Option<u64>,
    /// The recorder's CPU time for measuring the cost of samples, in nanoseconds.
    calibration_ns: u64,
    /// Keeps the recording within a budget, if there is one.
    rate_control: Option<RateControl>,
    hotplug: Hotplug,
    off_cpu: Option<OffCpuTimes>,
    calls: Option<CallSamples>,
    modules: Modules,
    notices: Vec<Notice>,
}

/// The state of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Recording.
    Recording,
    /// All recorded processes and threads have exited.
    TargetsEnded,
    /// Nothing more is recorded.
    Stopped(StopReason),
}

/// Why a recording stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The output takes nothing more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The output has reached its size limit.
    #[error("it is as large as it may become")]
    MaxSize,
}

/// The figures of a recording so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Samples of all events.
    pub samples: u64,
    /// How long events were enabled.
    pub recorded: Duration,
    /// Number of times that the kernel throttled an event.
    pub throttled: u64,
    /// Bytes in the current file, or in the stream.
    pub written_bytes: u64,
}

/// Counts of occurrences during the recording.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    wake_ups: u64,
    system_calls: u64,
}

/// How long events were enabled, and the recorder's CPU time before and since.
#[derive(Debug)]
struct EnabledTime {
    clock: Arc<dyn Clock>,
    enabled_since: Option<Instant>,
    before: Duration,
    /// The recorder's CPU time when events were first enabled, in nanoseconds.
    started_cpu_ns: u64,
}

impl EnabledTime {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, enabled_since: None, before: Duration::ZERO, started_cpu_ns: 0 }
    }

    fn enabled(&mut self) {
        if self.started_cpu_ns == 0 {
            self.started_cpu_ns = self.clock.cpu_ns();
        }
        self.enabled_since.get_or_insert_with(|| self.clock.now());
    }

    fn disabled(&mut self) {
        self.before = self.so_far();
        self.enabled_since = None;
    }

    /// Returns how long events were enabled.
    fn so_far(&self) -> Duration {
        let since = |since| self.clock.now().saturating_duration_since(since);
        self.before + self.enabled_since.map_or(Duration::ZERO, since)
    }
}

/// When each periodic job is due.
#[derive(Debug)]
struct Deadlines {
    flush: Instant,
    begin: Option<Instant>,
    look: Option<Instant>,
}

impl Deadlines {
    fn next(&self) -> Instant {
        [self.begin, self.look].into_iter().flatten().fold(self.flush, Instant::min)
    }
}

/// Returns whether a deadline has passed, and sets the next one.
fn due(deadline: &mut Option<Instant>, now: Instant, again: Option<Duration>) -> bool {
    let passed = deadline.is_some_and(|at| at <= now);
    if passed {
        *deadline = again.map(|period| now + period);
    }
    passed
}

/// Turns the kernel's error about an event into a [`RecordError`].
fn event_error(doing: &'static str) -> impl Fn(Errno) -> RecordError {
    move |errno| RecordError::Event { doing, errno }
}

/// A descriptor that becomes readable when [`Recording::process`] should be called.
impl AsFd for Recording {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Recording {
    /// The latest time for the next [`Recording::process`].
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadlines.next()
    }

    /// Makes the next [`Recording::process`] empty the ring buffers, and sets the flush interval.
    pub fn flush_every(&mut self, interval: Duration) {
        self.session.options.rings.flush_interval = interval;
        self.deadlines.flush = self.session.backend.clock.now();
    }

    /// Reads the ring buffers and does everything that is due. Call it whenever the recording's
    /// descriptor (`AsFd`) is readable, and when its [`Recording::deadline`] has passed. It only
    /// waits for an output that is slower than the events.
    ///
    /// # Errors
    /// See [`RecordError`]. An output that takes nothing more is no error: see
    /// [`Recording::state`].
    pub fn process(&mut self) -> Result<&State, RecordError> {
        let ready = self.poller.wait(Some(Duration::ZERO)).map_err(RecordError::Poll)?;
        self.counts.system_calls += 1;
        self.process_ready(ready)
    }

    /// The same, for a caller that has just found the recording's descriptor not readable: saves a
    /// system call.
    ///
    /// # Errors
    /// As [`Recording::process`].
    pub fn process_due(&mut self) -> Result<&State, RecordError> {
        self.process_ready(ReadySources::default())
    }

    fn process_ready(&mut self, ready: ReadySources) -> Result<&State, RecordError> {
        self.counts.wake_ups += 1;
        let now = self.session.backend.clock.now();
        // A module's mapping must precede its samples.
        let is_due = self.deadlines.flush <= now
            && (!self.hotplug.is_told() || self.modules.is_look_due(now));
        if ready.by(Source::Cpus) || is_due {
            self.look_at_modules(now);
        }
        let is_due = self.read(now)?;
        self.look_at_cpus(ready, is_due);
        if is_due {
            self.control_rate()?;
        }
        if due(&mut self.deadlines.begin, now, None) {
            self.enable()?;
        }
        let look = due(&mut self.deadlines.look, now, Some(LOOK));
        if (look || ready.by(Source::Target))
            && self.tasks.waited_for.ended(&self.session.backend.host, look)
            && self.state == State::Recording
        {
            self.state = State::TargetsEnded;
        }
        Ok(&self.state)
    }

    /// The recorder's CPU time so far.
    fn cpu_ns(&self) -> u64 {
        self.session.backend.clock.cpu_ns()
    }

    /// The state of the recording.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The figures so far.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            samples: self.shared.samples().iter().map(|event| event.samples).sum(),
            recorded: self.enabled.so_far(),
            throttled: self.shared.throttled(),
            written_bytes: self.shared.with_output(|output| output.written()),
        }
    }

    /// Number of open event descriptors.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.events.number_of_files()
    }

    /// Returns the warnings and completed files since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Adds system calls that the caller made for this recording to its ledger.
    pub fn count_system_calls(&mut self, number: u64) {
        self.counts.system_calls += number;
    }

    fn warn(&mut self, warning: Warning) {
        self.notices.push(Notice::Warning(warning));
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped(_))
    }

    /// Enables all events but the ones that only track processes, which always run.
    ///
    /// # Errors
    /// Fails if the kernel can't enable an event.
    pub fn enable(&mut self) -> Result<(), RecordError> {
        if self.is_stopped() {
            return Ok(());
        }
        self.enabled.enabled();
        self.enable_off_cpu(true)?;
        let session = &self.session;
        self.events
            .set_enabled(true, |event| !session.only_tracks(event))
            .map_err(event_error("enable the events"))
    }

    /// Disables all events but the ones that only track processes.
    ///
    /// # Errors
    /// Fails if the kernel can't disable an event.
    pub fn disable(&mut self) -> Result<(), RecordError> {
        let session = &self.session;
        self.events
            .set_enabled(false, |event| !session.only_tracks(event))
            .map_err(event_error("disable the events"))?;
        self.calls.iter_mut().for_each(CallSamples::stop);
        self.enable_off_cpu(false)?;
        self.enabled.disabled();
        Ok(())
    }

    /// Stops all events, including the ones that track processes.
    fn disable_all(&mut self) -> Result<(), RecordError> {
        self.enabled.disabled();
        self.calls.iter_mut().for_each(CallSamples::stop);
        self.enable_off_cpu(false)?;
        self.events.set_enabled(false, |_| true).map_err(event_error("disable the events"))
    }

    fn enable_off_cpu(&mut self, enabled: bool) -> Result<(), RecordError> {
        Ok(self.off_cpu.iter_mut().try_for_each(|off_cpu| off_cpu.set_enabled(enabled))?)
    }

    /// Appends off-CPU time. It is older than later records of ring buffers, so it precedes each
    /// pass.
    fn take_off_cpu(&mut self) -> Result<(), RecordError> {
        let Some(off_cpu) = &mut self.off_cpu else { return Ok(()) };
        let samples = off_cpu.drain()?;
        if let Err(error) = self.shared.append_in_round(&samples) {
            self.stop_recording(error.into());
        }
        Ok(())
    }

    /// Enables the events that start neither with the command nor later.
    fn enable_at_once(&mut self) -> Result<(), RecordError> {
        let events = &self.session.plan.events;
        self.events
            .set_enabled(true, |event| events[event].start == Start::AtOnce)
            .map_err(event_error("enable the events"))?;
        if self.session.options.begin == Begin::AtOnce {
            self.enabled.enabled();
            self.enable_off_cpu(true)?;
        }
        Ok(())
    }

    /// Empties the ring buffers, and flushes the output if that is due. Returns whether it was.
    fn read(&mut self, now: Instant) -> Result<bool, RecordError> {
        let is_due = self.deadlines.flush <= now;
        if is_due {
            self.deadlines.flush = now + self.session.options.rings.flush_interval;
        }
        self.calls.iter_mut().for_each(CallSamples::clear_wakes);
        if !self.is_stopped() {
            self.take_off_cpu()?;
            self.empty(is_due);
        }
        Ok(is_due && !self.is_stopped())
    }

    fn empty(&mut self, is_due: bool) {
        // Files that fill quickly must not block the caller.
        for _ in 0..FILES_A_WAKE {
            let read = self.reader.pass(&self.shared);
            let flushed = if is_due { self.shared.flush() } else { Ok(()) };
            match read.and_then(|pass| flushed.map(|()| pass)) {
                Err(error) => return self.stop_recording(error.into()),
                Ok(_) if self.shared.with_output(|output| output.is_at_max_size()) => {
                    return self.stop_recording(StopReason::MaxSize);
                }
                Ok(pass) => {
                    if self.shared.with_output(|output| output.wants_switch()) {
                        self.switch();
                    }
                    if pass == Pass::Drained || self.is_stopped() {
                        return;
                    }
                }
            }
        }
    }

    /// The output takes nothing more: everything before can be read, and the command continues.
    fn stop_recording(&mut self, why: StopReason) {
        // Later tasks of the command are not missing in the recording.
        self.cgroup.at_end(self.session.following.as_ref());
        // Even if this fails, nothing more is written.
        let _ = self.disable_all();
        self.state = State::Stopped(why);
    }
}
