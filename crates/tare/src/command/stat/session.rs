//! One run: open, let go, wait, read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tare_kernel::cgroup::Cgroups;
use tare_kernel::child::{Command, CommandError, Ended, FileLimit, RunningChild, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;
use tare_kernel::procfs;
use tare_kernel::signals::Signals;
use tare_measure::count::{Aggregation, Cgroup, Counters, OpenError, Options, Row, Scope, Snapshot, Start, Subject, Unavailable, needed_files, rows};
use tare_measure::event::EventGroup;

use super::control::{self, Control, Order};
use super::exact::{TURN, Turns};
use super::remedy;
use super::report::Names;
use crate::cli::resolved::stat::{Begin, Stat, Target};
use crate::exit::{Refusal, say};

/// SIGTERM: what ends a command when tare is asked to.
const TERMINATE: i32 = 15;
const INTERRUPT: i32 = 2;
const CHILD: i32 = 17;
/// How long a command may take to end after that.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often threads that can't be waited for are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The command or the targets ended, or the time was up.
    Done,
    /// The user ended it with this signal.
    Signal(i32),
}

/// What a run counted.
#[derive(Debug)]
pub(super) struct Run {
    /// The sums.
    pub(super) rows: Vec<Row>,
    /// What they count.
    pub(super) subjects: Vec<Subject>,
    /// What the threads are called that have rows of their own.
    pub(super) names: Names,
    /// Which set of `--exact` it was.
    pub(super) turn: usize,
    /// How the command ended and what it used.
    pub(super) ended: Option<Ended>,
    /// From the start to the end.
    pub(super) elapsed: Duration,
    /// For how long events were enabled.
    pub(super) counted: Duration,
    /// How it ended.
    pub(super) end: End,
}

/// What all runs have in common.
pub(super) struct Session<'a> {
    stat: &'a Stat,
    host: &'a Host,
    kernel: &'a dyn Kernel,
    signals: &'a Signals,
    files: FileLimit,
    command: Option<Command>,
}

/// Called after each interval with what was counted in it, and since when.
pub(super) type OnInterval<'a> = &'a mut dyn FnMut(&Run, Duration) -> anyhow::Result<()>;

impl<'a> Session<'a> {
    pub(super) fn new(stat: &'a Stat, host: &'a Host, kernel: &'a dyn Kernel, signals: &'a Signals, files: FileLimit) -> anyhow::Result<Self> {
        let path: Option<OsString> = std::env::var_os("PATH");
        let command = (!stat.command.is_empty()).then(|| Command::find(&stat.command, path.as_deref())).transpose()?;
        Ok(Self { stat, host, kernel, signals, files, command })
    }

    pub(super) fn kernel(&self) -> &dyn Kernel {
        self.kernel
    }

    /// The error that the user sees, with the remedy.
    pub(super) fn explain(&self, error: &OpenError) -> Refusal {
        remedy::for_open(error, self.host, &self.files)
    }

    /// Counts one run, with the set of events whose turn it is.
    pub(super) fn run(&self, turns: &Turns, number: u32, on_interval: OnInterval<'_>) -> anyhow::Result<Run> {
        let mut sets: Vec<Vec<EventGroup>> = Vec::new();
        let first = number as usize % turns.len();
        let chosen: Vec<usize> = if turns.in_time { (0..turns.len()).collect() } else { vec![first] };
        for &turn in &chosen {
            sets.push(turns.set(turn).iter().map(|&group| self.stat.groups[group].clone()).collect());
        }
        // The child is forked before anything is opened, so that none of it is in its counts.
        let child = self.command.as_ref().map(|command| WaitingChild::fork(command, self.signals, &self.files)).transpose()?;
        let scope = self.scope(child.as_ref())?;
        let counters = self.open(&sets, &scope, turns)?;
        let control = self.stat.control.as_deref().map(Control::open).transpose()?;
        let mut live = Live {
            session: self,
            scope: &scope,
            turn: first,
            last: vec![Snapshot::default(); counters.len()],
            enabled_since: None,
            counted: Duration::ZERO,
            current: 0,
            started: Instant::now(),
            child: None,
            control,
            targets: self.targets()?,
            names: self.names(&scope),
            last_shown: Duration::ZERO,
            counters,
        };
        live.start(child)?;
        live.wait(on_interval)
    }

    fn open(&self, sets: &[Vec<EventGroup>], scope: &Scope, turns: &Turns) -> anyhow::Result<Vec<Counters>> {
        let options = Options {
            start: if self.starts_on_exec() { Start::OnExec } else { Start::WhenEnabled },
            inheritance: self.stat.inheritance,
            leave_out_forbidden: !self.stat.by_name,
            pinned: self.stat.exact,
        };
        // Descriptors beyond those of events: the standard ones, pipes, signals, outputs.
        let needed: usize = sets.iter().map(|set| needed_files(set, scope)).sum::<usize>() + 16;
        if self.files.soft().is_some_and(|soft| soft < needed as u64) {
            self.files.raise();
        }
        let open = |set: &Vec<EventGroup>| Counters::open(self.kernel, set, scope, options).map_err(|error| self.explain(&error).into());
        let opened: Vec<Counters> = sets.iter().map(open).collect::<anyhow::Result<_>>()?;
        if let Some(error) = nothing_permitted(&opened, scope) {
            return Err(self.explain(&error).into());
        }
        if self.stat.verbose > 0 {
            remedy::describe(&opened, self.stat.verbose, turns.len());
        }
        Ok(opened)
    }

    fn starts_on_exec(&self) -> bool {
        matches!(self.stat.target, Target::Command) && self.stat.schedule.begin == Begin::AtOnce
    }

    fn scope(&self, child: Option<&WaitingChild>) -> anyhow::Result<Scope> {
        let missing = |pid: i32| move |_| Refusal::usage(format!("there is no process {pid}"));
        Ok(match (&self.stat.target, child) {
            (Target::Command, Some(child)) => Scope::Command(child.pid()),
            (Target::Command, None) => Scope::Tasks(Vec::new()),
            (Target::Processes(pids), _) => {
                let mut tids = BTreeSet::new();
                for &pid in pids {
                    tids.extend(procfs::threads(self.host, pid).map_err(missing(pid))?);
                }
                Scope::Tasks(tids.into_iter().collect())
            }
            (Target::Threads(tids), _) => Scope::Tasks(tids.clone()),
            (Target::Cpus(cpus), _) => Scope::Cpus(cpus.clone()),
            (Target::Cgroups { names, pairing, cpus }, _) => {
                let known = Cgroups::of(self.host);
                let open = |name: &String| -> anyhow::Result<Option<Cgroup>> {
                    if name.is_empty() {
                        return Ok(None);
                    }
                    let folder = known.find(self.host, name).map_err(|error| Refusal::usage(error.to_string()))?;
                    let folder = std::fs::File::open(&folder).with_context(|| format!("cgroup '{name}' ({})", folder.display()))?;
                    Ok(Some(Cgroup { name: name.clone(), folder: OwnedFd::from(folder) }))
                };
                Scope::Cgroups { cgroups: names.iter().map(open).collect::<Result<_, _>>()?, cpus: cpus.clone(), pairing: *pairing }
            }
        })
    }

    /// What threads are called when counting begins; they may be gone when it ends.
    fn names(&self, scope: &Scope) -> Names {
        match scope {
            Scope::Tasks(tids) if self.stat.aggregation == Aggregation::Thread => {
                tids.iter().filter_map(|&tid| Some((tid, procfs::name(self.host, tid)?))).collect()
            }
            _ => Names::new(),
        }
    }

    /// The running processes whose end ends the measurement.
    fn targets(&self) -> anyhow::Result<Targets> {
        let handle = |&pid: &i32| -> anyhow::Result<OwnedFd> {
            let known = Pid::from_raw(pid).with_context(|| format!("there is no process {pid}"))?;
            pidfd_open(known, PidfdFlags::empty()).with_context(|| format!("cannot watch process {pid}"))
        };
        Ok(match &self.stat.target {
            Target::Processes(pids) => Targets { processes: pids.iter().map(handle).collect::<Result<_, _>>()?, threads: Vec::new() },
            Target::Threads(tids) => Targets { processes: Vec::new(), threads: tids.clone() },
            _ => Targets::default(),
        })
    }
}

/// The error of a default set of events in which none may be counted by this user.
fn nothing_permitted(opened: &[Counters], scope: &Scope) -> Option<OpenError> {
    let mut counters = opened.iter().flat_map(Counters::as_slice);
    let forbidden = counters.clone().find(|counter| counter.unavailable() == Some(Unavailable::NotPermitted))?;
    counters.all(|counter| counter.unavailable().is_some()).then(|| OpenError::NotPermitted {
        event: forbidden.subject.event.name.clone(),
        per_cpu: scope.is_per_cpu(),
        errno: rustix::io::Errno::ACCESS,
    })
}

/// Running processes and threads that are waited for.
#[derive(Debug, Default)]
struct Targets {
    processes: Vec<OwnedFd>,
    threads: Vec<i32>,
}

/// A run under way.
struct Live<'a> {
    session: &'a Session<'a>,
    scope: &'a Scope,
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
    names: Names,
    last_shown: Duration,
}

/// When the next thing is due.
struct Deadlines {
    begin: Option<Instant>,
    interval: Option<Instant>,
    turn: Option<Instant>,
    timeout: Option<Instant>,
    look: Option<Instant>,
}

impl Deadlines {
    fn next(&self) -> Option<Instant> {
        [self.begin, self.interval, self.turn, self.timeout, self.look].into_iter().flatten().min()
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
    fn start(&mut self, child: Option<WaitingChild>) -> anyhow::Result<()> {
        if self.session.stat.schedule.begin == Begin::AtOnce && !self.session.starts_on_exec() {
            self.enable()?;
        }
        self.started = Instant::now();
        self.child = child.map(WaitingChild::start).transpose().context("cannot start the command")?;
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

    fn wait(mut self, on_interval: OnInterval<'_>) -> anyhow::Result<Run> {
        let schedule = self.session.stat.schedule;
        let start = self.started;
        let mut deadlines = Deadlines {
            begin: if let Begin::After(delay) = schedule.begin { Some(start + delay) } else { None },
            interval: schedule.interval.map(|interval| start + interval),
            turn: (self.counters.len() > 1).then(|| start + TURN),
            timeout: schedule.timeout.map(|timeout| start + timeout),
            look: (!self.targets.threads.is_empty()).then(|| start + LOOK),
        };
        let mut intervals_left = schedule.interval_count;
        let mut interrupted = None;
        loop {
            self.poll(deadlines.next())?;
            let stop = self.orders()?;
            if let Some(ended) = self.signals(&mut interrupted)? {
                return self.finish(Some(ended), interrupted, on_interval);
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
            let targets_gone = self.targets_ended(due(&mut deadlines.look, now, Some(LOOK)));
            let interrupted_alone = interrupted.is_some() && self.child.is_none();
            if stop || targets_gone || interrupted_alone || intervals_left == Some(0) || due(&mut deadlines.timeout, now, None) {
                return self.finish(None, interrupted, on_interval);
            }
        }
    }

    /// Waits until something happens.
    fn poll(&self, until: Option<Instant>) -> anyhow::Result<()> {
        let mut files = vec![PollFd::from_borrowed_fd(self.session.signals.as_fd(), PollFlags::IN)];
        files.extend(self.control.iter().map(|control| PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)));
        files.extend(self.targets.processes.iter().map(|process| PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)));
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() });
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
        if ended == control::Ended::No {
            self.control = Some(control);
        }
        Ok(stop)
    }

    /// Looks at the signals that arrived. Returns the command's end. What a terminal sends reaches the command by itself; what
    /// was sent to tare alone is passed on; the second time tare no longer waits for the command.
    fn signals(&mut self, interrupted: &mut Option<i32>) -> anyhow::Result<Option<Option<Ended>>> {
        while let Some(signal) = self.session.signals.next()? {
            if signal.number == CHILD {
                continue;
            }
            let again = interrupted.replace(signal.number).is_some();
            match &self.child {
                Some(_) if again => return Ok(Some(None)),
                Some(child) if !(signal.from_kernel && signal.number == INTERRUPT) => child.signal(signal.number),
                _ => {}
            }
        }
        let ended = self.child.as_mut().map_or(Ok(None), RunningChild::try_wait)?;
        Ok(ended.map(Some))
    }

    fn targets_ended(&mut self, look: bool) -> bool {
        let before = self.targets.processes.len() + self.targets.threads.len();
        self.targets.processes.retain(|process| {
            let mut file = [PollFd::new(process, PollFlags::IN)];
            !matches!(poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
        });
        if look {
            self.targets.threads.retain(|&tid| procfs::exists(self.session.host, tid));
        }
        before > 0 && self.targets.processes.is_empty() && self.targets.threads.is_empty()
    }

    fn run_of(&self, snapshots: &[Snapshot], ended: Option<Ended>, elapsed: Duration, counted: Duration, end: End) -> Run {
        let host = self.session.host;
        let topology = match self.scope {
            Scope::Cpus(cpus) | Scope::Cgroups { cpus, .. } => host.topology(cpus),
            _ => tare_kernel::host::Topology::default(),
        };
        let mut all = Vec::new();
        let mut subjects = Vec::new();
        for (counters, snapshot) in self.counters.iter().zip(snapshots) {
            let first = subjects.len();
            let of_set = rows(counters.as_slice(), snapshot, self.session.stat.aggregation, &topology);
            all.extend(of_set.into_iter().map(|row| Row { event: row.event + first, ..row }));
            subjects.extend(counters.as_slice().iter().map(|counter| counter.subject.clone()));
        }
        Run { rows: all, subjects, names: self.names.clone(), turn: self.turn, ended, elapsed, counted, end }
    }

    fn interval(&mut self, on_interval: OnInterval<'_>) -> anyhow::Result<()> {
        let now: Vec<Snapshot> = self.counters.iter().map(Counters::read).collect();
        let elapsed = self.started.elapsed();
        let delta: Vec<Snapshot> = now.iter().zip(&self.last).map(|(now, last)| now.since(last)).collect();
        self.last = now;
        let length = elapsed - std::mem::replace(&mut self.last_shown, elapsed);
        on_interval(&self.run_of(&delta, None, elapsed, length, End::Done), elapsed)
    }

    fn finish(mut self, ended: Option<Option<Ended>>, interrupted: Option<i32>, on_interval: OnInterval<'_>) -> anyhow::Result<Run> {
        let ended = ended.flatten();
        // What a command started may go on; counts are those at its end.
        if ended.is_none() || !matches!(self.session.stat.target, Target::Command) {
            self.disable()?;
        }
        self.counted += self.enabled_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let elapsed = ended.map_or_else(|| self.started.elapsed(), |ended| ended.elapsed);
        let totals: Vec<Snapshot> = self.counters.iter().map(Counters::read).collect();
        if self.session.stat.schedule.interval.is_some() && self.session.stat.schedule.interval_count.is_none_or(|_| ended.is_some()) {
            self.interval(on_interval)?;
        }
        let end = interrupted.map_or(End::Done, End::Signal);
        let ended = if ended.is_none() && self.child.is_some() { self.end_child()? } else { ended };
        Ok(self.run_of(&totals, ended, elapsed, self.counted.min(elapsed), end))
    }

    /// Ends the command as the time is up or the user said stop.
    fn end_child(&mut self) -> anyhow::Result<Option<Ended>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        child.signal(TERMINATE);
        let until = Instant::now() + PATIENCE;
        loop {
            match child.try_wait() {
                Err(CommandError::Fork(error)) => return Err(error).context("cannot wait for the command"),
                Err(error) => return Err(error.into()),
                Ok(Some(ended)) => return Ok(Some(ended)),
                Ok(None) if Instant::now() >= until => {
                    say(&format!("the command (process {}) goes on: it ignores SIGTERM", child.pid()));
                    return Ok(None);
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}
