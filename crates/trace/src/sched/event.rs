//! Scheduler actions, and the time slices that they delimit.

/// A thread, as a tracepoint names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task<'a> {
    /// Thread id; 0 is the idle task of each CPU.
    pub tid: i32,
    /// Process id, if known.
    pub pid: Option<i32>,
    /// Thread name. Untrusted.
    pub comm: &'a [u8],
    /// Whether the user selected the task.
    pub is_selected: bool,
}

/// The state in which a task leaves its CPU: `prev_state` of `sched:sched_switch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    /// The state bits (`TASK_REPORT` and `TASK_REPORT_IDLE` in `include/linux/sched.h`); the next
    /// bit means that the task was preempted in the kernel.
    const REPORT: u64 = 0xff;

    /// Whether the task could have continued.
    #[must_use]
    pub fn is_runnable(self) -> bool {
        self.0 & Self::REPORT == 0
    }

    /// Whether the task ends: it is dead or a zombie.
    #[must_use]
    pub fn is_end(self) -> bool {
        self.0 & 0x30 != 0
    }

    /// The state's letter, as in ps(1) and the kernel's traces.
    #[must_use]
    pub fn letter(self) -> char {
        let bit = (self.0 & Self::REPORT).trailing_zeros() as usize;
        ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'].get(bit).copied().unwrap_or('R')
    }
}

/// A scheduler action; times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedAction<'a> {
    /// A CPU switches from one task to another.
    Switch {
        /// The CPU.
        cpu: u32,
        /// The task that leaves.
        prev: Task<'a>,
        /// Its state.
        state: State,
        /// The task that gets the CPU.
        next: Task<'a>,
    },
    /// A task becomes runnable.
    Wakeup {
        /// The CPU of the waker.
        cpu: u32,
        /// The waking task.
        waker: Task<'a>,
        /// The woken task.
        task: Task<'a>,
    },
    /// A task moves to another CPU.
    Migrate {
        /// The CPU of the mover.
        cpu: u32,
        /// The task that moves the other.
        mover: Task<'a>,
        /// The moved task.
        task: Task<'a>,
        /// From this CPU.
        from: u32,
        /// To this one.
        to: u32,
    },
    /// A task starts. Its id may have been another task's before.
    Begin(Task<'a>),
}

/// A task's time slice, known when it leaves its CPU. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Time of the switch-out, or the end of the counted time if that is earlier.
    pub time_ns: u64,
    /// Time of the switch-in, or the start of the counted time if that is later; `None` if the
    /// switch-in wasn't observed.
    pub since_ns: Option<u64>,
    /// Time on the CPU.
    pub run_ns: u64,
    /// Time off the CPU before that; 0 if it isn't known.
    pub wait_ns: u64,
    /// The part of `wait_ns` in which the task was runnable: from its wake-up, or all of it after a
    /// preemption.
    pub delay_ns: u64,
    /// Whether the start of the delay is known.
    pub has_delay: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_states_as_the_kernel_does() {
        let letters =
            [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100].map(|bits| State(bits).letter());
        assert_eq!(letters.iter().collect::<String>(), "RSDTtXZPIR");
    }
}
