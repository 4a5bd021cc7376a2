//! Times at the beginning of lines.

use std::time::SystemTime;

use tare_kernel::calendar_time::CalendarTime;
use tare_kernel::timestamp::monotonic_ns;

/// The time of day that a line begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineTime {
    /// None.
    #[default]
    Nothing,
    /// In local time, with seconds (`strace -t`).
    Second,
    /// In local time, with microseconds (`-tt`).
    Microsecond,
    /// Seconds since 1970, with microseconds (`-ttt`).
    SinceEpoch,
}

/// Which times a line begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStamps {
    /// The time of day.
    pub time: LineTime,
    /// Whether the time since the line before is printed.
    pub is_relative: bool,
}

/// Formats the times of lines in their order.
#[derive(Debug)]
pub(super) struct LineClock {
    stamps: LineStamps,
    /// Time of day when `CLOCK_MONOTONIC` was 0, in nanoseconds since 1970.
    zero_ns: u64,
    /// Time of the line before.
    last_ns: Option<u64>,
}

impl LineClock {
    pub(super) fn new(stamps: LineStamps) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let zero_ns = now_ns.saturating_sub(monotonic_ns());
        Self { stamps, zero_ns, last_ns: None }
    }

    /// Returns the length of each stamp.
    pub(super) fn width(&self) -> usize {
        let time = match self.stamps.time {
            LineTime::Nothing => 0,
            LineTime::Second => 9,
            LineTime::Microsecond => 16,
            LineTime::SinceEpoch => 18,
        };
        time + match (self.stamps.is_relative, self.stamps.time) {
            (false, _) => 0,
            (true, LineTime::Nothing) => 14,
            (true, _) => 17,
        }
    }

    /// Formats the stamp of a line about an event at this time, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub(super) fn stamp(&mut self, time_ns: u64) -> String {
        let ns = self.zero_ns.saturating_add(time_ns);
        let seconds = ns / 1_000_000_000;
        let micros = ns / 1000 % 1_000_000;
        let day = || {
            let time = i64::try_from(seconds).ok().and_then(CalendarTime::local);
            time.map_or_else(String::new, |time| {
                format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second)
            })
        };
        let mut stamp = match self.stamps.time {
            LineTime::Nothing => String::new(),
            LineTime::Second => format!("{} ", day()),
            LineTime::Microsecond => format!("{}.{micros:06} ", day()),
            LineTime::SinceEpoch => format!("{seconds}.{micros:06} "),
        };
        if self.stamps.is_relative {
            let since_ns = time_ns.saturating_sub(self.last_ns.unwrap_or(time_ns));
            let fraction = since_ns / 1000 % 1_000_000;
            let since = format!("{:6}.{fraction:06}", since_ns / 1_000_000_000);
            stamp.push_str(&match self.stamps.time {
                LineTime::Nothing => format!("{since} "),
                _ => format!("(+{since}) "),
            });
            self.last_ns = Some(time_ns);
        }
        stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_have_strace_s_forms_and_their_width() {
        let clock = |time, is_relative| LineClock {
            stamps: LineStamps { time, is_relative },
            zero_ns: 1_700_000_000_000_000_000,
            last_ns: None,
        };
        assert_eq!(clock(LineTime::Nothing, false).stamp(5), "");
        assert_eq!(clock(LineTime::SinceEpoch, false).stamp(7_000), "1700000000.000007 ");
        let mut relative = clock(LineTime::Nothing, true);
        assert_eq!(relative.stamp(5_000_000), "     0.000000 ");
        assert_eq!(relative.stamp(1_005_003_999), "     1.000003 ");
        assert_eq!(relative.stamp(4), "     0.000000 ", "a call that began earlier");
        for time in [LineTime::Second, LineTime::Microsecond, LineTime::SinceEpoch] {
            let mut clock = clock(time, true);
            assert_eq!(clock.stamp(0).len(), clock.width());
        }
    }
}
