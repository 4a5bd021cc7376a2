//! A live trace of a command, of processes or of the machine, for `tare trace`, `sched` and `lock`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use tare_kernel::bpf::FollowedTasks;
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};
use tare_kernel::child::{ChildCommand, FileLimit, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_kernel::targets::Targets;

use crate::cli::resolved::trace::{TraceScope, TraceTarget};
use crate::command::supervise::{Ending, Supervisor};
use crate::exit::{Exit, Refusal};

/// Longest time between two drains: a ring buffer with few records doesn't wake tare.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// A trace, from its setup to its end. The forked command, if there is one, is held before its
/// execve until [`Self::wait`] starts it.
pub(crate) struct TraceSession<'a> {
    traced: &'a TraceTarget,
    pub(crate) host: Host,
    signals: Signals,
    targets: Targets,
    child: Option<WaitingChild>,
}

/// A trace that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedTrace {
    ending: Ending,
    elapsed: Duration,
}

impl<'a> TraceSession<'a> {
    /// Forks the command. To be called before tracing starts, so that the fork isn't traced.
    ///
    /// # Errors
    /// Fails if the command isn't found or can't be forked, or if a target process doesn't exist.
    pub(crate) fn new(traced: &'a TraceTarget, host: Host) -> anyhow::Result<Self> {
        let signals = Signals::block().context("cannot wait for signals")?;
        let path = std::env::var_os("PATH");
        let command = (!traced.command.is_empty())
            .then(|| ChildCommand::find(&traced.command, path.as_deref()))
            .transpose()
            .map_err(|error| crate::command::remedy::with_status(error.into(), true))?;
        let targets = match &traced.target {
            TraceScope::Processes(pids) => {
                Targets::processes(pids).map_err(|error| Refusal::usage(error.to_string()))?
            }
            TraceScope::Command | TraceScope::All => Targets::default(),
        };
        let fork = |command| WaitingChild::fork(command, &signals, &FileLimit::now());
        let child = command.as_ref().map(fork).transpose()?;
        Ok(Self { traced, host, signals, targets, child })
    }

    /// Returns the tasks to follow.
    pub(crate) fn follow(&self) -> FollowedTasks {
        let child = self.child.as_ref().map(WaitingChild::pid);
        match (&self.traced.target, child) {
            (TraceScope::Command, Some(child)) => FollowedTasks::Command(child),
            (TraceScope::Processes(pids), _) => FollowedTasks::Processes(pids.clone()),
            (_, child) => FollowedTasks::All(child),
        }
    }

    /// Takes note that the command is traced by ptrace(2).
    pub(crate) fn expect_ptrace(&mut self) {
        self.child.iter_mut().for_each(WaitingChild::expect_ptrace);
    }

    /// Starts the command and waits until the trace ends. Calls `drain(false)` after each wait,
    /// which ends when one of `files` is readable, on a signal, or after [`DRAIN_INTERVAL`] if
    /// there are files; at the end `drain(true)`.
    ///
    /// # Errors
    /// Fails if the command can't be executed or waited for, or if `drain` fails.
    pub(crate) fn wait(
        &mut self,
        files: &[OwnedFd],
        mut drain: impl FnMut(bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<EndedTrace> {
        self.wait_while(files, |is_end| drain(is_end).map(|()| true))
    }

    /// Like [`Self::wait`], but the trace also ends when `drain` returns false.
    ///
    /// # Errors
    /// See [`Self::wait`].
    pub(crate) fn wait_while(
        &mut self,
        files: &[OwnedFd],
        mut drain: impl FnMut(bool) -> anyhow::Result<bool>,
    ) -> anyhow::Result<EndedTrace> {
        // All events are open. A seccomp filter may refuse this call; tare then keeps its
        // capabilities.
        let _ = keep_while_measuring(CapabilitySet::empty());
        let targets = std::mem::take(&mut self.targets);
        let mut supervisor = Supervisor::new(Some(&self.signals), self.child.take())
            .with_timeout(self.traced.timeout)
            .with_targets(targets, &self.host);
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let started = Instant::now();
        supervisor.let_go()?;
        loop {
            let deadline = (!files.is_empty()).then(|| Instant::now() + DRAIN_INTERVAL);
            let wake = supervisor.wait(&files, deadline)?;
            let goes_on = drain(false)?;
            if wake.end.is_some() || !goes_on {
                break;
            }
        }
        let ending = supervisor.stop()?;
        let elapsed = started.elapsed();
        drain(true)?;
        Ok(EndedTrace { ending, elapsed })
    }
}

/// Duplicates a tracer's descriptors, because the tracer itself is borrowed while it drains.
pub(crate) fn clones<'a>(
    files: impl Iterator<Item = BorrowedFd<'a>>,
) -> anyhow::Result<Vec<OwnedFd>> {
    let files = files.map(|file| file.try_clone_to_owned());
    files.collect::<Result<_, _>>().context("no file descriptor is left")
}

impl EndedTrace {
    /// Returns the time in nanoseconds from the command's start to the end of the trace.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the status to exit with.
    pub(crate) fn exit(&self) -> Exit {
        self.ending.exit()
    }
}
