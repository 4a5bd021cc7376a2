//! Measured processes and threads, whose exit ends the measurement.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::host::Host;
use crate::procfs;

/// Why a process's exit can't be awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// The number is 0, which no process has.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// Another error: `ESRCH` if there is no such process.
    #[error("cannot watch process {pid}: {errno}")]
    Kernel {
        /// The process.
        pid: i32,
        /// The kernel's error.
        errno: Errno,
    },
}

/// Processes and threads to wait for. An empty set never ends a measurement.
#[derive(Debug, Default)]
pub struct Targets {
    processes: Vec<OwnedFd>,
    /// Before Linux 6.9 no file reports the exit of a thread that doesn't lead its process, so they
    /// are polled.
    threads: Vec<i32>,
}

impl Targets {
    /// Watches these processes.
    ///
    /// # Errors
    /// Fails if one of them doesn't exist or can't be watched.
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

    /// Watches these threads.
    pub fn threads(tids: &[i32]) -> Self {
        Self { processes: Vec::new(), threads: tids.to_vec() }
    }

    /// Returns files that become readable when a process exits.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes.iter().map(AsFd::as_fd)
    }

    /// Whether [`Targets::have_exited`] must be called now and then.
    pub fn need_polling(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether there were targets and all of them have exited. `poll_threads`: check the threads
    /// too.
    pub fn have_exited(&mut self, host: &Host, poll_threads: bool) -> bool {
        let before = self.processes.len() + self.threads.len();
        self.processes.retain(|process| {
            let mut file = [PollFd::new(process, PollFlags::IN)];
            !matches!(poll(&mut file, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
        });
        if poll_threads {
            self.threads.retain(|&tid| procfs::exists(host, tid));
        }
        before > 0 && self.processes.is_empty() && self.threads.is_empty()
    }
}
