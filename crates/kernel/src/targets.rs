//! Running processes and threads whose end ends a measurement.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::host::Host;
use crate::procfs;

/// Why the end of a process can't be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// It isn't there.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// The kernel's answer.
    #[error("cannot watch process {pid}: {errno}")]
    Kernel {
        /// The process.
        pid: i32,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// Running processes and threads that are waited for. Nothing waits for where there are none.
#[derive(Debug, Default)]
pub struct Targets {
    processes: Vec<OwnedFd>,
    /// No file tells of the end of a thread that doesn't lead its process: these are looked at.
    threads: Vec<i32>,
}

impl Targets {
    /// Waits for the end of these processes.
    ///
    /// # Errors
    /// One of them isn't there.
    pub fn processes(pids: &[i32]) -> Result<Self, TargetError> {
        let handle = |&pid: &i32| {
            let known = Pid::from_raw(pid).ok_or(TargetError::NoProcess(pid))?;
            pidfd_open(known, PidfdFlags::empty())
                .map_err(|errno| TargetError::Kernel { pid, errno })
        };
        Ok(Self {
            processes: pids.iter().map(handle).collect::<Result<_, _>>()?,
            threads: Vec::new(),
        })
    }

    /// Waits for the end of these threads.
    pub fn threads(tids: &[i32]) -> Self {
        Self { processes: Vec::new(), threads: tids.to_vec() }
    }

    /// Files that become readable when a process ends.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes.iter().map(AsFd::as_fd)
    }

    /// Whether [`Targets::ended`] must be asked to look now and then.
    pub fn must_be_looked_at(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether there were targets and all of them have ended. `look`: also at threads.
    pub fn ended(&mut self, host: &Host, look: bool) -> bool {
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
