//! A recording under way.
//!
//! `start` opens it, `finish` ends it; `snapshot` and `switch` are what a caller may ask for meanwhile.
//! `ledger` has its parts, `recount` those of a file that had to end early, `cost` what sampling cost those who are sampled, `rate_control` keeps
//! that within a `budget`. `modules` are the kernel's that are loaded meanwhile. `tasks` are the tasks that are recorded, `followed` those of a command.
//! `system_calls` are those whose samples BPF programs write. `ring_size` says how large ring buffers are, `description` what the recording says of itself.

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

/// How often threads that can't be waited for are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// So many files at most are begun before anything else is looked at.
const FILES_A_WAKE: usize = 16;

/// A recording under way. It needs its caller: see [`Recording::process`].
#[derive(Debug)]
pub struct Recording {
    session: Session,
    /// Names the recorder; the rest of it is known at the end.
    ledger: Ledger,
    /// What the recording began with.
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
    /// Threads that read ring buffers.
    readers: usize,
    /// What had been counted when the file at hand began.
    before: Baseline,
    tasks: TargetTasks,
    /// The ledger of all files that are complete.
    total: Option<Ledger>,
    /// Where less than was asked for could be kept, for how long that was.
    shortest: Option<Duration>,
    state: State,
    /// The recorder's CPU time when its events were stopped for the last time.
    until_ns: Option<u64>,
    /// The recorder's CPU time for measuring what a sample costs.
    calibration_ns: u64,
    /// What keeps within a budget, if there is one.
    rate_control: Option<RateControl>,
    hotplug: Hotplug,
    off_cpu: Option<OffCpuTimes>,
    calls: Option<CallSamples>,
    modules: Modules,
    notices: Vec<Notice>,
}

/// What a recording is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Records are taken.
    Recording,
    /// All processes and threads that were its targets have ended.
    TargetsEnded,
    /// Nothing more is recorded.
    Stopped(StopReason),
}

/// Why a recording is over before it was ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The output takes nothing more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// It is as large as it may become.
    #[error("it is as large as it may become")]
    MaxSize,
}

/// What a recording holds so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Samples, of all events.
    pub samples: u64,
    /// For how long events were enabled.
    pub recorded: Duration,
    /// How often the kernel stopped events for sampling too often.
    pub throttled: u64,
    /// Bytes in the file that is being written, or in the stream.
    pub written_bytes: u64,
}

/// What happened while events were recorded.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    wake_ups: u64,
    system_calls: u64,
}

/// For how long events were enabled, and what the recorder used until then and since.
#[derive(Debug)]
struct EnabledTime {
    clock: Arc<dyn Clock>,
    enabled_since: Option<Instant>,
    before: Duration,
    /// The recorder's CPU time when events were first enabled.
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

    /// For how long events were enabled.
    fn so_far(&self) -> Duration {
        let since = |since| self.clock.now().saturating_duration_since(since);
        self.before + self.enabled_since.map_or(Duration::ZERO, since)
    }
}

/// When the next thing is due.
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

/// Takes a deadline that has passed.
fn due(deadline: &mut Option<Instant>, now: Instant, again: Option<Duration>) -> bool {
    let passed = deadline.is_some_and(|at| at <= now);
    if passed {
        *deadline = again.map(|period| now + period);
    }
    passed
}

/// An answer of the kernel to what was done with an event.
fn event_error(doing: &'static str) -> impl Fn(Errno) -> RecordError {
    move |errno| RecordError::Event { doing, errno }
}

/// What becomes readable when [`Recording::process`] is to be called.
impl AsFd for Recording {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Recording {
    /// When [`Recording::process`] is to be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadlines.next()
    }

    /// Has the next [`Recording::process`] empty the ring buffers, and then that is due so often.
    pub fn flush_every(&mut self, interval: Duration) {
        self.session.options.rings.flush_interval = interval;
        self.deadlines.flush = self.session.backend.clock.now();
    }

    /// Takes what lies in the ring buffers, and does what is due. It is to be called whenever the
    /// recording's file (`AsFd`) is readable, and when its [`Recording::deadline`] has passed;
    /// it never waits, but for an output that is slower than the events.
    ///
    /// # Errors
    /// See [`RecordError`]. An output that takes nothing more is none: see [`Recording::state`].
    pub fn process(&mut self) -> Result<&State, RecordError> {
        let ready = self.poller.wait(Some(Duration::ZERO)).map_err(RecordError::Poll)?;
        self.counts.system_calls += 1;
        self.process_ready(ready)
    }

    /// The same for a caller who has just seen that the recording's file is not readable: a system
    /// call less.
    ///
    /// # Errors
    /// As [`Recording::process`].
    pub fn process_due(&mut self) -> Result<&State, RecordError> {
        self.process_ready(ReadySources::default())
    }

    fn process_ready(&mut self, ready: ReadySources) -> Result<&State, RecordError> {
        self.counts.wake_ups += 1;
        let now = self.session.backend.clock.now();
        // A module's mapping comes before its samples.
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

    /// What the recording is doing.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What it holds so far.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            samples: self.shared.samples().iter().map(|event| event.samples).sum(),
            recorded: self.enabled.so_far(),
            throttled: self.shared.throttled(),
            written_bytes: self.shared.with_output(|output| output.written()),
        }
    }

    /// Descriptors of events that are open.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.events.number_of_files()
    }

    /// Warnings, and files that were completed, since this was asked for last.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Has system calls that the caller made for this recording counted in its ledger.
    pub fn count_system_calls(&mut self, number: u64) {
        self.counts.system_calls += number;
    }

    fn warn(&mut self, warning: Warning) {
        self.notices.push(Notice::Warning(warning));
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped(_))
    }

    /// Enables events, but those that only follow processes: they run all the time.
    ///
    /// # Errors
    /// The kernel's own.
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

    /// Disables events, but those that only follow processes.
    ///
    /// # Errors
    /// The kernel's own.
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

    /// Stops all events, those that follow processes too.
    fn disable_all(&mut self) -> Result<(), RecordError> {
        self.enabled.disabled();
        self.calls.iter_mut().for_each(CallSamples::stop);
        self.enable_off_cpu(false)?;
        self.events.set_enabled(false, |_| true).map_err(event_error("disable the events"))
    }

    fn enable_off_cpu(&mut self, enabled: bool) -> Result<(), RecordError> {
        Ok(self.off_cpu.iter_mut().try_for_each(|off_cpu| off_cpu.set_enabled(enabled))?)
    }

    /// Takes the time that tasks were not on a CPU. It is older than what ring buffers bring from now
    /// on, so it comes before each pass.
    fn take_off_cpu(&mut self) -> Result<(), RecordError> {
        let Some(off_cpu) = &mut self.off_cpu else { return Ok(()) };
        let samples = off_cpu.drain()?;
        if let Err(error) = self.shared.append_in_round(&samples) {
            self.stop_recording(error.into());
        }
        Ok(())
    }

    /// Enables the events that begin neither with the command nor later.
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

    /// Empties the ring buffers, and has their records in the recording where that is due; whether
    /// it was.
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
        // Files that fill one after the other are not to keep the caller waiting.
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

    /// The output takes nothing more: what can be read stays, and the command goes on.
    fn stop_recording(&mut self, why: StopReason) {
        // What the command does from now on is not missing in the recording.
        self.cgroup.at_end(self.session.following.as_ref());
        // Whether this works or not, nothing more is written.
        let _ = self.disable_all();
        self.state = State::Stopped(why);
    }
}
