//! The command line of tare: options, commands, messages and exit statuses.

pub mod cli;
pub mod command;
mod download;
pub mod exit;
mod terminal;

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context;

use crate::cli::raw::{Tare, TareCommand};
use crate::exit::Exit;

/// Runs tare with these arguments, the program's name first, and returns its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    let name = args.get(1).cloned();
    let outcome = match Tare::parse_typed(args) {
        Ok(Tare { command: TareCommand::Stat(raw) }) => command::stat::run(*raw.0),
        Ok(Tare { command: TareCommand::Bench(raw) }) => command::bench::run(&raw),
        Ok(Tare { command: TareCommand::Overhead(raw) }) => command::overhead::run(&raw),
        Ok(Tare { command: TareCommand::Record(raw) }) => command::record::run(*raw.0, false),
        Ok(Tare { command: TareCommand::Trace(raw) }) => command::trace::run(*raw.0),
        Ok(Tare { command: TareCommand::Lock(raw) }) => command::lock::run(*raw.0),
        Ok(Tare { command: TareCommand::Sched(raw) }) => command::sched::run(*raw.0),
        Ok(Tare { command: TareCommand::Top(raw) }) => command::top::run(&raw),
        #[cfg(feature = "agent")]
        Ok(Tare { command: TareCommand::Agent(raw) }) => command::agent::run(&raw),
        #[cfg(feature = "agent")]
        Ok(Tare { command: TareCommand::Store(raw) }) => command::store::run(*raw.0),
        #[cfg(feature = "agent")]
        Ok(Tare { command: TareCommand::Fleet(raw) }) => command::fleet::run(*raw.0),
        #[cfg(feature = "serve")]
        Ok(Tare { command: TareCommand::Serve(raw) }) => command::serve::run(*raw.0),
        Ok(Tare { command: TareCommand::Archive(raw) }) => command::archive::run(*raw.0),
        Ok(Tare { command: TareCommand::Script(raw) }) => command::script::run(&raw),
        Ok(Tare { command: TareCommand::List(raw) }) => command::list::run(&raw),
        Ok(Tare { command: TareCommand::Annotate(raw) }) => command::annotate::run(*raw.0),
        Ok(Tare { command: TareCommand::Report(raw) }) => command::report::run(*raw.0),
        Ok(Tare { command: TareCommand::Diff(raw) }) => command::diff::run(*raw.0),
        Ok(Tare { command: TareCommand::Flame(raw) }) => command::flame::run(*raw.0),
        Ok(Tare { command: TareCommand::Export(raw) }) => command::export::run(*raw.0),
        Ok(Tare { command: TareCommand::Doctor(raw) }) => command::doctor::run(&raw),
        Ok(Tare { command: TareCommand::Evlist(raw) }) => command::evlist::run(&raw),
        Ok(Tare { command: TareCommand::BuildidList(raw) }) => command::buildid_list::run(&raw),
        Ok(Tare { command: TareCommand::Inject(raw) }) => command::inject::run(&raw),
        Ok(Tare { command: TareCommand::Kallsyms(raw) }) => command::kallsyms::run(&raw),
        Ok(Tare { command: TareCommand::Completions(raw) }) => command::completions::run(&raw),
        Ok(Tare { command: TareCommand::Version(raw) }) => command::version::run(&raw),
        Err(error) => Ok(cli::refuse(error, name.as_deref())),
    };
    // tare flushes stdout itself: there is no runtime around this function.
    let flushed = std::io::stdout().flush().context("cannot write to stdout");
    outcome
        .and_then(|exit| flushed.map(|()| exit))
        .unwrap_or_else(|error| exit::report(&error))
        .status()
}

/// What a command ends with: its exit status, or an error that [`exit::report`] shows.
pub type Outcome = anyhow::Result<Exit>;
