//! What a signal that ends tare means for the command.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use tare_kernel::child::{ChildExit, CommandError, RunningChild};
use tare_kernel::signals::Signals;

use crate::exit::say;

/// How long a command may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// What signals said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalState {
    /// The user insists on the end: it was not the first signal that asks for it.
    pub(crate) insisted: bool,
    /// The user asks for what there is so far (SIGUSR2).
    pub(crate) asked: bool,
    /// How many signals there were.
    pub(crate) signals: u64,
}

/// Looks at the signals that arrived, and notes the last one that is to end tare. What a terminal
/// sends (Ctrl-C) reaches the command by itself; what was sent to tare alone is passed on, once.
pub(crate) fn pass_on(
    signals: &Signals,
    child: Option<&RunningChild>,
    interrupted: &mut Option<i32>,
) -> io::Result<SignalState> {
    let mut arrived = SignalState::default();
    while let Some(signal) = signals.next()? {
        arrived.signals += 1;
        if signal.number == Signal::CHILD.as_raw() {
            continue;
        }
        if signal.number == Signal::USR2.as_raw() {
            arrived.asked = true;
            continue;
        }
        let first = interrupted.replace(signal.number).is_none();
        arrived.insisted |= !first;
        let by_terminal = signal.from_kernel && signal.number == Signal::INT.as_raw();
        if let Some(child) = child.filter(|_| first && !by_terminal) {
            child.signal(signal.number);
        }
    }
    Ok(arrived)
}

/// Ends the command as the time is up or the user said stop. `None`: it goes on, which was said.
///
/// # Errors
/// It can't be waited for.
pub(crate) fn end_child(child: &mut RunningChild) -> anyhow::Result<Option<ChildExit>> {
    child.signal(Signal::TERM.as_raw());
    // A stopped process takes the signal when it goes on.
    child.signal(Signal::CONT.as_raw());
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Err(CommandError::Fork(error)) => {
                return Err(error).context("cannot wait for the command");
            }
            Err(error) => return Err(error.into()),
            Ok(Some(ended)) => return Ok(Some(ended)),
            Ok(None) if Instant::now() >= until => {
                say(&format!(
                    "the command (process {}) goes on: it did not end within {} s of SIGTERM",
                    child.pid(),
                    PATIENCE.as_secs()
                ));
                return Ok(None);
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits for a command, and says which signal was to end it, if any. If the user insists on an end,
/// it is killed.
///
/// # Errors
/// It could not be executed, or can't be waited for.
pub(crate) fn wait(
    mut child: RunningChild,
    signals: &Signals,
) -> anyhow::Result<(ChildExit, Option<i32>)> {
    let mut interrupted = None;
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if pass_on(signals, Some(&child), &mut interrupted)?.insisted {
            child.signal(Signal::KILL.as_raw());
        }
        if let Some(ended) = child.try_wait()? {
            return Ok((ended, interrupted));
        }
    }
}
