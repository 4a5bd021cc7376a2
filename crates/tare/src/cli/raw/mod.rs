//! Arguments as typed. Only `cli::resolved` reads them.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

mod attached;
mod doctor;
mod follow;
mod list;
mod overhead;
pub mod record;
mod report;
mod script;
mod stat;
mod versus;

pub use doctor::Doctor;
pub use follow::Follow;
pub use list::List;
pub use overhead::{Overhead, With};
pub use record::Record;
pub use report::{Report, Weight};
pub use script::Script;
pub use stat::Stat;
pub use versus::Versus;

/// A Linux profiler that weighs itself.
#[derive(Debug, clap::Parser)]
#[command(name = "tare", version, max_term_width = 120, arg_required_else_help = true)]
pub struct Tare {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What tare can do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Count events while a command runs, or in running threads, CPUs or cgroups.
    Stat(Box<Stat>),
    /// Measure what sampling costs on this machine, or what profilers cost a program.
    Overhead(Box<Overhead>),
    /// Record samples and tracepoints of a command, or of running processes, CPUs or cgroups, into
    /// a perf.data file.
    Record(Box<Record>),
    /// Print a recording, a line or more for each sample, in the form of perf script.
    Script(Box<Script>),
    /// Show what a recording holds, by command, file and function.
    Report(Box<Report>),
    /// Show the events that this machine has, and why it lacks others.
    List(List),
    /// Show what this machine and user can do, and what would lift each limit.
    Doctor(Doctor),
}

impl Tare {
    /// Parses arguments, and notes which `-e` each `--filter` follows: clap keeps the order of each
    /// option, not across options.
    ///
    /// # Errors
    /// What clap says about them.
    pub fn parse_typed(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = std::mem::ManuallyDrop::new(Self::command());
        let args = attached::with_equals(args.into_iter().collect(), &command);
        let matches = std::mem::ManuallyDrop::new(command.try_get_matches_from_mut(args)?);
        let mut tare = Self::from_arg_matches(&matches)?;
        let filter_positions = match &mut tare.command {
            Command::Stat(stat) => Some(&mut stat.filter_positions),
            Command::Record(record) => Some(&mut record.filter_positions),
            Command::Overhead(_)
            | Command::Script(_)
            | Command::List(_)
            | Command::Report(_)
            | Command::Doctor(_) => None,
        };
        if let (Some(filter_positions), Some((_, matches))) =
            (filter_positions, matches.subcommand())
        {
            let positions = |id: &str| {
                matches.indices_of(id).map_or_else(Vec::new, Iterator::collect::<Vec<usize>>)
            };
            let events = positions("events");
            *filter_positions = positions("filters")
                .iter()
                .map(|filter| events.iter().filter(|event| *event < filter).count())
                .collect();
        }
        Ok(tare)
    }
}
