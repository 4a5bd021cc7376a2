//! Where the loops run: on one CPU.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::exit::Refusal;

/// This thread, pinned. As before when it goes.
#[derive(Debug)]
pub(super) struct Pinned {
    before: CpuSet,
    on: CpuSet,
    /// The CPU.
    pub(super) cpu: u32,
}

impl Pinned {
    /// Pins this thread to a CPU: the one asked for, or the last that it may run on.
    pub(super) fn to(asked: Option<u32>) -> anyhow::Result<Self> {
        let before = sched_getaffinity(None).context("cannot ask which CPUs are allowed")?;
        let allowed = |cpu: u32| {
            usize::try_from(cpu).is_ok_and(|cpu| cpu < CpuSet::MAX_CPU && before.is_set(cpu))
        };
        let last =
            || (0..u32::try_from(CpuSet::MAX_CPU).unwrap_or(0)).rev().find(|cpu| allowed(*cpu));
        let cpu = match asked {
            Some(cpu) if !allowed(cpu) => {
                return Err(
                    Refusal::usage(format!("-C {cpu}: this process may not run there")).into()
                );
            }
            Some(cpu) => cpu,
            None => last().context("no CPU is allowed")?,
        };
        let mut on = CpuSet::new();
        on.set(usize::try_from(cpu)?);
        sched_setaffinity(None, &on).with_context(|| format!("cannot run on CPU {cpu}"))?;
        Ok(Self { before, on, cpu })
    }

    fn leave(&self) {
        // It was in force before: it can't be refused.
        let _ = sched_setaffinity(None, &self.before);
    }

    /// Does something as if nothing were pinned: what it starts inherits what was before.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.leave();
        let result = act();
        let _ = sched_setaffinity(None, &self.on);
        result
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.leave();
    }
}
