//! A virtual clock that only the run advances.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use tare_record::clock::Clock;
use tare_record::describe::RecordingClock;

/// Elapsed time, the recorder's CPU time, and how they and the time of day relate.
#[derive(Clone, Copy, Debug)]
struct ElapsedTime {
    time: Duration,
    cpu: Duration,
    /// How far the time of day is ahead of the other clocks: it can be set, and it advances while
    /// the machine sleeps.
    day_ahead: Duration,
    /// The recorder's CPU use in thousandths of a CPU.
    per_mille: u32,
}

/// A clock that stands still until it is advanced.
#[derive(Debug)]
pub struct VirtualClock {
    start: Instant,
    passed: Mutex<ElapsedTime>,
}

impl VirtualClock {
    /// A clock at zero.
    #[must_use]
    pub fn new() -> Self {
        let zero = Duration::ZERO;
        let passed = ElapsedTime { time: zero, cpu: zero, day_ahead: zero, per_mille: 10 };
        Self { start: Instant::now(), passed: Mutex::new(passed) }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let mut passed = self.passed();
        passed.time += by;
        let cpu = by * passed.per_mille / 1000;
        passed.cpu += cpu;
    }

    /// Sets the recorder's CPU use in thousandths of a CPU (initially 10).
    pub fn use_cpu(&self, per_mille: u32) {
        self.passed().per_mille = per_mille;
    }

    /// Sets how far the time of day is ahead of the other clocks.
    pub fn set_day_ahead(&self, by: Duration) {
        self.passed().day_ahead = by;
    }

    fn passed(&self) -> MutexGuard<'_, ElapsedTime> {
        self.passed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.start + self.passed().time
    }

    fn time_of_day(&self) -> SystemTime {
        let passed = self.passed();
        SystemTime::UNIX_EPOCH + passed.time + passed.day_ahead
    }

    fn cpu_ns(&self) -> u64 {
        1_000_000 + u64::try_from(self.passed().cpu.as_nanos()).unwrap_or(u64::MAX)
    }

    fn recording_clock(&self, _clockid: i32) -> Option<RecordingClock> {
        None
    }
}
