//! A recording under way: wait for rings, the command, signals, orders and deadlines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use tare_format::file::writer::Description;
use tare_kernel::child::{Ended, RunningChild, WaitingChild};

use super::account::Before;
use super::followed::CgroupSeen;
use super::pace::Pace;
use super::plan::Start;
use super::session::Session;
use super::snapshot::Snapshots;
use crate::cli::resolved::stat::Begin;
use crate::command::control::{self, Control, Order};
use crate::command::interrupt::pass_on;
use crate::command::targets::Targets;
use crate::pipeline::capture::helpers::Helper;
use crate::pipeline::capture::opening::Events;
use crate::pipeline::capture::reader::{Pass, Reader, Shared};
use crate::pipeline::capture::wakes::{Waker, Wakes, Woken};
use crate::pipeline::output::{OutputError, Switch};
use crate::pipeline::synthesize;
use tare_format::ledger::Ledger;

/// How often threads that can't be waited for are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// So many files at most are begun before anything else is looked at.
const FILES_A_WAKE: usize = 16;

/// A recording under way.
pub(super) struct Live<'a> {
    pub(super) session: &'a Session<'a>,
    /// Names the recorder; the rest of it is known at the end.
    pub(super) ledger: Ledger,
    /// What the recording began with.
    pub(super) description: Description,
    pub(super) events: Events,
    pub(super) shared: Arc<Shared>,
    pub(super) reader: Reader,
    pub(super) snapshots: Snapshots,
    pub(super) helpers: Vec<Helper>,
    pub(super) wakes: Wakes,
    pub(super) control: Option<Control>,
    pub(super) targets: Targets,
    pub(super) child: Option<RunningChild>,
    pub(super) clock: Clock,
    pub(super) counts: Counts,
    pub(super) cgroup: CgroupSeen,
    /// Threads that read rings.
    pub(super) readers: usize,
    /// What had been counted when the file at hand began.
    pub(super) before: Before,
    /// Who was there when the recording began.
    pub(super) existing: Option<synthesize::Targets>,
    /// The ledger of all files that are complete.
    pub(super) total: Option<Ledger>,
    /// Where less than was asked for could be kept, for how long that was.
    pub(super) shortest: Option<Duration>,
    /// Why nothing more is recorded, though the command may go on.
    pub(super) stopped: Option<Stopped>,
    /// What keeps within a budget, if there is one.
    pub(super) pace: Option<Pace>,
}

/// How a recording ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// How the command ended; `None` where there was none, or it goes on.
    pub(super) ended: Option<Ended>,
    /// The signal that ended the recording.
    pub(super) signal: Option<i32>,
}

/// Why a recording is over before it was ended.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The output takes nothing more.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// It is as large as the user wants it to become.
    #[error("it reached the size that --max-size allows")]
    MaxSize,
}

/// What happened while events were recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) wake_ups: u64,
    pub(super) system_calls: u64,
}

/// For how long events were enabled, and what the recorder used until then and since.
#[derive(Debug)]
pub(super) struct Clock {
    enabled_since: Option<Instant>,
    recorded: Duration,
    /// The recorder's CPU time when events were first enabled.
    pub(super) started_cpu_ns: u64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { enabled_since: None, recorded: Duration::ZERO, started_cpu_ns: 0 }
    }

    pub(super) fn enabled(&mut self) {
        if self.started_cpu_ns == 0 {
            self.started_cpu_ns = cpu_ns();
        }
        self.enabled_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn disabled(&mut self) {
        self.recorded += self.enabled_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// For how long events were enabled.
    pub(super) fn recorded(&self) -> Duration {
        self.recorded + self.enabled_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// CPU time of this process so far.
pub(super) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)).unwrap_or(0)
}

/// When the next thing is due.
struct Deadlines {
    flush: Instant,
    begin: Option<Instant>,
    timeout: Option<Instant>,
    look: Option<Instant>,
}

impl Deadlines {
    fn next(&self) -> Instant {
        [self.begin, self.timeout, self.look].into_iter().flatten().fold(self.flush, Instant::min)
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

impl Live<'_> {
    /// Starts the command, and the events that start neither with it nor later.
    pub(super) fn start(&mut self, child: Option<WaitingChild>) -> anyhow::Result<()> {
        let plan = self.session.plan;
        self.cgroup.at_start(self.session.follow);
        self.begin_pace()?;
        let at_once = |event: usize| plan.events[event].start == Start::AtOnce;
        if self.stopped.is_none() {
            self.events.set_enabled(true, at_once).context("cannot enable the events")?;
        }
        if self.session.record.begin == Begin::AtOnce {
            self.clock.enabled();
        }
        self.child =
            child.map(WaitingChild::start).transpose().context("cannot start the command")?;
        Ok(())
    }

    fn enable(&mut self) -> anyhow::Result<()> {
        self.clock.enabled();
        self.events
            .set_enabled(true, |event| !self.session.only_tracks(event))
            .context("cannot enable the events")
    }

    fn disable(&mut self) -> anyhow::Result<()> {
        self.events
            .set_enabled(false, |event| !self.session.only_tracks(event))
            .context("cannot disable the events")?;
        self.clock.disabled();
        Ok(())
    }

    /// Stops all events, those that follow processes too.
    pub(super) fn disable_all(&mut self) -> anyhow::Result<()> {
        self.clock.disabled();
        self.events.set_enabled(false, |_| true).context("cannot disable the events")
    }

    /// Records until something ends it.
    pub(super) fn wait(&mut self) -> anyhow::Result<End> {
        let record = self.session.record;
        let (start, interval) = (Instant::now(), record.rings.flush_interval);
        let mut deadlines = Deadlines {
            flush: start + interval,
            begin: if let Begin::After(delay) = record.begin { Some(start + delay) } else { None },
            timeout: record.timeout.map(|timeout| start + timeout),
            look: self.targets.must_be_looked_at().then(|| start + LOOK),
        };
        let mut signal = None;
        loop {
            let woken = self
                .wakes
                .wait(Some(deadlines.next().saturating_duration_since(Instant::now())))
                .context("cannot wait for events")?;
            self.counts.wake_ups += 1;
            self.counts.system_calls += 1;
            let now = Instant::now();
            if self.read(now, &mut deadlines.flush, interval) {
                self.keep_pace()?;
            }
            let stop = woken.by(Waker::Control) && self.orders()?;
            let insisted = woken.by(Waker::Signal) && self.signals(&mut signal)?;
            if let Some(ended) = self.command_ended(woken)? {
                return Ok(End { ended: Some(ended), signal });
            }
            if due(&mut deadlines.begin, now, None) {
                self.enable()?;
            }
            let look = due(&mut deadlines.look, now, Some(LOOK));
            let targets_gone =
                (look || woken.by(Waker::Target)) && self.targets.ended(self.session.host, look);
            let interrupted_alone = signal.is_some() && self.child.is_none();
            let nothing_left = self.stopped.is_some() && self.child.is_none();
            if stop
                || insisted
                || targets_gone
                || interrupted_alone
                || nothing_left
                || due(&mut deadlines.timeout, now, None)
            {
                return Ok(End { ended: None, signal });
            }
        }
    }

    /// Empties the rings, and has what was in them in the recording where that is due; whether it
    /// was.
    fn read(&mut self, now: Instant, flush: &mut Instant, interval: Duration) -> bool {
        let is_due = *flush <= now;
        if is_due {
            *flush = now + interval;
        }
        if self.stopped.is_none() {
            self.empty(is_due);
        }
        is_due && self.stopped.is_none()
    }

    fn empty(&mut self, is_due: bool) {
        // Files that fill one after the other are not to keep signals and orders waiting.
        for _ in 0..FILES_A_WAKE {
            let read = self.reader.pass(&self.shared);
            let flushed = if is_due { self.shared.flush() } else { Ok(()) };
            match read.and_then(|pass| flushed.map(|()| pass)) {
                Err(error) => return self.stop_recording(error.into()),
                Ok(_) if self.shared.with_output(|output| output.is_at_max_size()) => {
                    return self.stop_recording(Stopped::MaxSize);
                }
                Ok(pass) => {
                    if self.shared.with_output(|output| output.wants_switch()) {
                        self.switch();
                    }
                    if pass == Pass::Drained || self.stopped.is_some() {
                        return;
                    }
                }
            }
        }
    }

    /// The output takes nothing more: what can be read stays, and the command goes on.
    pub(super) fn stop_recording(&mut self, why: Stopped) {
        // Whether this works or not, nothing more is written.
        let _ = self.disable_all();
        self.stopped = Some(why);
    }

    /// Carries out what came over `--control`; whether it was to stop.
    fn orders(&mut self) -> anyhow::Result<bool> {
        let Some(mut control) = self.control.take() else { return Ok(false) };
        let (orders, ended) = control.orders();
        let mut stop = false;
        for order in orders {
            match order {
                Order::Enable if self.stopped.is_none() => self.enable()?,
                Order::Disable => self.disable()?,
                Order::Enable | Order::Ping => {}
                Order::Stop => stop = true,
            }
            control.acknowledge();
        }
        if ended == control::Ended::No {
            self.control = Some(control);
        } else {
            // An end of file would else wake the recorder without end.
            self.wakes.remove(&control).context("cannot close --control")?;
        }
        Ok(stop)
    }

    /// Looks at the signals that arrived; whether the user insists that tare ends now.
    fn signals(&mut self, interrupted: &mut Option<i32>) -> anyhow::Result<bool> {
        let arrived = pass_on(self.session.signals, self.child.as_ref(), interrupted)?;
        // Each signal is read, and then that there is none left; and the command is asked for.
        self.counts.system_calls += arrived.signals + 2;
        if arrived.asked && self.stopped.is_none() {
            self.dump()?;
            if self.session.record.output.options.switch == Some(Switch::Signal) {
                self.switch();
            }
        }
        Ok(arrived.insisted && self.child.is_some())
    }

    fn command_ended(&mut self, woken: Woken) -> anyhow::Result<Option<Ended>> {
        match &mut self.child {
            Some(child) if woken.by(Waker::Signal) => Ok(child.try_wait()?),
            _ => Ok(None),
        }
    }
}
