//! Pins loops to one CPU.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Why a thread can't be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// This process may not run on the requested CPU.
    #[error("this process may not run on CPU {0}")]
    Forbidden(u32),
    /// No CPU is allowed.
    #[error("no CPU is allowed")]
    None,
    /// The kernel doesn't tell which CPUs are allowed.
    #[error("cannot ask which CPUs are allowed: {0}")]
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

/// This thread, pinned. As before when it goes.
#[derive(Debug)]
pub struct PinnedThread {
    before: CpuSet,
    on: CpuSet,
    cpu: u32,
}

impl PinnedThread {
    /// Pins this thread to a CPU: the one asked for, or the last that it may run on.
    ///
    /// # Errors
    /// See [`PinError`].
    pub fn to(asked: Option<u32>) -> Result<Self, PinError> {
        let before = sched_getaffinity(None).map_err(PinError::Ask)?;
        let place = |cpu: u32| usize::try_from(cpu).ok().filter(|cpu| *cpu < CpuSet::MAX_CPU);
        let allowed = |cpu: &u32| place(*cpu).is_some_and(|cpu| before.is_set(cpu));
        let cpu = match asked {
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

    fn leave(&self) {
        // It was in force before: it can't be refused.
        let _ = sched_setaffinity(None, &self.before);
    }

    /// Runs `act` unpinned, so that what it starts inherits the original affinity.
    pub fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.leave();
        let result = act();
        let _ = sched_setaffinity(None, &self.on);
        result
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_until_the_guard_goes() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = PinnedThread::to(None).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        assert_eq!(pinned.aside(|| sched_getaffinity(None).unwrap()), before);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert_eq!(PinnedThread::to(Some(1_000_000)).unwrap_err(), PinError::Forbidden(1_000_000));
    }
}
