//! Shell commands that run beside a measurement.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
