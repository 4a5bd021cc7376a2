//! Runs a command beside a measurement and exits as the command did.
//!
//! ```text
//! held --let_go--> running --wait--> the command exits
//!                                    a signal without a command, or that the command ignores
//!                                    a second signal
//!                                    `stop` over --control
//!                                    all target processes and threads exit
//!                                    the timeout
//!                                    the caller's own reason
//!                  --stop--> SIGTERM to a command that still runs --> Ending --> exit status
//! ```
//!
//! [`Supervisor::wait`] also returns when one of the caller's descriptors is ready or the caller's
//! deadline passes; the caller then does its own work and waits again.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tare_kernel::child::{ChildExit, CommandError, RunningChild, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_kernel::targets::Targets;

use super::control::{Control, Order};
use crate::exit::{Exit, say};

/// How long a command may run on after SIGTERM.
const TERMINATION_LIMIT: Duration = Duration::from_secs(5);

/// How often a command is checked for its exit after SIGTERM.
const TERMINATION_CHECK: Duration = Duration::from_millis(5);

/// How often target threads are checked for their exit: before Linux 6.9 only processes have pidfds
/// to poll.
const THREAD_CHECK: Duration = Duration::from_millis(200);

/// The command, if there is one, and everything that can end a measurement.
#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    /// `None` where an interface handles signals.
    signals: Option<&'a Signals>,
    command: CommandState,
    control: Option<Control>,
    targets: Option<WatchedTargets<'a>>,
    timeout: Option<Duration>,
    /// When the timeout expires; set by [`Supervisor::let_go`].
    timeout_at: Option<Instant>,
    /// The last signal that asked tare to end.
    signal: Option<i32>,
    /// Whether tare sent SIGTERM to the command by itself.
    is_terminated: bool,
}

#[derive(Debug)]
enum CommandState {
    Absent,
    /// Forked, and waiting before its execve.
    Held(WaitingChild),
    Running(RunningChild),
    Exited(ChildExit),
}

/// Running processes and threads whose exit ends the measurement.
#[derive(Debug)]
struct WatchedTargets<'a> {
    targets: Targets,
    host: &'a Host,
    /// When threads are checked next; `None` without threads.
    thread_check: Option<Instant>,
}

/// Why a measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// The command exited.
    CommandExit,
    /// A signal arrived, and there is no command to wait for.
    Signal(i32),
    /// A second signal arrived while the command still runs.
    SecondSignal,
    /// A signal arrived that was ignored when tare started, so that the command ignores it too.
    IgnoredSignal,
    /// `stop` arrived over `--control`.
    StopOrder,
    /// All target processes and threads exited.
    TargetExit,
    /// The timeout expired.
    Timeout,
}

/// What [`Supervisor::wait`] noticed.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    /// Set once the measurement is to end.
    pub(crate) end: Option<EndCause>,
    /// Orders from `--control`: carry each out, then call [`Supervisor::acknowledge`].
    pub(crate) orders: Vec<Order>,
    /// Whether SIGUSR2 arrived, which asks for a snapshot.
    pub(crate) is_snapshot_requested: bool,
    /// System calls of this wait, except those that read orders.
    pub(crate) system_calls: u64,
    /// A bit for each of the caller's descriptors.
    ready: u64,
}

/// How a measurement ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// How the command exited; `None` without a command, or if it outlived SIGTERM.
    pub(crate) exited: Option<ChildExit>,
    /// The signal that asked tare to end.
    pub(crate) signal: Option<i32>,
    /// Whether tare sent SIGTERM to the command by itself.
    pub(crate) is_terminated: bool,
    has_command: bool,
}

impl Wake {
    /// Whether the caller's descriptor at `index` is readable or closed.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.ready & (1 << index) != 0
    }
}

impl<'a> Supervisor<'a> {
    /// `child` stays held until [`Supervisor::let_go`].
    pub(crate) fn new(signals: Option<&'a Signals>, child: Option<WaitingChild>) -> Self {
        Self {
            signals,
            command: child.map_or(CommandState::Absent, CommandState::Held),
            control: None,
            targets: None,
            timeout: None,
            timeout_at: None,
            signal: None,
            is_terminated: false,
        }
    }

    /// Ends the measurement this long after [`Supervisor::let_go`].
    pub(crate) fn with_timeout(self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self }
    }

    /// Takes orders from `--control`.
    pub(crate) fn with_control(self, control: Option<Control>) -> Self {
        Self { control, ..self }
    }

    /// Ends the measurement when all targets have exited.
    pub(crate) fn with_targets(self, targets: Targets, host: &'a Host) -> Self {
        let thread_check = targets.need_polling().then(|| Instant::now() + THREAD_CHECK);
        Self { targets: Some(WatchedTargets { targets, host, thread_check }), ..self }
    }

    /// Lets the command execute its program, and starts the timeout.
    ///
    /// # Errors
    /// Fails if the command can't be started.
    pub(crate) fn let_go(&mut self) -> anyhow::Result<()> {
        self.timeout_at = self.timeout.map(|timeout| Instant::now() + timeout);
        self.command = match std::mem::replace(&mut self.command, CommandState::Absent) {
            CommandState::Held(child) => {
                CommandState::Running(child.start().context("cannot start the command")?)
            }
            state => state,
        };
        Ok(())
    }

    /// How the command exited, once it has.
    pub(crate) fn exited(&self) -> Option<ChildExit> {
        if let CommandState::Exited(ended) = self.command { Some(ended) } else { None }
    }

    /// Waits until one of `files` is ready, `deadline` passes, something arrives that [`Wake`]
    /// reports, or a check of target threads is due.
    ///
    /// # Errors
    /// Fails if polling or reading signals fails, or if the command's program could not be
    /// executed.
    pub(crate) fn wait(
        &mut self,
        files: &[BorrowedFd<'_>],
        deadline: Option<Instant>,
    ) -> anyhow::Result<Wake> {
        let polled = self.poll(files, deadline)?;
        let mut wake = Wake { ready: polled.ready, system_calls: 1, ..Wake::default() };
        if polled.has_orders {
            wake.orders = self.control.as_mut().map_or_else(Vec::new, Control::read_orders);
        }
        let is_second = polled.has_signals && self.read_signals(&mut wake)?;
        if polled.has_signals
            && let CommandState::Running(child) = &mut self.command
        {
            wake.system_calls += 1;
            if let Some(ended) = child.try_wait()? {
                self.command = CommandState::Exited(ended);
            }
        }
        wake.end = self.end_cause(is_second, &wake.orders);
        Ok(wake)
    }

    fn end_cause(&mut self, is_second_signal: bool, orders: &[Order]) -> Option<EndCause> {
        let now = Instant::now();
        match (&self.command, self.signal) {
            (CommandState::Exited(_), _) => return Some(EndCause::CommandExit),
            (CommandState::Absent, Some(number)) => return Some(EndCause::Signal(number)),
            _ if is_second_signal => return Some(EndCause::SecondSignal),
            (_, Some(number)) if self.signals.is_some_and(|all| all.was_ignored(number)) => {
                return Some(EndCause::IgnoredSignal);
            }
            _ => {}
        }
        if orders.contains(&Order::Stop) {
            return Some(EndCause::StopOrder);
        }
        if self.targets.as_mut().is_some_and(|targets| targets.have_exited(now)) {
            return Some(EndCause::TargetExit);
        }
        self.timeout_at.is_some_and(|at| at <= now).then_some(EndCause::Timeout)
    }

    fn poll(&self, files: &[BorrowedFd<'_>], deadline: Option<Instant>) -> anyhow::Result<Polled> {
        let thread_check = self.targets.as_ref().and_then(|targets| targets.thread_check);
        let until = [deadline, self.timeout_at, thread_check].into_iter().flatten().min();
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        let signals = self.signals.map(AsFd::as_fd);
        let control = self.control.as_ref().and_then(Control::file);
        let targets = self.targets.iter().flat_map(|watched| watched.targets.files());
        let own = signals.into_iter().chain(control).chain(targets);
        let mut polled: Vec<PollFd<'_>> = files
            .iter()
            .copied()
            .chain(own)
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for events"),
        }
        let is_ready = |index: usize| !polled[index].revents().is_empty();
        let ready = (0..files.len()).filter(|&index| is_ready(index));
        Ok(Polled {
            ready: ready.fold(0, |bits, index| bits | 1 << index),
            has_signals: signals.is_some() && is_ready(files.len()),
            has_orders: control.is_some() && is_ready(files.len() + usize::from(signals.is_some())),
        })
    }

    /// Reads the signals that arrived, and passes the first one that asks tare to end on to the
    /// command, except a terminal's SIGINT: a terminal signals the whole foreground process group.
    /// Returns whether a second signal asks tare to end.
    fn read_signals(&mut self, wake: &mut Wake) -> anyhow::Result<bool> {
        let Some(signals) = self.signals else { return Ok(false) };
        let mut is_second = false;
        loop {
            wake.system_calls += 1;
            let Some(signal) = signals.next()? else { return Ok(is_second) };
            if signal.number == Signal::CHILD.as_raw() {
                continue;
            }
            if signal.number == Signal::USR2.as_raw() {
                wake.is_snapshot_requested = true;
                continue;
            }
            let is_first = self.signal.replace(signal.number).is_none();
            is_second |= !is_first;
            let is_from_terminal = signal.from_kernel && signal.number == Signal::INT.as_raw();
            if let CommandState::Running(child) = &self.command
                && is_first
                && !is_from_terminal
            {
                child.signal(signal.number);
            }
        }
    }

    /// Confirms an order of `--control` that was carried out.
    pub(crate) fn acknowledge(&self) {
        if let Some(control) = &self.control {
            control.acknowledge();
        }
    }

    /// Terminates a command that still runs, and returns how the measurement ended. A command that
    /// ignores SIGTERM for five seconds is left running, with a message.
    ///
    /// # Errors
    /// Fails if the command can't be waited for, or if its program could not be executed.
    pub(crate) fn stop(&mut self) -> anyhow::Result<Ending> {
        if let CommandState::Running(child) = &mut self.command {
            self.is_terminated = true;
            if let Some(ended) = terminate(child)? {
                self.command = CommandState::Exited(ended);
            }
        }
        Ok(self.ending())
    }

    fn ending(&self) -> Ending {
        Ending {
            exited: self.exited(),
            signal: self.signal,
            has_command: !matches!(self.command, CommandState::Absent),
            is_terminated: self.is_terminated,
        }
    }
}

/// What a poll reports.
struct Polled {
    ready: u64,
    has_signals: bool,
    has_orders: bool,
}

impl WatchedTargets<'_> {
    fn have_exited(&mut self, now: Instant) -> bool {
        let checks_threads = self.thread_check.is_some_and(|at| at <= now);
        if checks_threads {
            self.thread_check = Some(now + THREAD_CHECK);
        }
        self.targets.have_exited(self.host, checks_threads)
    }
}

impl Ending {
    /// The status to exit with: the command's own, or 0 if it still runs, or died of the SIGTERM
    /// that tare sent though no signal had asked tare to end. Without a command, 128 + signal, or
    /// 0.
    pub(crate) fn exit(&self) -> Exit {
        match (self.exited, self.signal) {
            (Some(ended), None)
                if self.is_terminated && i32::from(ended.status) == 128 + Signal::TERM.as_raw() =>
            {
                Exit::Command(0)
            }
            (Some(ended), _) => Exit::Command(ended.status),
            (None, _) if self.has_command => Exit::Command(0),
            (None, Some(number)) => Exit::from_signal(number),
            (None, None) => Exit::Success,
        }
    }
}

/// Lets a command go and waits until it exits. A second signal kills it; a signal that it ignores
/// is followed by SIGTERM. Returns how it exited, and the last signal that asked tare to end.
///
/// # Errors
/// Fails if the command can't be started, executed or waited for.
pub(crate) fn run_to_exit(
    child: WaitingChild,
    signals: &Signals,
) -> anyhow::Result<(ChildExit, Option<i32>)> {
    let mut supervisor = Supervisor::new(Some(signals), Some(child));
    supervisor.let_go()?;
    loop {
        let wake = supervisor.wait(&[], None)?;
        match &supervisor.command {
            CommandState::Exited(ended) => return Ok((*ended, supervisor.signal)),
            CommandState::Running(child) if wake.end == Some(EndCause::SecondSignal) => {
                child.signal(Signal::KILL.as_raw());
            }
            CommandState::Running(child) if wake.end == Some(EndCause::IgnoredSignal) => {
                child.signal(Signal::TERM.as_raw());
            }
            _ => {}
        }
    }
}

/// Sends SIGTERM and waits for the exit. `None`: the command still runs, and the user was told.
fn terminate(child: &mut RunningChild) -> anyhow::Result<Option<ChildExit>> {
    child.signal(Signal::TERM.as_raw());
    // A stopped process takes the signal when it continues.
    child.signal(Signal::CONT.as_raw());
    let until = Instant::now() + TERMINATION_LIMIT;
    loop {
        match child.try_wait() {
            Err(CommandError::Fork(error)) => {
                return Err(error).context("cannot wait for the command");
            }
            Err(error) => return Err(error.into()),
            Ok(Some(ended)) => return Ok(Some(ended)),
            Ok(None) if Instant::now() >= until => {
                say(&format!(
                    "process {pid}, the command, still runs {} s after SIGTERM; `kill -9 {pid}` ends it",
                    TERMINATION_LIMIT.as_secs(),
                    pid = child.pid(),
                ));
                return Ok(None);
            }
            Ok(None) => std::thread::sleep(TERMINATION_CHECK),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(status: u8) -> Option<ChildExit> {
        Some(ChildExit { status, ..ChildExit::default() })
    }

    #[test]
    fn exit_status_is_the_commands_own_unless_tare_terminated_it() {
        let ended_itself =
            |exited, signal| Ending { exited, signal, has_command: true, is_terminated: false };
        let terminated =
            |exited, signal| Ending { is_terminated: true, ..ended_itself(exited, signal) };
        let alone = |signal| Ending { has_command: false, ..ended_itself(None, signal) };
        for (ending, status) in [
            (ended_itself(exited(0), None), 0),
            (ended_itself(exited(7), None), 7),
            (ended_itself(exited(143), None), 143),
            (ended_itself(exited(0), Some(2)), 0),
            (ended_itself(exited(130), Some(2)), 130),
            (terminated(exited(143), None), 0),
            (terminated(exited(5), None), 5),
            (terminated(exited(143), Some(2)), 143),
            (terminated(None, None), 0),
            (terminated(None, Some(15)), 0),
            (alone(None), 0),
            (alone(Some(2)), 130),
            (alone(Some(15)), 143),
        ] {
            assert_eq!(ending.exit().status(), status, "{ending:?}");
        }
    }

    #[test]
    fn wait_reports_ready_descriptors_by_index() {
        let (quiet, _quiet_writer) = rustix::pipe::pipe().unwrap();
        let (full, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        let mut supervisor = Supervisor::new(None, None);
        supervisor.let_go().unwrap();
        let wake = supervisor.wait(&[quiet.as_fd(), full.as_fd()], None).unwrap();
        assert!(!wake.is_ready(0) && wake.is_ready(1));
        assert_eq!(wake.end, None);
    }

    #[test]
    fn deadline_returns_and_timeout_ends() {
        let mut supervisor =
            Supervisor::new(None, None).with_timeout(Some(Duration::from_millis(30)));
        supervisor.let_go().unwrap();
        assert_eq!(supervisor.wait(&[], Some(Instant::now())).unwrap().end, None);
        let wake = supervisor.wait(&[], None).unwrap();
        assert_eq!(wake.end, Some(EndCause::Timeout));
        assert_eq!(supervisor.stop().unwrap().exit(), Exit::Success);
    }

    #[test]
    fn exit_of_all_target_threads_ends() {
        let host = Host::default();
        // No thread has this id: the kernel's limit is 2^22.
        let targets = Targets::threads(&[i32::MAX]);
        let mut supervisor = Supervisor::new(None, None).with_targets(targets, &host);
        supervisor.let_go().unwrap();
        let wake = supervisor.wait(&[], None).unwrap();
        assert_eq!(wake.end, Some(EndCause::TargetExit));
    }

    #[test]
    fn stop_order_ends() {
        let mut supervisor = Supervisor::new(None, None);
        assert_eq!(supervisor.end_cause(false, &[Order::Ping]), None);
        assert_eq!(supervisor.end_cause(false, &[Order::Stop]), Some(EndCause::StopOrder));
    }
}
