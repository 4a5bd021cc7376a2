//! What all runs have in common, and one run's opening: fork, open, and hand over to `live`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tare_kernel::cgroup::Cgroups;
use tare_kernel::child::{Command, Ended, FileLimit, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;
use tare_kernel::procfs;
use tare_kernel::signals::Signals;
use tare_measure::count::{Aggregation, Cgroup, Counters, OpenError, Row, Scope, Start, Subject, Unavailable};
use tare_measure::event::EventGroup;

use super::control::Control;
use super::exact::Turns;
use super::live::{Live, Targets};
use super::report::Names;
use super::{opening, remedy};
use crate::cli::resolved::stat::{Begin, Stat, Target};
use crate::exit::Refusal;

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
    pub(super) stat: &'a Stat,
    pub(super) host: &'a Host,
    kernel: &'a dyn Kernel,
    pub(super) signals: &'a Signals,
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
        let mut live = Live::new(self, &scope, first, counters, control, self.targets()?, self.names(&scope));
        live.start(child)?;
        live.wait(on_interval)
    }

    fn open(&self, sets: &[Vec<EventGroup>], scope: &Scope, turns: &Turns) -> anyhow::Result<Vec<Counters>> {
        let start = if self.starts_on_exec() { Start::OnExec } else { Start::WhenEnabled };
        let opened = opening::open(self.stat, self.host, self.kernel, &self.files, sets, scope, start)?;
        if let Some(error) = nothing_permitted(&opened, scope) {
            return Err(self.explain(&error).into());
        }
        if self.stat.verbose > 0 {
            remedy::describe(&opened, self.stat.verbose, turns.len());
        }
        Ok(opened)
    }

    /// Whether counting starts by itself, in the program that the command executes.
    pub(super) fn starts_on_exec(&self) -> bool {
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
