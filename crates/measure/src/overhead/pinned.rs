//! Pins the thread that runs loops to one CPU.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The reason why a thread can't be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// This process may not run on the requested CPU.
    #[error("this process may not run on CPU {0}")]
    Forbidden(u32),
    /// No CPU is allowed.
    #[error("no CPU is allowed")]
    None,
    /// The allowed CPUs can't be read.
    #[error("cannot read the allowed CPUs: {0}")]
    Ask(Errno),
    /// The kernel refuses.
    #[error("cannot run on CPU {cpu}: {errno}")]
    Refused {
        /// The CPU.
        cpu: u32,
        /// The kernel's error.
        errno: Errno,
    },
}

/// A guard that keeps the thread on one CPU until the guard is dropped.
#[derive(Debug)]
pub struct PinnedThread {
    before: CpuSet,
    on: CpuSet,
    cpu: u32,
}

impl PinnedThread {
    /// Pins this thread to the requested CPU, or to the last on which it may run.
    ///
    /// # Errors
    /// See [`PinError`].
    pub fn to(requested: Option<u32>) -> Result<Self, PinError> {
        let before = sched_getaffinity(None).map_err(PinError::Ask)?;
        let place = |cpu: u32| usize::try_from(cpu).ok().filter(|cpu| *cpu < CpuSet::MAX_CPU);
        let allowed = |cpu: &u32| place(*cpu).is_some_and(|cpu| before.is_set(cpu));
        let cpu = match requested {
            Some(cpu) => Some(cpu).filter(allowed).ok_or(PinError::Forbidden(cpu))?,
            None => {
                let all = 0..u32::try_from(CpuSet::MAX_CPU).unwrap_or(0);
                all.rev().find(allowed).ok_or(PinError::None)?
            }
        };
        let mut on = CpuSet::new();
        on.set(place(cpu).ok_or(PinError::Forbidden(cpu))?);
        sched_setaffinity(None, &on).map_err(|errno| PinError::Refused { cpu, errno })?;
        Ok(Self { before, on, cpu })
    }

    /// The CPU.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    fn restore(&self) {
        // This affinity was valid before, so the kernel accepts it.
        let _ = sched_setaffinity(None, &self.before);
    }

    /// Runs `act` unpinned, so that processes started by it inherit the original affinity.
    pub fn run_unpinned<T>(&self, act: impl FnOnce() -> T) -> T {
        self.restore();
        let result = act();
        let _ = sched_setaffinity(None, &self.on);
        result
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_until_the_guard_is_dropped() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = PinnedThread::to(None).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        assert_eq!(pinned.run_unpinned(|| sched_getaffinity(None).unwrap()), before);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert_eq!(PinnedThread::to(Some(1_000_000)).unwrap_err(), PinError::Forbidden(1_000_000));
    }
}
