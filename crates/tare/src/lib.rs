//! The command line of tare: the only part that prints, exits or reads the environment.

pub mod cli;
pub mod command;
pub mod exit;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::raw::{Command, Tare};
use crate::exit::Exit;

/// Runs tare with these arguments, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let tare = match Tare::parse_typed(args) {
        Ok(tare) => tare,
        Err(error) => return cli::refuse(&error),
    };
    let result = match tare.command {
        Command::Stat(raw) => command::stat::run(*raw),
        Command::List(raw) => command::list::run(&raw),
        Command::Doctor(raw) => command::doctor::run(&raw),
    };
    result.unwrap_or_else(|error| exit::report(&error)).into()
}

/// What a command ends with: its exit status, or an error that [`exit::report`] shows.
pub type Outcome = anyhow::Result<Exit>;
