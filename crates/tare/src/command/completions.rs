//! `tare completions`: a script that completes tare's command line in a shell.

use std::io::Write;

use clap::CommandFactory;
use tare_complete::{Shell, script};

use crate::Outcome;
use crate::cli::raw::{CompletionsArgs, Tare};
use crate::exit::Exit;

pub(crate) fn run(raw: &CompletionsArgs) -> Outcome {
    std::io::stdout().lock().write_all(script_for(raw.shell)?.as_bytes())?;
    Ok(Exit::Success)
}

/// Returns the script of a shell.
///
/// # Errors
/// Fails if clap's script isn't UTF-8.
pub fn script_for(shell: Shell) -> anyhow::Result<String> {
    let mut command = Tare::command();
    // `build` describes the arguments of subcommands, which are deferred.
    command.build();
    Ok(script(shell, &mut command)?)
}
