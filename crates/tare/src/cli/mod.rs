//! The command line: `raw` is what was typed, `resolved` what is to be done.

pub mod raw;
pub mod resolved;

use std::io::Write;

use clap::error::ErrorKind;

use crate::exit::Exit;

/// Answers `--help` and `--version`, or says in tare's way what is wrong with the arguments.
pub(crate) fn refuse(error: &clap::Error) -> Exit {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let written = error.print().is_ok();
        return if error.use_stderr() || !written { Exit::Usage } else { Exit::Success };
    }
    let text = error.render().to_string();
    let _ = write!(std::io::stderr(), "tare: {}", text.strip_prefix("error: ").unwrap_or(&text));
    Exit::Usage
}
