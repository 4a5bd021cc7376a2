//! Start of a measurement.

use std::time::Duration;

use crate::cli::raw;
use crate::exit::Refusal;

/// When a measurement begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Without a delay.
    AtOnce,
    /// This long after the command's start.
    After(Duration),
    /// On request of `--control`.
    OnControl,
}

/// Resolves `-D`.
pub(super) fn begin(raw: &raw::ControlArgs) -> Result<Begin, Refusal> {
    match raw.delay.as_deref() {
        None | Some("0") => Ok(Begin::AtOnce),
        Some("-1") if raw.control.is_some() => Ok(Begin::OnControl),
        Some("-1") => {
            Err(Refusal::usage("-D -1 waits for --control to enable the events: give one"))
        }
        Some(text) => {
            let number = text.parse().map(|ms| Begin::After(Duration::from_millis(ms)));
            number.map_err(|_| {
                Refusal::usage(format!(
                    "-D {text}: give milliseconds, or -1; for ranges of time use --control"
                ))
            })
        }
    }
}
