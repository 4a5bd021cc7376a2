//! A run under way: wait for the command, signals, orders and deadlines; then read.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tare_events::EventGroup;
use tare_kernel::child::{ChildExit, RunningChild, WaitingChild};
use tare_kernel::host::Topology;
use tare_kernel::targets::Targets;
use tare_measure::count::{Aggregation, Counters, Row, Scope, Snapshot, rows};
use tare_measure::stat::{Run, ThreadNames};

use super::exact::{TURN, Turns};
use super::session::Session;
use crate::cli::resolved::stat::{Begin, StatTarget};
use crate::command::control::{self, Control, Order};
use crate::command::interrupt::{end_child, pass_on};

/// How often it is checked whether threads still exist: nothing can be polled for their end.
const THREAD_CHECKS: Duration = Duration::from_millis(200);

/// Called after each interval with what was counted in it, and how long after the start it ended.
pub(super) type OnInterval<'a> = &'a mut dyn FnMut(&Run, Duration) -> anyhow::Result<()>;

/// Whether the command is waited for any longer.
enum Waiting {
    /// It runs, or there is none.
    GoesOn,
    /// It has ended.
    Ended(ChildExit),
    /// The user insists that it is not.
    GivenUp,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The command or the targets ended, or the time was up.
    Done,
    /// The user ended it with this signal.
    Signal(i32),
}

/// A run that is over.
pub(super) struct EndedRun {
    pub(super) run: Run,
    pub(super) end: End,
    /// tare ended the command: the time was up, or `--control` said stop.
    ended_by_tare: bool,
}

impl EndedRun {
    /// Whether this status of the command is the end that the user asked for: SIGTERM of tare's.
    pub(super) fn is_own_end(&self, status: u8) -> bool {
        let by_sigterm = 128 + Signal::TERM.as_raw();
        self.ended_by_tare && self.end == End::Done && i32::from(status) == by_sigterm
    }
}

/// Counts one run, with the set of events whose turn it is.
pub(super) fn run(
    session: &Session<'_>,
    turns: &Turns,
    number: u32,
    on_interval: OnInterval<'_>,
) -> anyhow::Result<EndedRun> {
    let turn = number as usize % turns.len();
    let chosen: Vec<usize> = if turns.in_time { (0..turns.len()).collect() } else { vec![turn] };
    let set = |&turn: &usize| {
        turns.set(turn).iter().map(|&group| session.stat.groups[group].clone()).collect()
    };
    let sets: Vec<Vec<EventGroup>> = chosen.iter().map(set).collect();
    // The child is forked before anything is opened, so that none of it is in its counts.
    // Counting is over when the cgroup is dropped, which moves out who outlives the command.
    let cgroup = session.cgroup()?;
    let folder = cgroup.as_ref().map(AsFd::as_fd);
    let signals = session.signals;
    let files = &session.files;
    // Nobody asks for the command's peak memory.
    let fork = |command| match folder {
        Some(_) => WaitingChild::fork_into(command, signals, files, folder),
        None => WaitingChild::fork_sharing(command, signals, files),
    };
    let child = session.command.as_ref().map(fork).transpose()?;
    let scope = session.scope(child.as_ref(), folder)?;
    let counters = session.open(&sets, &scope)?;
    let control = session.stat.control.as_deref().map(Control::open).transpose()?;
    let mut live = Live {
        session,
        topology: topology(session, &scope),
        turn,
        last: vec![Snapshot::default(); counters.len()],
        counters,
        enabled_since: None,
        counted: Duration::ZERO,
        current: 0,
        started: Instant::now(),
        child: None,
        control,
        targets: session.targets()?,
        names: session.names(&scope),
        last_shown: Duration::ZERO,
    };
    live.start(child)?;
    live.wait(on_interval)
}

/// A run under way.
struct Live<'a> {
    session: &'a Session<'a>,
    topology: Topology,
    turn: usize,
    /// One for each set of `--exact` that takes turns in time; else a single one.
    counters: Vec<Counters>,
    last: Vec<Snapshot>,
    enabled_since: Option<Instant>,
    counted: Duration,
    current: usize,
    started: Instant,
    child: Option<RunningChild>,
    control: Option<Control>,
    targets: Targets,
    names: ThreadNames,
    last_shown: Duration,
}

/// Where the CPUs sit, for rows that are parts of the machine; other rows need none of it.
fn topology(session: &Session<'_>, scope: &Scope) -> Topology {
    let (Scope::Cpus(cpus) | Scope::Cgroups { cpus, .. } | Scope::CommandInCgroup { cpus, .. }) =
        scope
    else {
        return Topology::default();
    };
    match session.stat.aggregation {
        Aggregation::All | Aggregation::Cpu | Aggregation::Thread => Topology::default(),
        Aggregation::Cache(_) => session.host.topology_with_caches(cpus),
        _ => session.host.topology(cpus),
    }
}

/// When the next thing is due.
struct Deadlines {
    begin: Option<Instant>,
    interval: Option<Instant>,
    turn: Option<Instant>,
    timeout: Option<Instant>,
    threads: Option<Instant>,
}

impl Deadlines {
    fn next(&self) -> Option<Instant> {
        [self.begin, self.interval, self.turn, self.timeout, self.threads]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Takes a deadline that has passed.
fn due(deadline: &mut Option<Instant>, now: Instant, again: Option<Duration>) -> bool {
    let Some(at) = deadline.filter(|&at| at <= now) else { return false };
    // A deadline that was missed by more than a period isn't made up for.
    *deadline = again.map(|period| if at + period > now { at + period } else { now + period });
    true
}

impl Live<'_> {
    /// Enables what doesn't start by itself, and lets the command go.
    fn start(&mut self, child: Option<WaitingChild>) -> anyhow::Result<()> {
        if self.session.stat.schedule.begin == Begin::AtOnce && !self.session.starts_on_exec() {
            self.enable()?;
        }
        self.started = Instant::now();
        self.child =
            child.map(WaitingChild::start).transpose().context("cannot start the command")?;
        if self.session.starts_on_exec() {
            self.enabled_since = Some(self.started);
        }
        Ok(())
    }

    fn enable(&mut self) -> anyhow::Result<()> {
        self.counters[self.current].enable().context("cannot enable the events")?;
        self.enabled_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn disable(&mut self) -> anyhow::Result<()> {
        self.counters[self.current].disable().context("cannot disable the events")?;
        self.counted += self.enabled_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        Ok(())
    }

    /// Waits for the end of the run, and reads.
    fn wait(mut self, on_interval: OnInterval<'_>) -> anyhow::Result<EndedRun> {
        let schedule = self.session.stat.schedule;
        let start = self.started;
        let mut deadlines = Deadlines {
            begin: if let Begin::After(delay) = schedule.begin {
                Some(start + delay)
            } else {
                None
            },
            interval: schedule.interval.map(|interval| start + interval),
            turn: (self.counters.len() > 1).then(|| start + TURN),
            timeout: schedule.timeout.map(|timeout| start + timeout),
            threads: self.targets.must_be_looked_at().then(|| start + THREAD_CHECKS),
        };
        let mut intervals_left = schedule.interval_count;
        let mut interrupted = None;
        loop {
            self.poll(deadlines.next())?;
            let stop = self.orders()?;
            match self.signals(&mut interrupted)? {
                Waiting::GoesOn => {}
                Waiting::Ended(ended) => {
                    return self.finish(Some(ended), interrupted, on_interval);
                }
                Waiting::GivenUp => return self.finish(None, interrupted, on_interval),
            }
            let now = Instant::now();
            if due(&mut deadlines.begin, now, None) {
                self.enable()?;
            }
            if due(&mut deadlines.turn, now, Some(TURN)) && self.enabled_since.is_some() {
                self.disable()?;
                self.current = (self.current + 1) % self.counters.len();
                self.enable()?;
            }
            if due(&mut deadlines.interval, now, schedule.interval) {
                self.interval(on_interval)?;
                intervals_left = intervals_left.map(|left| left - 1);
            }
            let targets_gone = self
                .targets
                .ended(self.session.host, due(&mut deadlines.threads, now, Some(THREAD_CHECKS)));
            let interrupted_alone = interrupted.is_some() && self.child.is_none();
            if stop
                || targets_gone
                || interrupted_alone
                || intervals_left == Some(0)
                || due(&mut deadlines.timeout, now, None)
            {
                return self.finish(None, interrupted, on_interval);
            }
        }
    }

    /// Waits until something happens.
    fn poll(&self, until: Option<Instant>) -> anyhow::Result<()> {
        let mut files = vec![PollFd::from_borrowed_fd(self.session.signals.as_fd(), PollFlags::IN)];
        files.extend(
            self.control
                .iter()
                .map(|control| PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)),
        );
        files.extend(
            self.targets.files().map(|process| PollFd::from_borrowed_fd(process, PollFlags::IN)),
        );
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut files, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    /// Carries out what came over `--control`; whether it was to stop.
    fn orders(&mut self) -> anyhow::Result<bool> {
        let Some(mut control) = self.control.take() else { return Ok(false) };
        let (orders, ended) = control.orders();
        let mut stop = false;
        for order in orders {
            match order {
                Order::Enable => self.enable()?,
                Order::Disable => self.disable()?,
                Order::Ping => {}
                Order::Stop => stop = true,
            }
            control.acknowledge();
        }
        if ended == control::ControlEnd::No {
            self.control = Some(control);
        }
        Ok(stop)
    }

    /// Looks at the signals that arrived, and whether the command has ended.
    fn signals(&mut self, interrupted: &mut Option<i32>) -> anyhow::Result<Waiting> {
        if pass_on(self.session.signals, self.child.as_ref(), interrupted)?.insisted
            && self.child.is_some()
        {
            return Ok(Waiting::GivenUp);
        }
        let ended = self.child.as_mut().map_or(Ok(None), RunningChild::try_wait)?;
        Ok(ended.map_or(Waiting::GoesOn, Waiting::Ended))
    }

    fn run_of(
        &self,
        snapshots: &[Snapshot],
        ended: Option<ChildExit>,
        elapsed: Duration,
        counted: Duration,
    ) -> Run {
        let mut all = Vec::new();
        let mut subjects = Vec::new();
        for (counters, snapshot) in self.counters.iter().zip(snapshots) {
            let first = subjects.len();
            let of_set =
                rows(counters.as_slice(), snapshot, self.session.stat.aggregation, &self.topology);
            all.extend(of_set.into_iter().map(|row| Row { event: row.event + first, ..row }));
            subjects.extend(counters.as_slice().iter().map(|counter| counter.subject.clone()));
        }
        Run {
            rows: all,
            subjects,
            names: self.names.clone(),
            set: self.turn,
            ended,
            elapsed,
            counted,
        }
    }

    fn interval(&mut self, on_interval: OnInterval<'_>) -> anyhow::Result<()> {
        let now: Vec<Snapshot> = self.counters.iter().map(Counters::read).collect();
        let elapsed = self.started.elapsed();
        let delta: Vec<Snapshot> =
            now.iter().zip(&self.last).map(|(now, last)| now.since(last)).collect();
        self.last = now;
        let length = elapsed - std::mem::replace(&mut self.last_shown, elapsed);
        on_interval(&self.run_of(&delta, None, elapsed, length), elapsed)
    }

    fn finish(
        mut self,
        ended: Option<ChildExit>,
        interrupted: Option<i32>,
        on_interval: OnInterval<'_>,
    ) -> anyhow::Result<EndedRun> {
        // What a command started may go on; counts are those at its end.
        if ended.is_none() || !matches!(self.session.stat.target, StatTarget::Command) {
            self.disable()?;
        }
        self.counted += self.enabled_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let elapsed = ended.map_or_else(|| self.started.elapsed(), |ended| ended.elapsed);
        let totals: Vec<Snapshot> = self.counters.iter().map(Counters::read).collect();
        if self.session.stat.schedule.interval.is_some()
            && self.session.stat.schedule.interval_count.is_none_or(|_| ended.is_some())
        {
            self.interval(on_interval)?;
        }
        let end = interrupted.map_or(End::Done, End::Signal);
        let ended_by_tare = ended.is_none() && self.child.is_some();
        let ended =
            if ended_by_tare { self.child.as_mut().map_or(Ok(None), end_child)? } else { ended };
        let run = self.run_of(&totals, ended, elapsed, self.counted.min(elapsed));
        Ok(EndedRun { run, end, ended_by_tare })
    }
}
