//! How fast a file grows: past the page cache pays for many bytes a second, and takes a thread.

use std::time::{Duration, Instant};

/// So long is looked at.
const WINDOW: Duration = Duration::from_secs(1);
/// After so many of these without many bytes a file grows slowly again.
const SLOW: u32 = 10;

/// How fast a file grows.
#[derive(Debug)]
pub(super) struct Pace {
    /// So many bytes within a window are many.
    many: u64,
    began: Option<Instant>,
    /// Bytes since then.
    bytes: u64,
    /// Windows that began since many bytes came; `None` before that.
    slow: Option<u32>,
}

impl Pace {
    pub(super) fn new(many: u64) -> Self {
        Self { many, began: None, bytes: 0, slow: None }
    }

    /// By now there are so many bytes more.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) {
        if now.saturating_duration_since(*self.began.get_or_insert(now)) >= WINDOW {
            (self.began, self.bytes) = (Some(now), 0);
            self.slow = self.slow.map(|windows| windows.saturating_add(1));
        }
        self.bytes += bytes;
        if self.bytes >= self.many {
            self.slow = Some(0);
        }
    }

    /// Whether many bytes came of late.
    pub(super) fn is_fast(&self) -> bool {
        self.slow.is_some_and(|windows| windows < SLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_are_so_many_within_a_second() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut pace = Pace::new(1000);
        // 996 bytes a second.
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
    fn slow_again_is_who_was_so_for_long() {
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
