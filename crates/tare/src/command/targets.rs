//! Running processes and threads whose end ends a measurement.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tare_kernel::host::Host;
use tare_kernel::procfs;

/// Running processes and threads that are waited for. Nothing waits for where there are none.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    processes: Vec<OwnedFd>,
    /// No file tells of the end of a thread that doesn't lead its process: these are looked at.
    threads: Vec<i32>,
}

impl Targets {
    /// Waits for the end of these processes.
    ///
    /// # Errors
    /// One of them isn't there.
    pub(crate) fn processes(pids: &[i32]) -> anyhow::Result<Self> {
        let handle = |&pid: &i32| -> anyhow::Result<OwnedFd> {
            let known = Pid::from_raw(pid).with_context(|| format!("there is no process {pid}"))?;
            pidfd_open(known, PidfdFlags::empty())
                .with_context(|| format!("cannot watch process {pid}"))
        };
        Ok(Self {
            processes: pids.iter().map(handle).collect::<Result<_, _>>()?,
            threads: Vec::new(),
        })
    }

    /// Waits for the end of these threads.
    pub(crate) fn threads(tids: &[i32]) -> Self {
        Self { processes: Vec::new(), threads: tids.to_vec() }
    }

    /// Files that become readable when a process ends.
    pub(crate) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes.iter().map(AsFd::as_fd)
    }

    /// Whether [`Targets::ended`] must be asked to look now and then.
    pub(crate) fn must_be_looked_at(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether there were targets and all of them have ended. `look`: also at threads.
    pub(crate) fn ended(&mut self, host: &Host, look: bool) -> bool {
        let before = self.processes.len() + self.threads.len();
        self.processes.retain(|process| {
            let mut file = [PollFd::new(process, PollFlags::IN)];
            !matches!(poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
        });
        if look {
            self.threads.retain(|&tid| procfs::exists(host, tid));
        }
        before > 0 && self.processes.is_empty() && self.threads.is_empty()
    }
}
