//! A clock that moves where a run moves it.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use tare_record::clock::Clock;
use tare_record::describe::RecordingClock;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct VirtualClock {
    start: Instant,
    passed: Mutex<Duration>,
}

impl VirtualClock {
    /// Nothing has passed.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), passed: Mutex::default() }
    }

    /// Has time pass.
    pub fn advance(&self, by: Duration) {
        *self.passed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += by;
    }

    fn passed(&self) -> Duration {
        *self.passed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.start + self.passed()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.passed()
    }

    /// The recorder uses a hundredth of a CPU.
    fn cpu_ns(&self) -> u64 {
        1_000_000 + u64::try_from(self.passed().as_nanos() / 100).unwrap_or(u64::MAX)
    }

    fn of_events(&self, _clockid: i32) -> Option<RecordingClock> {
        None
    }
}
