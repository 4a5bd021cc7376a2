//! A recording under way.
//!
//! `start` opens it and `finish` ends it; `snapshot` appends the records that are kept in memory,
//! and `switch` begins another file. `ledger` computes the ledger's parts, `recount` the counts of
//! a file that had to end early, and `cost` the cost of sampling, which `rate_control` keeps within
//! a `budget`. `modules` tracks kernel modules, `hotplug` CPUs. `targets` are the recorded tasks,
//! `followed` the ones of a command. `system_calls` connects the BPF programs that record system
//! calls. `deep_stacks` starts the program that copies what samples have no room for. `ring_size` chooses the size of ring buffers and the number of readers, `description`
//! describes the recording.

mod budget;
mod cost;
mod deep_stacks;
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

use self::deep_stacks::DeepStackLoader;
pub use self::finish::RecordingResult;
use self::followed::CgroupUsage;
use self::hotplug::Hotplug;
use self::ledger::Baseline;
use self::modules::Modules;
use self::rate_control::RateControl;
pub use self::rate_control::SlowRate;
use self::snapshot::Snapshots;
use self::targets::TargetTasks;
use crate::capture::opening::Events;
use crate::capture::poller::{Poller, ReadySources, WakeSource};
use crate::capture::reader::{Pass, Reader, SharedOutput};
use crate::capture::threads::ReaderThread;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::off_cpu::OffCpuTimes;
use crate::options::Begin;
use crate::output::{Output, OutputError};
use crate::plan::EventStart;
use crate::session::RecordSession;
use crate::warning::{Notice, Warning};

/// Interval for checking threads whose exit can't be waited for.
const LOOK: Duration = Duration::from_millis(200);

/// Limit on the files begun per call.
const FILES_A_WAKE: usize = 16;

/// A recording under way. Its caller must call [`Recording::process`].
#[derive(Debug)]
pub struct Recording {
    session: RecordSession,
    /// The description at the beginning, with the ids of events that were reopened since.
    description: Description,
    capture: Capture,
    account: LedgerFigures,
    sources: EventSources,
    watch: KernelWatch,
    targets: RecordedTargets,
    deadlines: Deadlines,
    state: RecordingState,
    notices: Vec<Notice>,
}

/// The ring buffers and their readers. Every ring has one reader: `reader` on the caller's thread,
/// one of `threads`, or `snapshots` if it is overwritten. All of them append to `shared`.
#[derive(Debug)]
struct Capture {
    shared: Arc<SharedOutput>,
    reader: Reader,
    snapshots: Snapshots,
    threads: Vec<ReaderThread>,
    poller: Poller,
    /// Number of threads that read ring buffers, even after `threads` have ended.
    readers: usize,
}

impl Capture {
    /// Ends the reader threads. Their rings become this thread's.
    ///
    /// # Errors
    /// Fails if a thread has died, or had no reader.
    fn join_threads(&mut self) -> Result<(), RecordError> {
        for thread in std::mem::take(&mut self.threads) {
            let gone = || RecordError::Thread(std::io::ErrorKind::BrokenPipe.into());
            self.reader.rings.extend(thread.stop().ok_or_else(gone)?.rings);
        }
        Ok(())
    }

    /// Returns the output, once no reader thread is left.
    ///
    /// # Errors
    /// Fails if a thread still holds it.
    fn into_output(self) -> Result<Output, RecordError> {
        let shared = Arc::into_inner(self.shared);
        let shared = shared.ok_or_else(|| RecordError::Thread(std::io::ErrorKind::Other.into()))?;
        Ok(shared.into_output())
    }
}

/// The figures for ledgers. The ledger of a file counts from where the one before ended: `before`
/// holds the counters' values when the current file began, and `total` sums up the completed files.
#[derive(Debug)]
struct LedgerFigures {
    /// The ledger's part that is known at the start: the recorder, and how a command is followed.
    /// The rest is added at the end of a file.
    ledger: Ledger,
    total: Option<Ledger>,
    before: Baseline,
    counts: Counts,
    enabled: EnabledTime,
    /// The recorder's CPU time when [`Recording::stop`] was called, in nanoseconds; `None` before.
    until_ns: Option<u64>,
    /// The recorder's CPU time for measuring the cost of samples, in nanoseconds.
    calibration_ns: u64,
    /// The shortest time that the flight recorder could keep records, if that was less than
    /// requested.
    shortest: Option<Duration>,
}

impl LedgerFigures {
    fn new(ledger: Ledger, clock: Arc<dyn Clock>) -> Self {
        Self {
            ledger,
            total: None,
            before: Baseline::default(),
            counts: Counts::default(),
            enabled: EnabledTime::new(clock),
            until_ns: None,
            calibration_ns: 0,
            shortest: None,
        }
    }

    /// Adds the ledger of a completed file to the total.
    fn add_to_total(&mut self, ledger: &Ledger) {
        let total = self.total.take();
        self.total = Some(total.map_or_else(|| ledger.clone(), |total| total.and(ledger)));
    }
}

/// The sources of records. [`EventSources::resume`] starts off-CPU time before the events, and
/// [`EventSources::pause`] stops it after them, so that no time between has samples of events
/// alone. A source that can't be stopped doesn't keep the others running.
#[derive(Debug)]
struct EventSources {
    events: Events,
    off_cpu: Option<OffCpuTimes>,
    calls: Option<CallSamples>,
    /// Loads the program that copies deep stacks.
    deep: Option<DeepStackLoader>,
    /// Keeps the recording within a budget, if there is one.
    rate_control: Option<RateControl>,
}

impl EventSources {
    /// Enables the events whose index passes the test `which`.
    fn enable_events(&mut self, which: impl Fn(usize) -> bool) -> Result<(), RecordError> {
        self.events.set_enabled(true, which).map_err(event_error("enable the events"))
    }

    fn disable_events(&mut self, which: impl Fn(usize) -> bool) -> Result<(), RecordError> {
        self.events.set_enabled(false, which).map_err(event_error("disable the events"))
    }

    fn set_off_cpu(&mut self, enabled: bool) -> Result<(), RecordError> {
        Ok(self.off_cpu.iter_mut().try_for_each(|off_cpu| off_cpu.set_enabled(enabled))?)
    }

    /// Stops the programs that record system calls, and off-CPU time.
    fn stop_programs(&mut self) -> Result<(), RecordError> {
        self.calls.iter_mut().for_each(CallSamples::stop);
        self.set_off_cpu(false)
    }

    /// Starts off-CPU time, then enables the events whose index passes the test `which`.
    fn resume(&mut self, which: impl Fn(usize) -> bool) -> Result<(), RecordError> {
        self.set_off_cpu(true)?;
        self.enable_events(which)
    }

    /// Disables the events whose index passes the test `which`, then stops the programs.
    fn pause(&mut self, which: impl Fn(usize) -> bool) -> Result<(), RecordError> {
        let events = self.disable_events(which);
        events.and(self.stop_programs())
    }

    /// Stops the programs, then disables all events: the events that track processes end last,
    /// since the programs' samples refer to their records.
    fn stop_all(&mut self) -> Result<(), RecordError> {
        let programs = self.stop_programs();
        programs.and(self.disable_events(|_| true))
    }
}

/// Kernel objects that come and go: CPUs and modules. The kernel's messages about devices trigger a
/// look at both.
#[derive(Debug)]
struct KernelWatch {
    hotplug: Hotplug,
    modules: Modules,
}

/// The recorded tasks, and the usage of the command's cgroup, which is read before it is removed.
#[derive(Debug)]
struct RecordedTargets {
    tasks: TargetTasks,
    cgroup: CgroupUsage,
}

/// The state of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingState {
    /// Recording.
    Recording,
    /// All recorded processes or threads have exited, if those are the target.
    TargetsEnded,
    /// Nothing more is recorded.
    Stopped(StopReason),
}

impl RecordingState {
    /// Returns why nothing more is recorded, in words.
    fn stop_reason(&self) -> Option<String> {
        match self {
            Self::Stopped(reason) => Some(reason.to_string()),
            Self::Recording | Self::TargetsEnded => None,
        }
    }
}

/// Why a recording stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The output takes nothing more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The output has reached its size limit.
    #[error("it has reached its size limit")]
    MaxSize,
}

/// The figures of a recording so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Samples that were read from ring buffers.
    pub samples: u64,
    /// How long events were enabled.
    pub recorded: Duration,
    /// Number of times that the kernel throttled an event.
    pub throttled: u64,
    /// Bytes in the current file, or in the stream.
    pub written_bytes: u64,
}

/// Counts of occurrences on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    wake_ups: u64,
    system_calls: u64,
}

/// How long events were enabled, and the recorder's CPU time before that.
#[derive(Debug)]
struct EnabledTime {
    clock: Arc<dyn Clock>,
    enabled_since: Option<Instant>,
    before: Duration,
    /// The recorder's CPU time when events were first enabled, in nanoseconds; 0 before.
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

/// When each job is due.
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

/// Returns whether a deadline has passed. If so, sets the next one after `again`, or none.
fn has_passed(deadline: &mut Option<Instant>, now: Instant, again: Option<Duration>) -> bool {
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
        self.capture.poller.as_fd()
    }
}

impl Recording {
    /// The latest time for the next [`Recording::process`].
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadlines.next()
    }

    /// Makes the next [`Recording::process`] flush the output, and sets the flush interval of the
    /// caller's thread.
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
    pub fn process(&mut self) -> Result<&RecordingState, RecordError> {
        let ready = self.capture.poller.wait(Some(Duration::ZERO)).map_err(RecordError::Poll)?;
        self.account.counts.system_calls += 1;
        self.process_ready(ready)
    }

    /// The same, for a caller that has just found the recording's descriptor not readable: saves a
    /// system call.
    ///
    /// # Errors
    /// As [`Recording::process`].
    pub fn process_due(&mut self) -> Result<&RecordingState, RecordError> {
        self.process_ready(ReadySources::default())
    }

    fn process_ready(&mut self, ready: ReadySources) -> Result<&RecordingState, RecordError> {
        self.account.counts.wake_ups += 1;
        let now = self.session.backend.clock.now();
        // A module's mapping must precede its samples.
        let is_due = self.deadlines.flush <= now
            && (!self.watch.hotplug.has_messages() || self.watch.modules.is_look_due(now));
        if ready.contains(WakeSource::Cpus) || is_due {
            self.look_at_modules(now);
        }
        self.take_deep_stacks()?;
        let is_due = self.read(now)?;
        self.look_at_cpus(ready, is_due);
        if is_due {
            self.control_rate()?;
            self.sources.events.vary_periods(now);
        }
        if has_passed(&mut self.deadlines.begin, now, None) {
            self.enable()?;
        }
        let look = has_passed(&mut self.deadlines.look, now, Some(LOOK));
        if (look || ready.contains(WakeSource::Target))
            && self.targets.tasks.waited_for.have_exited(&self.session.backend.host, look)
            && self.state == RecordingState::Recording
        {
            self.state = RecordingState::TargetsEnded;
        }
        Ok(&self.state)
    }

    fn cpu_ns(&self) -> u64 {
        self.session.backend.clock.cpu_ns()
    }

    /// The state of the recording.
    #[must_use]
    pub fn state(&self) -> &RecordingState {
        &self.state
    }

    /// The figures so far.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            samples: self.capture.shared.samples().iter().map(|event| event.samples).sum(),
            recorded: self.account.enabled.so_far(),
            throttled: self.capture.shared.throttled(),
            written_bytes: self.capture.shared.with_output(|output| output.written()),
        }
    }

    /// Number of open event descriptors.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.sources.events.number_of_files()
    }

    /// Returns the warnings and completed files since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Adds system calls that the caller made for this recording to its ledger.
    pub fn count_system_calls(&mut self, number: u64) {
        self.account.counts.system_calls += number;
    }

    fn warn(&mut self, warning: Warning) {
        self.notices.push(Notice::Warning(warning));
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, RecordingState::Stopped(_))
    }

    /// Enables all events but the ones that only track processes, which already run, and starts
    /// off-CPU time. Does nothing in a stopped recording.
    ///
    /// # Errors
    /// Fails if the kernel can't enable an event.
    pub fn enable(&mut self) -> Result<(), RecordError> {
        if self.is_stopped() {
            return Ok(());
        }
        self.account.enabled.enabled();
        let session = &self.session;
        self.sources.resume(|event| !session.is_tracking_only(event))
    }

    /// Disables all events but the ones that only track processes, and stops the BPF programs.
    ///
    /// # Errors
    /// Fails if the kernel can't disable an event.
    pub fn disable(&mut self) -> Result<(), RecordError> {
        let session = &self.session;
        self.sources.pause(|event| !session.is_tracking_only(event))?;
        self.account.enabled.disabled();
        Ok(())
    }

    /// Stops all events, including the ones that track processes, and the BPF programs.
    fn disable_all(&mut self) -> Result<(), RecordError> {
        self.account.enabled.disabled();
        self.sources.stop_all()
    }

    /// Appends off-CPU time. It is older than later records of ring buffers, so it precedes each
    /// pass.
    fn take_off_cpu(&mut self) -> Result<(), RecordError> {
        let Some(off_cpu) = &mut self.sources.off_cpu else { return Ok(()) };
        let samples = off_cpu.drain()?;
        if let Err(error) = self.capture.shared.append_in_round(&samples) {
            self.stop_recording(error.into());
        }
        Ok(())
    }

    /// Enables the events that start neither with the command nor later; off-CPU time too, unless
    /// recording begins later.
    fn enable_at_once(&mut self) -> Result<(), RecordError> {
        let events = &self.session.plan.events;
        self.sources.enable_events(|event| events[event].start == EventStart::AtOnce)?;
        if self.session.options.begin == Begin::AtOnce {
            self.account.enabled.enabled();
            self.sources.set_off_cpu(true)?;
        }
        Ok(())
    }

    /// Empties the ring buffers, and flushes the output if that is due. Returns whether it was, and
    /// the recording hasn't stopped.
    fn read(&mut self, now: Instant) -> Result<bool, RecordError> {
        let is_due = self.deadlines.flush <= now;
        if is_due {
            self.deadlines.flush = now + self.session.options.rings.flush_interval;
        }
        self.sources.calls.iter_mut().for_each(CallSamples::clear_wakes);
        if !self.is_stopped() {
            self.take_off_cpu()?;
            self.empty(is_due);
        }
        Ok(is_due && !self.is_stopped())
    }

    fn empty(&mut self, is_due: bool) {
        // Files that fill quickly must not block the caller.
        for _ in 0..FILES_A_WAKE {
            let read = self.capture.reader.pass(&self.capture.shared);
            let flushed = if is_due { self.capture.shared.flush() } else { Ok(()) };
            match read.and_then(|pass| flushed.map(|()| pass)) {
                Err(error) => return self.stop_recording(error.into()),
                Ok(_) if self.capture.shared.with_output(|output| output.is_at_max_size()) => {
                    return self.stop_recording(StopReason::MaxSize);
                }
                Ok(pass) => {
                    if self.capture.shared.with_output(|output| output.is_switch_due()) {
                        self.switch();
                    }
                    if pass == Pass::Drained || self.is_stopped() {
                        return;
                    }
                }
            }
        }
    }

    /// Stops recording for this reason. Everything written before can be read, and the command
    /// continues.
    fn stop_recording(&mut self, why: StopReason) {
        // The command's later tasks don't count as missing.
        self.targets.cgroup.read_at_end(self.session.following.as_ref());
        // Even if this fails, nothing more is written.
        let _ = self.disable_all();
        self.state = RecordingState::Stopped(why);
    }
}

#[cfg(test)]
mod tests {
    use tare_format::abi::Attr;
    use tare_kernel::fake::Scripted;
    use tare_kernel::host::Host;
    use tare_kernel::open::EventTarget;

    use super::*;
    use crate::capture::EventToOpen;
    use crate::capture::jit::JitProcesses;
    use crate::capture::scanner::EventTable;
    use crate::clock::SystemClock;
    use crate::output::Destination;

    #[test]
    fn time_is_counted_only_while_events_are_enabled() {
        let mut time = EnabledTime::new(Arc::new(SystemClock));
        assert_eq!(time.so_far(), Duration::ZERO);
        time.enabled();
        std::thread::sleep(Duration::from_millis(2));
        time.disabled();
        let first = time.so_far();
        assert!(first >= Duration::from_millis(2));
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(time.so_far(), first);
    }

    #[test]
    fn the_total_sums_up_the_ledgers_of_completed_files() {
        let ledger = Ledger { throttled: 2, ..Ledger::default() };
        let mut account = LedgerFigures::new(Ledger::default(), Arc::new(SystemClock));
        assert_eq!(account.total, None);
        account.add_to_total(&ledger);
        account.add_to_total(&ledger);
        assert_eq!(account.total.map(|total| total.throttled), Some(4));
    }

    /// Two events on CPU 0, whose files are 3 and 4.
    fn sources(kernel: &Scripted) -> EventSources {
        let wanted = ["sampled", "tracking"].map(|name| EventToOpen {
            name: name.to_owned(),
            attr: Attr::default(),
            slower: Vec::new(),
            leader: None,
            targets: vec![(0, EventTarget::Cpu(0))],
        });
        let events = Events::open(kernel, wanted.to_vec()).unwrap();
        EventSources { events, off_cpu: None, calls: None, deep: None, rate_control: None }
    }

    #[test]
    fn a_pause_leaves_other_events_enabled_and_stopping_disables_all() {
        let kernel = Scripted::new();
        let mut sources = sources(&kernel);
        sources.resume(|event| event == 0).unwrap();
        sources.pause(|event| event == 0).unwrap();
        assert_eq!(kernel.calls(), ["enable 3", "disable 3"]);
        sources.stop_all().unwrap();
        assert_eq!(kernel.calls()[2..], ["disable 3", "disable 4"]);
    }

    #[test]
    fn the_next_deadline_is_the_earliest_and_periodic_ones_repeat() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut deadlines = Deadlines { flush: at(3), begin: Some(at(1)), look: Some(at(2)) };
        assert_eq!(deadlines.next(), at(1));
        assert!(has_passed(&mut deadlines.begin, at(1), None));
        assert!(!has_passed(&mut deadlines.begin, at(9), None));
        assert_eq!(deadlines.next(), at(2));
        assert!(has_passed(&mut deadlines.look, at(2), Some(Duration::from_secs(5))));
        assert_eq!((deadlines.look, deadlines.next()), (Some(at(7)), at(3)));
    }

    /// One reader thread without rings, beside the caller's reader.
    fn capture() -> Capture {
        let table = Arc::new(EventTable::default());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let jit = JitProcesses::new(Host::default(), Arc::clone(&clock), None);
        let output = Output::open(&Destination::File("/dev/null".into()), &Default::default());
        let shared = SharedOutput::new(output.unwrap(), 2, &table, None, clock, jit);
        Capture {
            reader: Reader::new(0, Vec::new()),
            snapshots: Snapshots::new(Vec::new(), &table, &shared),
            threads: vec![ReaderThread::start(1, None).unwrap()],
            poller: Poller::new().unwrap(),
            readers: 2,
            shared: Arc::new(shared),
        }
    }

    #[test]
    fn joined_threads_release_the_output() {
        let mut capture = capture();
        let second = Reader::new(1, Vec::new());
        let poller = Poller::new().unwrap();
        let interval = Duration::from_secs(60);
        capture.threads[0].give_rings(second, poller, &capture.shared, interval).unwrap();
        capture.join_threads().unwrap();
        assert_eq!((capture.threads.len(), capture.readers), (0, 2));
        capture.into_output().unwrap();
    }

    #[test]
    fn a_thread_without_a_reader_and_a_held_output_are_errors() {
        let mut capture = capture();
        assert!(matches!(capture.join_threads(), Err(RecordError::Thread(_))));
        let held = Arc::clone(&capture.shared);
        assert!(matches!(capture.into_output(), Err(RecordError::Thread(_))));
        drop(held);
    }
}
