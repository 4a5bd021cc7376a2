//! What the scheduler does, and the slices of time that come of it.

/// A thread, as a tracepoint names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task<'a> {
    /// Its number; 0 is the idle task of each CPU.
    pub tid: i32,
    /// Its process, where that is known.
    pub pid: Option<i32>,
    /// Its name. Untrusted.
    pub comm: &'a [u8],
    /// Whether it is among those that are asked for.
    pub is_meant: bool,
}

/// In which state a task leaves its CPU: the bits of `prev_state` of `sched:sched_switch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    /// The bits that are states (`TASK_REPORT` of `include/linux/sched.h`); the one behind them says
    /// that the task was preempted in the kernel.
    const REPORT: u64 = 0xff;

    /// Whether it could have gone on.
    #[must_use]
    pub fn is_runnable(self) -> bool {
        self.0 & Self::REPORT == 0
    }

    /// Whether it ends: it is dead, or nobody has waited for it yet.
    #[must_use]
    pub fn is_end(self) -> bool {
        self.0 & 0x30 != 0
    }

    /// The letter that ps(1) and the kernel's traces have for it.
    #[must_use]
    pub fn letter(self) -> char {
        let bit = (self.0 & Self::REPORT).trailing_zeros() as usize;
        ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'].get(bit).copied().unwrap_or('R')
    }
}

/// What happened, at a time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedAction<'a> {
    /// A CPU goes from one task to another.
    Switch {
        /// Which CPU.
        cpu: u32,
        /// The task that leaves it.
        prev: Task<'a>,
        /// In which state.
        state: State,
        /// The task that gets it.
        next: Task<'a>,
    },
    /// A task can run from now on.
    Wakeup {
        /// On which CPU that was seen.
        cpu: u32,
        /// Who woke it.
        waker: Task<'a>,
        /// The task.
        task: Task<'a>,
    },
    /// A task is moved to another CPU.
    Migrate {
        /// On which CPU that was seen.
        cpu: u32,
        /// Who moved it.
        mover: Task<'a>,
        /// The task.
        task: Task<'a>,
        /// From this CPU.
        from: u32,
        /// To this one.
        to: u32,
    },
    /// A task begins, also where its number was another's before.
    Begin(Task<'a>),
}

/// What was known of a task when it left its CPU. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// When it left the CPU.
    pub time_ns: u64,
    /// Since when it had it; `None`: since before the first switch there that was seen.
    pub since_ns: Option<u64>,
    /// How long it ran.
    pub run_ns: u64,
    /// How long it had no CPU before that.
    pub wait_ns: u64,
    /// For how much of that it could have run: since it was woken, or all of it where it was
    /// runnable when it left its CPU.
    pub delay_ns: u64,
    /// Whether anything says since when it could have run.
    pub has_delay: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_the_kernel() {
        let letters =
            [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100].map(|bits| State(bits).letter());
        assert_eq!(letters.iter().collect::<String>(), "RSDTtXZPIR");
    }
}
