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
    say(&message(error));
    error.downcast_ref::<Refusal>().map_or(Exit::Failure, |refusal| refusal.exit)
}

/// Joins an error and its causes. A cause whose text the message contains already is left out, as
/// some errors print their cause themselves.
#[must_use]
pub fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |message, cause| {
        let cause = without_error_numbers(&cause);
        match message.as_str() {
            "" => cause,
            known if known.contains(&cause) => message,
            _ => format!("{message}: {cause}"),
        }
    })
}

/// Removes the numbers that follow the texts of I/O errors: ` (os error 2)`.
#[must_use]
pub fn without_error_numbers(text: &str) -> String {
    const START: &str = " (os error ";
    let mut parts = text.split(START);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.split(')').next().unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        match part.split_once(')') {
            Some((_, rest)) if is_number => kept.push_str(rest),
            _ => kept.extend([START, part]),
        }
    }
    kept
}

/// Prints a message on stderr, without the numbers of I/O errors. Errors are ignored, because
/// stderr may be closed.
pub fn say(message: &str) {
    let message = without_error_numbers(message);
    let lines: Vec<_> = message.split('\n').map(tare_format::printable).collect();
    // A single write, so that lines of other programs don't mix with it.
    let _ = std::io::stderr().write_all(format!("tare: {}\n", lines.join("\n")).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_of_io_errors_are_removed() {
        for (text, wanted) in [
            ("-o x: No such file or directory (os error 2)", "-o x: No such file or directory"),
            ("a (os error 13): b (os error 2); c", "a: b; c"),
            ("a file (os error x) and (os error", "a file (os error x) and (os error"),
            ("a ( os error 2)", "a ( os error 2)"),
        ] {
            assert_eq!(without_error_numbers(text), wanted);
        }
    }

    #[test]
    fn causes_that_the_message_contains_are_not_repeated() {
        let cause = || std::io::Error::from_raw_os_error(2);
        let outer = anyhow::Error::new(cause()).context(format!("/x: {} (make it)", cause()));
        assert_eq!(message(&outer), "/x: No such file or directory (make it)");
        let outer = anyhow::Error::new(cause()).context("/x");
        assert_eq!(message(&outer), "/x: No such file or directory");
    }
}
