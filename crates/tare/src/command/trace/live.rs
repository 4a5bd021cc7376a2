//! A trace under way: the waiting child, signals, the end of targets, the time-out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tare_kernel::bpf::FollowedTasks;
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};
use tare_kernel::child::{ChildCommand, ChildExit, FileLimit, RunningChild, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_kernel::targets::Targets;

use crate::cli::resolved::trace::{TraceScope, TraceTarget};
use crate::command::interrupt::{end_child, pass_on};
use crate::exit::{Exit, Refusal};

/// How long a record waits in the kernel at most: few are no reason to wake tare.
const LOOK: Duration = Duration::from_millis(50);

/// What is traced. The child waits.
pub(crate) struct Session<'a> {
    traced: &'a TraceTarget,
    pub(crate) host: Host,
    signals: Signals,
    targets: Targets,
    child: Option<WaitingChild>,
}

/// How a trace ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceEnd {
    /// How the command ended; `None` where there was none, or it goes on.
    pub(crate) ended: Option<ChildExit>,
    /// The signal that ended the trace.
    signal: Option<i32>,
    /// tare ended the command, as the time was up.
    timed_out: bool,
    pub(crate) elapsed: Duration,
}

impl<'a> Session<'a> {
    /// Forks the command, before anything is loaded, so that none of that is traced.
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

    /// Whom the programs are to follow.
    pub(crate) fn follow(&self) -> FollowedTasks {
        let child = self.child.as_ref().map(WaitingChild::pid);
        match (&self.traced.target, child) {
            (TraceScope::Command, Some(child)) => FollowedTasks::Command(child),
            (TraceScope::Processes(pids), _) => FollowedTasks::Processes(pids.clone()),
            (_, child) => FollowedTasks::All(child),
        }
    }

    /// Lets the command go, and waits until something ends the trace. Where there are `files`,
    /// `ready` is called when one can be read, every [`LOOK`], and after the end; it is told
    /// whether that was it.
    pub(crate) fn wait(
        &mut self,
        files: &[OwnedFd],
        mut ready: impl FnMut(bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<TraceEnd> {
        // All is attached. Where a filter refuses it, they stay.
        let _ = keep_while_measuring(CapabilitySet::empty());
        let started = Instant::now();
        let child = self.child.take().map(WaitingChild::start).transpose();
        let mut child = child.context("cannot start the command")?;
        let until = self.traced.timeout.map(|timeout| started + timeout);
        let mut over =
            TraceEnd { ended: None, signal: None, timed_out: false, elapsed: Duration::ZERO };
        loop {
            self.poll(files, until)?;
            ready(false)?;
            let insisted = pass_on(&self.signals, child.as_ref(), &mut over.signal)?.insisted;
            over.ended = child.as_mut().map_or(Ok(None), RunningChild::try_wait)?;
            let targets_ended = self.targets.ended(&self.host, false);
            over.timed_out = until.is_some_and(|until| until <= Instant::now());
            let alone = child.is_none() && over.signal.is_some();
            if over.ended.is_some() || targets_ended || over.timed_out || alone || insisted {
                break;
            }
        }
        if let (None, Some(child)) = (over.ended, &mut child) {
            over.ended = end_child(child)?;
        }
        over.elapsed = started.elapsed();
        ready(true)?;
        Ok(over)
    }

    fn poll(&self, more: &[OwnedFd], until: Option<Instant>) -> anyhow::Result<()> {
        let mut files = vec![PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        files.extend(self.targets.files().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        files.extend(more.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let look = (!more.is_empty()).then_some(LOOK);
        let left = left.into_iter().chain(look).min();
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut files, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }
}

/// Descriptors of a tracer that are waited for while it is drained.
pub(crate) fn clones<'a>(
    files: impl Iterator<Item = BorrowedFd<'a>>,
) -> anyhow::Result<Vec<OwnedFd>> {
    let files = files.map(|file| file.try_clone_to_owned());
    files.collect::<Result<_, _>>().context("no file descriptor is left")
}

impl TraceEnd {
    /// The exit status: the command's own where there was one.
    pub(crate) fn exit(&self, traced: &TraceTarget) -> Exit {
        let by_sigterm = 128 + 15;
        match (self.ended, self.signal) {
            (Some(ended), None) if self.timed_out && ended.status == by_sigterm => Exit::Command(0),
            (Some(ended), _) => Exit::Command(ended.status),
            (None, _) if !traced.command.is_empty() => Exit::Command(0),
            (None, Some(2)) => Exit::Interrupted,
            (None, Some(number)) => Exit::Command(u8::try_from(128 + number).unwrap_or(u8::MAX)),
            (None, None) => Exit::Success,
        }
    }
}
