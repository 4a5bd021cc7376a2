//! State that all runs share: where they count, and how their events are opened.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::Context;
use tare_events::EventGroup;
use tare_events::{OpenError, Unavailable};
use tare_kernel::cgroup::{Cgroups, TransientCgroup, TransientParent};
use tare_kernel::child::{ChildCommand, FileLimit, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;
use tare_kernel::procfs;
use tare_kernel::signals::Signals;
use tare_kernel::targets::Targets;
use tare_measure::count::{
    Aggregation, Cgroup, CounterOptions, Counters, Scope, Start, needed_files,
};
use tare_measure::stat::ThreadNames;

use crate::cli::resolved::schedule::Begin;
use crate::cli::resolved::stat::{Stat, StatTarget};
use crate::command::remedy;
use crate::exit::{Exit, Refusal};

/// Descriptors that tare uses beside one per event: standard files, pipes, signals, outputs.
const OTHER_FILES: usize = 24;

/// Opens events: raises the limit on open files if needed, and adds the remedy to errors.
pub(super) struct Opener<'a> {
    pub(super) stat: &'a Stat,
    pub(super) host: &'a Host,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) files: &'a FileLimit,
}

impl Opener<'_> {
    /// Opens each of these sets of groups on the scope.
    pub(super) fn open(
        &self,
        sets: &[Vec<EventGroup>],
        scope: &Scope,
        start: Start,
    ) -> anyhow::Result<Vec<Counters>> {
        let options = CounterOptions {
            start,
            inheritance: self.stat.inheritance,
            leave_out_forbidden: !self.stat.events.by_name,
            no_cpu_pmu: self.stat.events.no_cpu_pmu,
            pinned: self.stat.events.exact,
        };
        let needed = sets.iter().map(|set| needed_files(set, scope)).sum::<usize>() + OTHER_FILES;
        if self.files.soft().is_some_and(|soft| soft < needed as u64) {
            self.files.raise();
        }
        let open = |set: &Vec<EventGroup>| {
            Counters::open(self.kernel, set, scope, options)
                .map_err(|error| remedy::for_open(&error, self.host, self.files).into())
        };
        sets.iter().map(open).collect()
    }
}

/// State that all runs share.
pub(super) struct StatSession<'a> {
    pub(super) stat: &'a Stat,
    pub(super) host: &'a Host,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) signals: &'a Signals,
    pub(super) files: FileLimit,
    pub(super) command: Option<ChildCommand>,
}

impl<'a> StatSession<'a> {
    pub(super) fn new(
        stat: &'a Stat,
        host: &'a Host,
        kernel: &'a dyn Kernel,
        signals: &'a Signals,
        files: FileLimit,
    ) -> anyhow::Result<Self> {
        let path: Option<OsString> = std::env::var_os("PATH");
        let command = (!stat.command.is_empty())
            .then(|| ChildCommand::find(&stat.command, path.as_deref()))
            .transpose()?;
        Ok(Self { stat, host, kernel, signals, files, command })
    }

    /// Words the error, with the remedy.
    pub(super) fn explain(&self, error: &OpenError) -> Refusal {
        remedy::for_open(error, self.host, &self.files)
    }

    /// Opens each of these sets of groups.
    pub(super) fn open(
        &self,
        sets: &[Vec<EventGroup>],
        scope: &Scope,
    ) -> anyhow::Result<Vec<Counters>> {
        let start = if self.starts_on_exec() { Start::OnExec } else { Start::WhenEnabled };
        let opened =
            Opener { stat: self.stat, host: self.host, kernel: self.kernel, files: &self.files }
                .open(sets, scope, start)?;
        if let Some(error) = nothing_permitted(&opened, scope) {
            return Err(self.explain(&error).into());
        }
        if self.stat.output.verbose > 0 {
            remedy::describe(&opened, self.stat.output.verbose);
        }
        Ok(opened)
    }

    /// Whether counting starts with the command's execve (`enable_on_exec`).
    pub(super) fn starts_on_exec(&self) -> bool {
        matches!(self.stat.target, StatTarget::Command) && self.stat.schedule.begin == Begin::AtOnce
    }

    /// Creates the cgroup that the command is started and counted in (`--follow=cgroup`).
    pub(super) fn cgroup(&self) -> anyhow::Result<Option<TransientCgroup>> {
        if !matches!(self.stat.target, StatTarget::CommandInCgroup(_)) {
            return Ok(None);
        }
        let refuse = |error| Refusal {
            exit: Exit::OwnFailure,
            message: format!("--follow=cgroup: {error}; use --follow=inherit"),
        };
        Ok(Some(
            TransientParent::find(self.host)
                .and_then(|place| place.create(self.host))
                .map_err(refuse)?,
        ))
    }

    /// Where this run is counted. `child` is its command, `cgroup` the one it starts in.
    pub(super) fn scope(
        &self,
        child: Option<&WaitingChild>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> anyhow::Result<Scope> {
        let missing = |pid: i32| move |_| Refusal::usage(format!("there is no process {pid}"));
        Ok(match (&self.stat.target, child) {
            (StatTarget::Command, Some(child)) => Scope::Command(child.pid()),
            (StatTarget::CommandInCgroup(cpus), _) => {
                let folder = cgroup
                    .context("the command has no cgroup")?
                    .try_clone_to_owned()
                    .context("cannot keep the command's cgroup open")?;
                Scope::CommandInCgroup { folder, cpus: cpus.clone() }
            }
            (StatTarget::Command, None) => Scope::Tasks(Vec::new()),
            (StatTarget::Processes(pids), _) => {
                let mut tids = BTreeSet::new();
                for &pid in pids {
                    tids.extend(procfs::threads(self.host, pid).map_err(missing(pid))?);
                }
                Scope::Tasks(tids.into_iter().collect())
            }
            (StatTarget::Threads(tids), _) => Scope::Tasks(tids.clone()),
            (StatTarget::Cpus { cpus, .. }, _) => Scope::Cpus(cpus.clone()),
            (StatTarget::Cgroups { names, pairing, cpus }, _) => {
                let known = Cgroups::read(self.host);
                let open = |name: &String| -> anyhow::Result<Option<Cgroup>> {
                    if name.is_empty() {
                        return Ok(None);
                    }
                    let folder = known
                        .find(self.host, name)
                        .map_err(|error| Refusal::usage(error.to_string()))?;
                    let folder = std::fs::File::open(&folder)
                        .with_context(|| format!("cgroup '{name}' ({})", folder.display()))?;
                    Ok(Some(Cgroup { name: name.clone(), folder: OwnedFd::from(folder) }))
                };
                Scope::Cgroups {
                    cgroups: names.iter().map(open).collect::<Result<_, _>>()?,
                    cpus: cpus.clone(),
                    pairing: *pairing,
                }
            }
        })
    }

    /// Reads the names of threads that have rows, when counting begins: a thread may exit before it
    /// ends.
    pub(super) fn names(&self, scope: &Scope) -> ThreadNames {
        match scope {
            Scope::Tasks(tids) if self.stat.aggregation == Aggregation::Thread => {
                tids.iter().filter_map(|&tid| Some((tid, procfs::name(self.host, tid)?))).collect()
            }
            _ => ThreadNames::new(),
        }
    }

    /// The running processes or threads whose exit ends the measurement.
    pub(super) fn targets(&self) -> anyhow::Result<Targets> {
        Ok(match &self.stat.target {
            StatTarget::Processes(pids) => Targets::processes(pids)?,
            StatTarget::Threads(tids) => Targets::threads(tids),
            _ => Targets::default(),
        })
    }
}

/// Returns the error if no event can be counted, and this user's rights are a reason.
fn nothing_permitted(opened: &[Counters], scope: &Scope) -> Option<OpenError> {
    let mut counters = opened.iter().flat_map(Counters::as_slice);
    let forbidden = counters
        .clone()
        .find(|counter| counter.unavailable() == Some(Unavailable::NotPermitted))?;
    counters.all(|counter| counter.unavailable().is_some()).then(|| OpenError::NotPermitted {
        event: forbidden.subject.event.name.clone(),
        per_cpu: scope.is_per_cpu(),
        task: if let Scope::Tasks(tids) = scope { tids.first().copied() } else { None },
        errno: rustix::io::Errno::ACCESS,
    })
}
