//! The workload `blocked`: the durations that it measures of its own waits, and how near a
//! recording has to come to them.

use std::process::Output;

/// Durations that the workload prints, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedTimes {
    /// Its waits, from the call to the return, by its own clock.
    pub(crate) waited: u64,
    /// The summed lifetime of its threads.
    pub(crate) lived: u64,
    /// CPU time between the beginning and the end of its waits.
    pub(crate) ran: u64,
}

impl BlockedTimes {
    /// Parses what the workload prints.
    pub(crate) fn parse(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
        let mut next = || numbers.next().unwrap_or_else(|| panic!("{output:?}"));
        Self { waited: next(), lived: next(), ran: next() }
    }

    /// By how many nanoseconds a recording may differ over `waits` waits: the larger of 3% and
    /// 50 us per wait.
    pub(crate) fn tolerance(&self, waits: u64) -> u64 {
        (self.waited * 3 / 100).max(50_000 * waits)
    }

    /// The shortest time off a CPU that agrees with the workload's clock. That clock also runs
    /// while the thread goes to sleep, while it returns, and while the host of a virtual machine
    /// takes the CPU away.
    pub(crate) fn least_off_cpu(&self, waits: u64, stolen: u64) -> u64 {
        self.waited.saturating_sub(self.ran + stolen + self.tolerance(waits))
    }
}

/// Nanoseconds that the host of this virtual machine has taken from its CPUs since it was started.
pub(crate) fn stolen_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = text.split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())
}
