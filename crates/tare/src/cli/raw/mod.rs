//! Arguments as typed. Only `cli::resolved` reads them.

mod doctor;
mod list;
mod stat;

pub use doctor::Doctor;
pub use list::List;
pub use stat::Stat;

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
    /// Show the events that this machine has, and why it lacks others.
    List(List),
    /// Show what this machine and user can do, and what would lift each limit.
    Doctor(Doctor),
}
