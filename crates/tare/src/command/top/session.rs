//! A live profile: waits for the recorder, the user and the display, and measures tare's own cost.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tare_kernel::signals::Signals;
use tare_record::{Notice, RecordError, Recording, RecordingState};
use tare_render::LiveFigures;
use tare_tui::Running;

use super::feed::Feed;
use super::text::LivePrinter;
use crate::cli::resolved::top::Top;
use crate::command::record::wording;
use crate::command::supervise::{EndCause, Supervisor, Wake};
use crate::exit::say;

/// Time before the budget is held: the symbols of the kernel and of running programs are read once,
/// at the start.
const START_UP: Duration = Duration::from_secs(3);

/// Time from the start to the first refresh of the interactive view, unless its refresh interval is
/// shorter.
const FIRST_REFRESH: Duration = Duration::from_millis(400);

/// Longest time between two drains of the ring buffers. A file that is deleted before its samples
/// are read can't name them.
const LONGEST_DRAIN_INTERVAL: Duration = Duration::from_secs(2);

/// The same for copied stacks, which take more space in the ring buffers.
const LONGEST_STACK_DRAIN_INTERVAL: Duration = Duration::from_millis(500);

/// A refresh that is due this soon is made at once, which saves a wake-up.
const SLACK: Duration = Duration::from_millis(10);

/// Where the profile is shown.
pub(super) enum TopDisplay<'a> {
    /// The interactive interface. Its descriptor is readable when the user changes something or
    /// quits.
    Screen(&'a Running),
    /// Text or JSON.
    Text(&'a mut LivePrinter),
}

/// Why a live profile ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiveEnd {
    /// The user quit the interface.
    Quit,
    /// A signal, or the timeout.
    Supervised(EndCause),
    /// Everything that was sampled has exited.
    TargetExit,
    /// The recorder stopped.
    Stopped,
    /// The output can't be written, or its reader is gone.
    Unwritable,
}

/// A live profile under way.
pub(super) struct TopSession<'a> {
    recording: Recording,
    supervisor: Supervisor<'a>,
    feed: Feed,
    meter: CostMeter,
    /// Time between two refreshes of the display.
    delay: Duration,
    longest_drain_interval: Duration,
    /// When the display is refreshed next.
    due: Instant,
    is_paused: bool,
    notices: Vec<String>,
}

/// Measures tare's own cost between two refreshes.
struct CostMeter {
    last: CostReading,
    /// Length of the window that the display sums up.
    window: Duration,
}

/// tare's total cost at one moment.
#[derive(Clone, Copy, Debug)]
struct CostReading {
    at: Instant,
    own_cpu_s: f64,
    /// CPU time that samples cost in the kernel, where the cost of a sample is known.
    samples_s: Option<f64>,
}

impl CostReading {
    fn now(recording: &Recording) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            at: Instant::now(),
            own_cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9,
            samples_s: recording.cost_of_samples().map(|us| us.value * 1e-6),
        }
    }
}

impl CostMeter {
    /// Returns the cost since the last call.
    fn read(&mut self, recording: &Recording, is_paused: bool) -> LiveFigures {
        let now = CostReading::now(recording);
        let before = std::mem::replace(&mut self.last, now);
        let passed_s = (now.at - before.at).as_secs_f64().max(1e-3);
        let cpu_s = passed_s * recording.cpus().max(1) as f64;
        let samples_s = now.samples_s.zip(before.samples_s).map(|(now, before)| now - before);
        LiveFigures {
            window_s: self.window.as_secs_f64(),
            hz: recording.rate_hz(),
            requested_hz: recording.slow_rate().map(|slow| slow.requested_hz),
            slow_cause: recording.slow_rate().map(|slow| slow.cause),
            own_cpu_percent: 100.0 * (now.own_cpu_s - before.own_cpu_s) / passed_s,
            samples_percent: samples_s.map(|samples_s| 100.0 * samples_s / cpu_s),
            is_paused,
        }
    }
}

/// Words an error of the recorder.
type Explain<'a> = &'a dyn Fn(RecordError) -> anyhow::Error;

impl<'a> TopSession<'a> {
    /// `signals`: `None` where the interface handles them.
    pub(super) fn new(
        top: &Top,
        mut recording: Recording,
        feed: Feed,
        signals: Option<&'a Signals>,
    ) -> anyhow::Result<Self> {
        recording.begin_budget_after(START_UP);
        let first = if let Feed::Screen(_) = feed { FIRST_REFRESH } else { top.pace.delay };
        let longest_drain_interval = if recording.has_copied_stacks() {
            LONGEST_STACK_DRAIN_INTERVAL
        } else {
            LONGEST_DRAIN_INTERVAL
        };
        let mut supervisor = Supervisor::new(signals, None).with_timeout(top.timeout);
        supervisor.let_go()?;
        Ok(Self {
            supervisor,
            longest_drain_interval,
            meter: CostMeter { last: CostReading::now(&recording), window: top.pace.window },
            recording,
            feed,
            delay: top.pace.delay,
            due: Instant::now() + first.min(top.pace.delay),
            is_paused: false,
            notices: Vec::new(),
        })
    }

    /// Records and refreshes the display until the user, a signal, the timeout, the exit of all
    /// targets or an error ends it.
    pub(super) fn run(
        &mut self,
        display: &mut TopDisplay<'_>,
        explain: Explain<'_>,
    ) -> anyhow::Result<LiveEnd> {
        loop {
            let wake = self.wait(display)?;
            if let TopDisplay::Screen(running) = display
                && wake.is_ready(1)
            {
                if running.has_ended() {
                    return Ok(LiveEnd::Quit);
                }
                // The user changed something: the next refresh shows it at once.
                self.due = Instant::now();
            }
            if let Some(cause @ EndCause::Signal(_)) = wake.end {
                return Ok(LiveEnd::Supervised(cause));
            }
            let is_due = self.due <= Instant::now() + SLACK;
            if is_due {
                // This drain serves the refresh, which therefore needs no wake-up of its own.
                self.recording.flush_every(self.delay.min(self.longest_drain_interval));
            }
            let processed = match wake.is_ready(0) {
                true => self.recording.process(),
                false => self.recording.process_due(),
            };
            let state = processed.map_err(explain)?.clone();
            self.take_notices(display);
            match state {
                RecordingState::Recording => {}
                RecordingState::TargetsEnded => return Ok(LiveEnd::TargetExit),
                RecordingState::Stopped(_) => return Ok(LiveEnd::Stopped),
            }
            if let Some(cause) = wake.end {
                return Ok(LiveEnd::Supervised(cause));
            }
            if is_due {
                if !self.refresh(display).map_err(explain)? {
                    return Ok(LiveEnd::Unwritable);
                }
                self.due = Instant::now() + self.delay;
            } else {
                self.follow_pause().map_err(explain)?;
            }
        }
    }

    fn wait(&mut self, display: &TopDisplay<'_>) -> anyhow::Result<Wake> {
        let deadline = Some(self.due.min(self.recording.deadline()));
        match display {
            TopDisplay::Screen(running) => {
                self.supervisor.wait(&[self.recording.as_fd(), running.as_fd()], deadline)
            }
            TopDisplay::Text(_) => self.supervisor.wait(&[self.recording.as_fd()], deadline),
        }
    }

    /// Refreshes the display. Returns `false` if it can't be written.
    fn refresh(&mut self, display: &mut TopDisplay<'_>) -> Result<bool, RecordError> {
        let figures = self.meter.read(&self.recording, self.is_paused);
        match display {
            TopDisplay::Screen(running) => {
                if let Feed::Screen(feed) = &self.feed {
                    self.delay = feed.set_figures(&figures);
                }
                self.follow_pause()?;
                running.renew();
                Ok(true)
            }
            TopDisplay::Text(printer) => Ok(printer.print(&self.feed, &figures)),
        }
    }

    /// Stops or resumes recording, as the user paused or resumed the interface.
    fn follow_pause(&mut self) -> Result<(), RecordError> {
        let Feed::Screen(feed) = &self.feed else { return Ok(()) };
        let is_paused = feed.is_paused();
        if is_paused != self.is_paused {
            self.is_paused = is_paused;
            if is_paused { self.recording.disable()? } else { self.recording.enable()? }
        }
        Ok(())
    }

    /// Collects the recorder's warnings. They are printed at once with text, and after an interface
    /// has closed.
    fn take_notices(&mut self, display: &TopDisplay<'_>) {
        for notice in self.recording.take_notices() {
            if let Notice::Warning(warning) = notice {
                self.notices.push(wording::warning(&warning));
            }
        }
        if matches!(display, TopDisplay::Text(_)) {
            self.say_notices();
        }
    }

    /// Prints the collected warnings.
    pub(super) fn say_notices(&mut self) {
        self.notices.drain(..).for_each(|notice| say(&notice));
    }

    /// Drains the ring buffers, and prints for the last time.
    pub(super) fn finish(mut self, printer: &mut LivePrinter) -> anyhow::Result<()> {
        let figures = self.meter.read(&self.recording, self.is_paused);
        self.recording.finish(None)?;
        printer.print(&self.feed, &figures);
        Ok(())
    }
}
