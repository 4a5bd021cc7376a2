//! The command line: `raw` is what was typed, `resolved` what is to be done.

pub mod raw;
pub mod resolved;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;

/// Answers `--help` and `--version`, or says in tare's way what is wrong with the arguments.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let text = error.render().to_string();
    let _ = write!(std::io::stderr(), "tare: {}", text.strip_prefix("error: ").unwrap_or(&text));
    ExitCode::from(2)
}
