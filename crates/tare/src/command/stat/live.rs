//! A run under way: counts until the supervisor or the schedule ends it, then reads the counters.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use tare_events::{EventGroup, OwnTime};
use tare_format::abi::Count;
use tare_kernel::child::{ChildExit, WaitingChild};
use tare_kernel::host::Topology;
use tare_measure::count::{
    Aggregation, CountOutcome, CountRow, Counters, Scope, Snapshot, Subject, sum_counts,
};
use tare_measure::stat::{CountedRun, RunEnd, ThreadNames};

use super::exact::{TURN, Turns};
use super::session::StatSession;
use crate::cli::resolved::schedule::Begin;
use crate::cli::resolved::stat::{StatForm, StatTarget};
use crate::command::control::{Control, Order};
use crate::command::supervise::{EndCause, Ending, Supervisor, Wake};

/// Called after each interval with its counts and its end, as time since the start.
pub(super) type OnInterval<'a> = &'a mut dyn FnMut(&CountedRun, Duration) -> anyhow::Result<()>;

/// A run that is over.
pub(super) struct EndedRun {
    pub(super) run: CountedRun,
    pub(super) ending: Ending,
}

/// Counts one run, with the set of events whose turn it is.
///
/// The child is forked before the events are opened, so that its counts include neither the fork
/// nor the opening. The cgroup is dropped after counting: it moves out processes that outlive the
/// command.
pub(super) fn run(
    session: &StatSession<'_>,
    turns: &Turns,
    number: u32,
    on_interval: OnInterval<'_>,
) -> anyhow::Result<EndedRun> {
    let turn = number as usize % turns.len();
    let chosen: Vec<usize> = if turns.in_time { (0..turns.len()).collect() } else { vec![turn] };
    let set = |&turn: &usize| {
        turns.set(turn).iter().map(|&group| session.stat.events.groups[group].clone()).collect()
    };
    let sets: Vec<Vec<EventGroup>> = chosen.iter().map(set).collect();
    let cgroup = session.cgroup()?;
    let folder = cgroup.as_ref().map(AsFd::as_fd);
    let signals = session.signals;
    let files = &session.files;
    // Only the document shows the command's peak memory. Otherwise a child that shares tare's memory
    // starts faster.
    let shows_peak = session.stat.output.form == StatForm::Document;
    let fork = |command| match folder {
        _ if shows_peak => WaitingChild::fork_lean(command, signals, files, folder),
        Some(_) => WaitingChild::fork_into(command, signals, files, folder),
        None => WaitingChild::fork_sharing(command, signals, files),
    };
    let child = session.command.as_ref().map(fork).transpose()?;
    let scope = session.scope(child.as_ref(), folder)?;
    let counters = session.open(&sets, &scope)?;
    let control = session.stat.control.as_deref().map(Control::open).transpose()?;
    let schedule = session.stat.schedule;
    let supervisor = Supervisor::new(Some(signals), child)
        .with_timeout(schedule.timeout)
        .with_control(control)
        .with_targets(session.targets()?, session.host);
    let live = LiveRun {
        session,
        supervisor,
        last: vec![Snapshot::default(); counters.len()],
        counting: CountingSets {
            counters,
            current: 0,
            enabled_since: None,
            counted: Duration::ZERO,
        },
        labels: RunLabels {
            aggregation: session.stat.aggregation,
            topology: topology(session, &scope),
            names: session.names(&scope),
            set: turn,
        },
        started: Instant::now(),
        last_shown: Duration::ZERO,
    };
    live.run(on_interval)
}

/// A run under way.
struct LiveRun<'a> {
    session: &'a StatSession<'a>,
    supervisor: Supervisor<'a>,
    counting: CountingSets,
    labels: RunLabels,
    /// The counts at the end of the last interval, for each set.
    last: Vec<Snapshot>,
    started: Instant,
    last_shown: Duration,
}

/// The opened sets of events, of which at most one is enabled.
struct CountingSets {
    /// One for each set of `--exact` that takes turns in time; otherwise a single one.
    counters: Vec<Counters>,
    /// Index of the set whose turn it is.
    current: usize,
    /// Since when a set is enabled; `None` while none is.
    enabled_since: Option<Instant>,
    /// Time that sets were enabled, up to the last disable.
    counted: Duration,
}

impl CountingSets {
    fn enable(&mut self) -> anyhow::Result<()> {
        self.counters[self.current].enable().context("cannot enable the events")?;
        self.enabled_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn disable(&mut self) -> anyhow::Result<()> {
        self.counters[self.current].disable().context("cannot disable the events")?;
        self.stop_clock();
        Ok(())
    }

    fn stop_clock(&mut self) {
        self.counted += self.enabled_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Passes the turn to the next set, unless counting is disabled.
    fn take_turns(&mut self) -> anyhow::Result<()> {
        if self.enabled_since.is_some() {
            self.disable()?;
            self.current = (self.current + 1) % self.counters.len();
            self.enable()?;
        }
        Ok(())
    }

    fn read(&self) -> Vec<Snapshot> {
        self.counters.iter().map(Counters::read).collect()
    }
}

/// What turns the counts of a run into rows.
struct RunLabels {
    aggregation: Aggregation,
    topology: Topology,
    names: ThreadNames,
    /// Number of the set of `--exact` that the run counts.
    set: usize,
}

/// The topology of the CPUs, if rows are parts of the machine; other rows don't use it.
fn topology(session: &StatSession<'_>, scope: &Scope) -> Topology {
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

/// Puts times of the run in place of the counts of perf's tool events. The command's own times are
/// known once it has exited.
fn fill_own_times(
    rows: &mut [CountRow],
    subjects: &[Subject],
    ended: Option<ChildExit>,
    counted: Duration,
) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    for row in rows {
        let Some(own) = subjects.get(row.event).and_then(|subject| subject.event.own_time()) else {
            continue;
        };
        let time = match own {
            OwnTime::Duration => Some(counted),
            OwnTime::User => ended.map(|ended| ended.user),
            OwnTime::System => ended.map(|ended| ended.system),
        };
        row.outcome = time.map_or(CountOutcome::NotCounted, |time| {
            let enabled_ns = nanoseconds(counted).max(1);
            CountOutcome::Counted(Count::new(nanoseconds(time), enabled_ns, enabled_ns))
        });
    }
}

/// When the schedule is due next.
struct Deadlines {
    begin: Option<Instant>,
    interval: Option<Instant>,
    turn: Option<Instant>,
}

impl Deadlines {
    fn next(&self) -> Option<Instant> {
        [self.begin, self.interval, self.turn].into_iter().flatten().min()
    }
}

/// Returns whether the deadline has passed; if so, moves it on by `period`, or removes it.
fn is_due(deadline: &mut Option<Instant>, now: Instant, period: Option<Duration>) -> bool {
    let Some(at) = deadline.filter(|&at| at <= now) else { return false };
    // A deadline that was missed by more than a period isn't made up for.
    *deadline = period.map(|period| if at + period > now { at + period } else { now + period });
    true
}

impl LiveRun<'_> {
    /// Counts until the run ends.
    fn run(mut self, on_interval: OnInterval<'_>) -> anyhow::Result<EndedRun> {
        self.start()?;
        let schedule = self.session.stat.schedule;
        let start = self.started;
        let begin =
            if let Begin::After(delay) = schedule.begin { Some(start + delay) } else { None };
        let mut deadlines = Deadlines {
            begin,
            interval: schedule.interval.map(|interval| start + interval),
            turn: (self.counting.counters.len() > 1).then(|| start + TURN),
        };
        let mut intervals_left = schedule.interval_count;
        loop {
            let wake = self.supervisor.wait(&[], deadlines.next())?;
            self.carry_out_orders(&wake)?;
            if let Some(EndCause::CommandExit | EndCause::SecondSignal | EndCause::IgnoredSignal) =
                wake.end
            {
                return self.finish(on_interval);
            }
            let now = Instant::now();
            if is_due(&mut deadlines.begin, now, None) {
                self.counting.enable()?;
            }
            if is_due(&mut deadlines.turn, now, Some(TURN)) {
                self.counting.take_turns()?;
            }
            if is_due(&mut deadlines.interval, now, schedule.interval) {
                self.show_interval(on_interval)?;
                intervals_left = intervals_left.map(|left| left - 1);
            }
            if wake.end.is_some() || intervals_left == Some(0) {
                return self.finish(on_interval);
            }
        }
    }

    /// Enables events that start at once but not by themselves, and lets the command go.
    fn start(&mut self) -> anyhow::Result<()> {
        let starts_on_exec = self.session.starts_on_exec();
        if self.session.stat.schedule.begin == Begin::AtOnce && !starts_on_exec {
            self.counting.enable()?;
        }
        self.started = Instant::now();
        self.supervisor.let_go()?;
        if starts_on_exec {
            self.counting.enabled_since = Some(self.started);
        }
        Ok(())
    }

    fn carry_out_orders(&mut self, wake: &Wake) -> anyhow::Result<()> {
        for order in &wake.orders {
            match order {
                Order::Enable => self.counting.enable()?,
                Order::Disable => self.counting.disable()?,
                Order::Ping | Order::Stop => {}
            }
            self.supervisor.acknowledge();
        }
        Ok(())
    }

    fn summarize(
        &self,
        snapshots: &[Snapshot],
        ended: Option<RunEnd>,
        elapsed: Duration,
        counted: Duration,
    ) -> CountedRun {
        let RunLabels { aggregation, topology, names, set } = &self.labels;
        let mut all = Vec::new();
        let mut subjects = Vec::new();
        for (counters, snapshot) in self.counting.counters.iter().zip(snapshots) {
            let first = subjects.len();
            let set_rows = sum_counts(counters.as_slice(), snapshot, *aggregation, topology);
            all.extend(
                set_rows.into_iter().map(|row| CountRow { event: row.event + first, ..row }),
            );
            subjects.extend(counters.as_slice().iter().map(|counter| counter.subject.clone()));
        }
        fill_own_times(&mut all, &subjects, ended.as_ref().map(|end| end.exit), counted);
        CountedRun { rows: all, subjects, names: names.clone(), set: *set, ended, elapsed, counted }
    }

    fn show_interval(&mut self, on_interval: OnInterval<'_>) -> anyhow::Result<()> {
        let now = self.counting.read();
        let elapsed = self.started.elapsed();
        let delta: Vec<Snapshot> =
            now.iter().zip(&self.last).map(|(now, last)| now.since(last)).collect();
        self.last = now;
        let length = elapsed - std::mem::replace(&mut self.last_shown, elapsed);
        on_interval(&self.summarize(&delta, None, elapsed, length), elapsed)
    }

    /// Stops counting, reads, and then ends a command that still runs.
    fn finish(mut self, on_interval: OnInterval<'_>) -> anyhow::Result<EndedRun> {
        let exited = self.supervisor.exited();
        // Once the command has exited, disabling isn't needed: processes that it leaves behind are
        // counted until the read below.
        if exited.is_none() || !matches!(self.session.stat.target, StatTarget::Command) {
            self.counting.disable()?;
        }
        self.counting.stop_clock();
        let elapsed = exited.map_or_else(|| self.started.elapsed(), |ended| ended.elapsed);
        let totals = self.counting.read();
        if self.session.stat.schedule.interval.is_some()
            && self.session.stat.schedule.interval_count.is_none_or(|_| exited.is_some())
        {
            self.show_interval(on_interval)?;
        }
        let ending = self.supervisor.stop()?;
        let ended = ending.exited.map(|exit| RunEnd { exit, by_tare: ending.is_terminated });
        let counted = self.counting.counted.min(elapsed);
        Ok(EndedRun { run: self.summarize(&totals, ended, elapsed, counted), ending })
    }
}
