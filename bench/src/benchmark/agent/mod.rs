//! `tare agent`: what it costs beside loads, and what its store has after it was killed.

pub(crate) mod cost;
pub(crate) mod kill;
mod segments;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A program that is killed on drop.
struct RunningProgram(Child);

impl RunningProgram {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("{program} can't be started"))?))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks the program to end, and waits for it.
    fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.context("a process has an id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command line of an agent.
fn agent(tare: &Path, store: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(tare);
    command.args(["agent", "--config", "/dev/null", "--window", "10s", "--store"]).arg(store);
    command.args(options);
    command
}
