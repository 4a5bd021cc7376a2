//! The command line of tare: the only part that prints, exits or reads the environment.

pub mod cli;
pub mod command;
mod download;
pub mod exit;
mod terminal;

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context;

use crate::cli::raw::{Command, Tare};
use crate::exit::Exit;

/// Runs tare with these arguments, the program's name first, and returns its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    let name = args.get(1).cloned();
    let outcome = match Tare::parse_typed(args) {
        Ok(Tare { command: Command::Stat(raw) }) => command::stat::run(*raw.0),
        Ok(Tare { command: Command::Overhead(raw) }) => command::overhead::run(&raw),
        Ok(Tare { command: Command::Record(raw) }) => command::record::run(*raw.0, false),
        Ok(Tare { command: Command::Trace(raw) }) => command::trace::run(*raw.0),
        Ok(Tare { command: Command::Lock(raw) }) => command::lock::run(*raw.0),
        Ok(Tare { command: Command::Sched(raw) }) => command::sched::run(*raw.0),
        Ok(Tare { command: Command::Top(raw) }) => command::top::run(&raw),
        Ok(Tare { command: Command::Archive(raw) }) => command::archive::run(*raw.0),
        Ok(Tare { command: Command::Script(raw) }) => command::script::run(&raw),
        Ok(Tare { command: Command::List(raw) }) => command::list::run(&raw),
        Ok(Tare { command: Command::Annotate(raw) }) => command::annotate::run(*raw.0),
        Ok(Tare { command: Command::Report(raw) }) => command::report::run(*raw.0),
        Ok(Tare { command: Command::Diff(raw) }) => command::diff::run(*raw.0),
        Ok(Tare { command: Command::Flame(raw) }) => command::flame::run(*raw.0),
        Ok(Tare { command: Command::Export(raw) }) => command::export::run(*raw.0),
        Ok(Tare { command: Command::Doctor(raw) }) => command::doctor::run(&raw),
        Ok(Tare { command: Command::Evlist(raw) }) => command::evlist::run(&raw),
        Ok(Tare { command: Command::BuildidList(raw) }) => command::buildid_list::run(&raw),
        Ok(Tare { command: Command::Kallsyms(raw) }) => command::kallsyms::run(&raw),
        Ok(Tare { command: Command::Version(raw) }) => command::version::run(&raw),
        Err(error) => Ok(cli::refuse(error, name.as_deref())),
    };
    // Nobody else writes out what stdout still holds: there is no runtime around this function.
    let flushed = std::io::stdout().flush().context("cannot write to stdout");
    outcome
        .and_then(|exit| flushed.map(|()| exit))
        .unwrap_or_else(|error| exit::report(&error))
        .status()
}

/// What a command ends with: its exit status, or an error that [`exit::report`] shows.
pub type Outcome = anyhow::Result<Exit>;
