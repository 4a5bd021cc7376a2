//! `tare agent`: what it costs beside loads, and what its store has after it was killed.

pub(crate) mod cost;
pub(crate) mod kill;
mod segments;

use std::path::Path;
use std::process::Command;

/// The command line of an agent.
fn agent(tare: &Path, store: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(tare);
    command.args(["agent", "--config", "/dev/null", "--window", "10s", "--store"]).arg(store);
    command.args(options);
    command
}
