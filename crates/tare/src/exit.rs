//! Exit statuses, and messages to the user.

use std::io::Write;

/// How tare exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success (0).
    Success,
    /// Another failure (1).
    Failure,
    /// Wrong usage (2).
    Usage,
    /// A verdict that an option makes a failure: `--fail-if`, `--strict` (3).
    Verdict,
    /// tare itself failed in a measurement (125).
    OwnFailure,
    /// SIGINT, in a run without a command (130).
    Interrupted,
    /// The command's own status: 128 + signal if it was killed, 126 if it isn't executable, 127 if
    /// it wasn't found.
    Command(u8),
}

impl Exit {
    /// The status of a run without a command that a signal ended: 128 + signal.
    #[must_use]
    pub fn from_signal(number: i32) -> Self {
        match number {
            2 => Self::Interrupted,
            _ => Self::Command(u8::try_from(128 + number).unwrap_or(u8::MAX)),
        }
    }

    /// The exit status as a number.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Verdict => 3,
            Self::OwnFailure => 125,
            Self::Interrupted => 130,
            Self::Command(status) => status,
        }
    }
}

/// An error with the exit status that it causes.
#[derive(Debug)]
pub struct Refusal {
    /// The exit status.
    pub exit: Exit,
    /// What happened, then the command that fixes it.
    pub message: String,
}

impl Refusal {
    /// Wrong usage.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// Prints an error on stderr, after `tare: `, and returns the exit status. A closed pipe is not
/// reported: its reader has what it needs.
pub fn report(error: &anyhow::Error) -> Exit {
    let closed_pipe = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(closed_pipe)) {
        return Exit::Success;
    }
    say(&format!("{error:#}"));
    error.downcast_ref::<Refusal>().map_or(Exit::Failure, |refusal| refusal.exit)
}

/// Prints a message on stderr. Errors are ignored, because stderr may be closed.
pub fn say(message: &str) {
    let lines: Vec<_> = message.split('\n').map(tare_format::printable).collect();
    // A single write, so that lines of other programs don't mix with it.
    let _ = std::io::stderr().write_all(format!("tare: {}\n", lines.join("\n")).as_bytes());
}
