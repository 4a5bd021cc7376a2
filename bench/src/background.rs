//! Programs and shell commands that run beside a measurement.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

/// A shell command that is killed on drop.
#[derive(Debug)]
pub(crate) struct BackgroundLoad(Child);

impl BackgroundLoad {
    pub(crate) fn start(line: &str) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command.spawn()?;
        std::thread::sleep(Duration::from_millis(50));
        Ok(Self(child))
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.wait();
    }
}

/// Kills a child and the process group that it leads.
pub(crate) fn kill_group(child: &Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// A program that is killed on drop.
#[derive(Debug)]
pub(crate) struct RunningProgram(Child);

impl RunningProgram {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("{program} can't be started"))?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks the program to end, and waits for it.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
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
