//! How fast a file grows. Writing past the page cache pays for fast files, and needs a thread.

use std::time::{Duration, Instant};

/// Shortest length of a measuring window, which ends at the next [`Pace::add`].
const WINDOW: Duration = Duration::from_secs(1);
/// Windows begun since the last fast one from which on a file counts as slow.
const SLOW: u32 = 10;

/// The growth rate of a file.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per window from which growth counts as fast.
    threshold: u64,
    began: Option<Instant>,
    /// Bytes since the window began.
    bytes: u64,
    /// Windows begun since the last fast one; `None` if there was no fast one.
    slow: Option<u32>,
}

impl Pace {
    pub(super) fn new(threshold: u64) -> Self {
        Self { threshold, began: None, bytes: 0, slow: None }
    }

    /// Notes that the file has grown by `bytes`.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) {
        if now.saturating_duration_since(*self.began.get_or_insert(now)) >= WINDOW {
            (self.began, self.bytes) = (Some(now), 0);
            self.slow = self.slow.map(|windows| windows.saturating_add(1));
        }
        self.bytes += bytes;
        if self.bytes >= self.threshold {
            self.slow = Some(0);
        }
    }

    pub(super) fn is_fast(&self) -> bool {
        self.slow.is_some_and(|windows| windows < SLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn becomes_fast_at_the_threshold_within_a_second() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut pace = Pace::new(1000);
        // 996 bytes per second.
        for quarter in 0..400 {
            pace.add(249, at(250 * quarter));
            assert!(!pace.is_fast(), "{quarter}");
        }
        pace.add(600, at(100_000));
        assert!(!pace.is_fast());
        pace.add(400, at(100_100));
        assert!(pace.is_fast());
    }

    #[test]
    fn becomes_slow_after_ten_slow_windows() {
        let begin = Instant::now();
        let mut pace = Pace::new(1000);
        pace.add(5000, begin);
        let slow = (1..100).find(|second| {
            pace.add(100, begin + Duration::from_secs(*second));
            !pace.is_fast()
        });
        assert_eq!(slow, Some(u64::from(SLOW)));
        pace.add(1000, begin + Duration::from_secs(100));
        assert!(pace.is_fast());
    }
}
