//! A recording that is watched: wait for the recorder, the user and the time, and measure what that
//! costs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use tare_kernel::signals::Signals;
use tare_record::{Notice, RecordError, Recording, State};
use tare_render::LiveFigures;
use tare_tui::Running;

use super::feed::Feed;
use super::text::Printer;
use crate::cli::resolved::top::Top;
use crate::command::record::wording;
use crate::exit::say;

/// Symbols of the kernel and of what runs are read meanwhile, once.
const START_UP: Duration = Duration::from_secs(3);

/// When an interface hears for the first time what watching costs.
const SOON: Duration = Duration::from_millis(400);

/// How often records are looked at, at least: of what ended before nothing may be left that names
/// it.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// The same of copied stacks, of which a look takes in a limited number.
const LONGEST_LOOK_AT_STACKS: Duration = Duration::from_millis(500);

/// What is due so soon is done with what is due now: a wake-up less.
const SLACK: Duration = Duration::from_millis(10);

/// Who shows what is recorded, and who can end it.
pub(super) enum Shows<'a> {
    /// An interface, which has ended when its file is readable.
    Screen(&'a Running),
    /// What is printed; signals end it.
    Text(&'a Signals, &'a mut Printer),
}

/// What ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The interface.
    Interface,
    /// All that was sampled has ended.
    TargetsEnded,
    /// A signal.
    Signal(i32),
    /// The time is up.
    Timeout,
    /// The recorder takes nothing more.
    Stopped,
    /// Nobody reads any more, or what is printed can't be written.
    Unwritable,
}

/// A recording that is watched.
pub(super) struct Session {
    recording: Recording,
    feed: Feed,
    costs: Costs,
    window: Duration,
    delay: Duration,
    longest_look: Duration,
    /// When what is shown changes next.
    due: Instant,
    until: Option<Instant>,
    /// The recorder's file was readable.
    is_ready: bool,
    is_paused: bool,
    notices: Vec<String>,
}

/// What watching has cost by a moment.
#[derive(Clone, Copy, Debug)]
struct Costs {
    at: Instant,
    own_cpu_s: f64,
    samples_s: Option<f64>,
}

impl Costs {
    fn now(recording: &Recording) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            at: Instant::now(),
            own_cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9,
            samples_s: recording.cost_of_samples().map(|us| us.value * 1e-6),
        }
    }
}

impl Session {
    pub(super) fn new(top: &Top, mut recording: Recording, feed: Feed) -> Self {
        let now = Instant::now();
        recording.begin_budget_after(START_UP);
        let first = if let Feed::Screen(_) = feed { SOON } else { top.pace.delay };
        let longest_look =
            if recording.has_copied_stacks() { LONGEST_LOOK_AT_STACKS } else { LONGEST_LOOK };
        Self {
            longest_look,
            costs: Costs::now(&recording),
            recording,
            feed,
            window: top.pace.window,
            delay: top.pace.delay,
            due: now + first.min(top.pace.delay),
            until: top.timeout.map(|timeout| now + timeout),
            is_ready: false,
            is_paused: false,
            notices: Vec::new(),
        }
    }

    /// Goes on until something ends it.
    pub(super) fn run(&mut self, shows: &mut Shows<'_>) -> Result<SessionEnd, RecordError> {
        loop {
            if let Some(over) = self.wait(shows) {
                return Ok(over);
            }
            let is_due = self.due <= Instant::now() + SLACK;
            if is_due {
                // What is shown is what there is by now, and no other wake-up is needed for it.
                self.recording.flush_every(self.delay.min(self.longest_look));
            }
            let processed = match self.is_ready {
                true => self.recording.process(),
                false => self.recording.process_due(),
            };
            let state = processed?.clone();
            self.note_notices(shows);
            match state {
                State::Recording => {}
                State::TargetsEnded => return Ok(SessionEnd::TargetsEnded),
                State::Stopped(_) => return Ok(SessionEnd::Stopped),
            }
            let now = Instant::now();
            if self.until.is_some_and(|until| until <= now) {
                return Ok(SessionEnd::Timeout);
            }
            if is_due {
                if !self.refresh(shows)? {
                    return Ok(SessionEnd::Unwritable);
                }
                self.due = now + self.delay;
            } else if let (Feed::Screen(_), Shows::Screen(_)) = (&self.feed, &shows) {
                self.pause()?;
            }
        }
    }

    /// Waits until something happens; what ends it, if that did.
    fn wait(&mut self, shows: &Shows<'_>) -> Option<SessionEnd> {
        let deadline = self.until.map_or(self.due, |until| until.min(self.due));
        let left = deadline.min(self.recording.deadline());
        let left = left.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let other = match shows {
            Shows::Screen(running) => running.as_fd(),
            Shows::Text(signals, _) => signals.as_fd(),
        };
        let mut files = [
            PollFd::new(&self.recording, PollFlags::IN),
            PollFd::from_borrowed_fd(other, PollFlags::IN),
        ];
        // Where it can't wait, what is due is looked at all the same.
        let _ = poll(&mut files, Some(&left));
        let [recorder, is_ready] = [0, 1].map(|at| !files[at].revents().is_empty());
        self.is_ready = recorder;
        match shows {
            _ if !is_ready => None,
            Shows::Screen(running) if running.has_ended() => Some(SessionEnd::Interface),
            Shows::Screen(_) => {
                // The user wants something else: that is seen at once.
                self.due = Instant::now();
                None
            }
            Shows::Text(signals, _) => {
                while let Ok(Some(signal)) = signals.next() {
                    if signal.number != Signal::CHILD.as_raw() {
                        return Some(SessionEnd::Signal(signal.number));
                    }
                }
                None
            }
        }
    }

    /// Has what is shown change; `false` where it can't be written.
    fn refresh(&mut self, shows: &mut Shows<'_>) -> Result<bool, RecordError> {
        let figures = self.figures();
        match shows {
            Shows::Screen(running) => {
                self.pause_with(&figures)?;
                running.renew();
            }
            Shows::Text(_, printer) => return Ok(printer.print(&self.feed, &figures)),
        }
        Ok(true)
    }

    /// What watching cost since the last figures.
    fn figures(&mut self) -> LiveFigures {
        let now = Costs::now(&self.recording);
        let before = std::mem::replace(&mut self.costs, now);
        let passed_s = (now.at - before.at).as_secs_f64().max(1e-3);
        let of_cpus = passed_s * self.recording.cpus().max(1) as f64;
        let samples_s = now.samples_s.zip(before.samples_s).map(|(now, before)| now - before);
        LiveFigures {
            window_s: self.window.as_secs_f64(),
            hz: self.recording.rate_hz(),
            own_cpu_percent: 100.0 * (now.own_cpu_s - before.own_cpu_s) / passed_s,
            samples_percent: samples_s.map(|samples_s| 100.0 * samples_s / of_cpus),
            is_paused: self.is_paused,
        }
    }

    /// Stops or begins recording again, as the user wants it.
    fn pause(&mut self) -> Result<(), RecordError> {
        let Feed::Screen(feed) = &self.feed else { return Ok(()) };
        let is_paused = feed.is_paused();
        self.set_paused(is_paused)
    }

    fn pause_with(&mut self, figures: &LiveFigures) -> Result<(), RecordError> {
        let Feed::Screen(feed) = &self.feed else { return Ok(()) };
        let delay = feed.set_figures(figures);
        self.delay = delay;
        self.pause()
    }

    fn set_paused(&mut self, is_paused: bool) -> Result<(), RecordError> {
        if is_paused != self.is_paused {
            self.is_paused = is_paused;
            if is_paused { self.recording.disable()? } else { self.recording.enable()? }
        }
        Ok(())
    }

    /// Takes over what the recorder has to say: what stands on a whole terminal is not written over.
    fn note_notices(&mut self, shows: &Shows<'_>) {
        for notice in self.recording.take_notices() {
            if let Notice::Warning(warning) = notice {
                self.notices.push(wording::warning(&warning));
            }
        }
        if matches!(shows, Shows::Text(..)) {
            self.say_notices();
        }
    }

    /// Says what the recorder had to say.
    pub(super) fn say_notices(&mut self) {
        self.notices.drain(..).for_each(|notice| say(&notice));
    }

    /// Takes what is left in the ring buffers, and prints for the last time.
    pub(super) fn finish(mut self, printer: &mut Printer) -> anyhow::Result<()> {
        let figures = self.figures();
        self.recording.finish(None)?;
        printer.print(&self.feed, &figures);
        Ok(())
    }
}
