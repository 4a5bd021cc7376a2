//! Exit statuses, and how an error reaches the user.

use std::io::Write;

/// How tare ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Success,
    /// A failure without a command (1).
    Failure,
    /// Wrong usage (2).
    Usage,
    /// A verdict that the user asked to fail on (3).
    Verdict,
    /// tare itself failed while it ran a command (125).
    OwnFailure,
    /// Interrupted while there was no command (130).
    Interrupted,
    /// The command's own status; 128 + signal where it was killed, 126 not executable, 127 not
    /// found.
    Command(u8),
}

impl Exit {
    /// The end of an interface that a signal ended.
    #[must_use]
    pub fn by_signal(number: i32) -> Self {
        match number {
            2 => Self::Interrupted,
            _ => Self::Command(u8::try_from(128 + number).unwrap_or(u8::MAX)),
        }
    }

    /// The number that the process ends with.
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

/// An error that says itself how tare is to end.
#[derive(Debug)]
pub struct Refusal {
    /// The status to end with.
    pub exit: Exit,
    /// One line that names the remedy.
    pub message: String,
}

impl Refusal {
    /// Wrong usage, with a line that names the remedy.
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

/// Shows an error on stderr, in one line that starts with `tare:`; writing to a closed pipe ends
/// quietly.
pub fn report(error: &anyhow::Error) -> Exit {
    let closed_pipe = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(closed_pipe)) {
        return Exit::Success;
    }
    say(&format!("{error:#}"));
    error.downcast_ref::<Refusal>().map_or(Exit::Failure, |refusal| refusal.exit)
}

/// A message for the user on stderr, which may be gone: one line, or the lines of a message that
/// shows a place in what was typed.
pub fn say(message: &str) {
    let lines: Vec<_> = message.split('\n').map(tare_format::printable).collect();
    // One write: no other program's line comes between.
    let _ = std::io::stderr().write_all(format!("tare: {}\n", lines.join("\n")).as_bytes());
}
