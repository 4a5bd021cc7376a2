//! `--time`: ranges of time in the syntax of `perf report`.

use std::time::Duration;

use tare_format::file::Description;

use crate::error::Error;

/// Ranges of time, as the user typed them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TimeRanges {
    /// The whole recording.
    #[default]
    All,
    /// In nanoseconds of the recording's clock, both ends included.
    Nanoseconds(Vec<(u64, u64)>),
    /// In nanoseconds since the first sample, both ends included.
    SinceFirst(Vec<(u64, u64)>),
    /// In percent of the time from the first sample to the last.
    Percent(Vec<(f64, f64)>),
}

impl TimeRanges {
    /// The accepted forms, for messages.
    pub const FORMS: &str = "a range in seconds looks like 12.5,13 (several: '12,13 15,'), a part like 10%-20%, 10%/2 or 50%";

    /// Parses ranges of seconds, `12.5,13`, separated by spaces; or parts, `10%-20%` or the
    /// equivalent `10%/2`, separated by commas; or `50%`, the first half. A missing start or stop
    /// of a range of seconds is unbounded. As in perf, ranges of seconds must be in order and not
    /// overlap. Returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('%') {
            let parts: Option<Vec<_>> = match text.contains(['/', '-']) {
                true => text.split(',').map(parse_part).collect(),
                false => parse_percent(text).map(|end| vec![(0.0, end)]),
            };
            return parts.map(Self::Percent);
        }
        // A space may follow the comma of a range.
        let text = text.replace(", ", ",");
        let ranges = text.split_whitespace().map(parse_seconds).collect::<Option<Vec<_>>>()?;
        let is_ordered = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (is_ordered && !ranges.is_empty()).then_some(Self::Nanoseconds(ranges))
    }

    /// Makes ranges of seconds count from the first sample (`perf script --reltime`).
    #[must_use]
    pub fn since_first(self) -> Self {
        match self {
            Self::Nanoseconds(ranges) => Self::SinceFirst(ranges),
            other => other,
        }
    }

    /// Converts the ranges to times of a recording.
    ///
    /// # Errors
    /// Fails with [`Error::NoSampleTimes`] if the ranges need the times of the first and last
    /// sample, and the recording lacks them.
    pub fn windows(&self, description: &Description) -> Result<TimeWindows, Error> {
        let times = || description.features().sample_time_ns().map_err(|_| Error::NoSampleTimes);
        Ok(TimeWindows(match self {
            Self::All => vec![(0, u64::MAX)],
            Self::Nanoseconds(ranges) => ranges.clone(),
            Self::SinceFirst(ranges) => {
                let (first, _) = times()?;
                let at = |time_ns: u64| time_ns.saturating_add(first);
                ranges.iter().map(|(from, to)| (at(*from), at(*to))).collect()
            }
            Self::Percent(parts) => {
                let (first, last) = times()?;
                parts.iter().map(|(from, to)| to_window(*from, *to, first, last)).collect()
            }
        }))
    }
}

/// Ranges in nanoseconds of the recording's clock, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWindows(Vec<(u64, u64)>);

impl TimeWindows {
    /// Whether a sample is in a range. One without a time always is.
    #[must_use]
    pub fn takes(&self, time_ns: Option<u64>) -> bool {
        time_ns.is_none_or(|at| self.0.iter().any(|(from, to)| (*from..=*to).contains(&at)))
    }

    /// Whether a time comes after all ranges; false without a time.
    #[must_use]
    pub fn is_past(&self, time_ns: Option<u64>) -> bool {
        time_ns.is_some_and(|at| self.0.iter().all(|(_, to)| at > *to))
    }

    /// Returns the ranges as (first, last).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }
}

/// Returns the window between two percentages of the time from the first sample to the last. As in
/// perf, its last nanosecond belongs to the next window, except at the end of the recording.
fn to_window(from: f64, to: f64, first: u64, last: u64) -> (u64, u64) {
    let length = last.saturating_sub(first) as f64;
    let at = |percent: f64| {
        let part = Duration::from_secs_f64(length * (percent / 100.0) / 1e9);
        first.saturating_add(part.as_nanos().try_into().unwrap_or(u64::MAX))
    };
    let from = at(from);
    let to = at(to);
    (from, if to > from && to != last { to - 1 } else { to })
}

/// Parses `10%-20%` or `10%/2`.
fn parse_part(text: &str) -> Option<(f64, f64)> {
    if let Some((from, to)) = text.split_once('-') {
        return Some((parse_percent(from)?, parse_percent(to)?)).filter(|(from, to)| from <= to);
    }
    let (part, nth) = text.split_once('/')?;
    let part = parse_percent(part)?;
    let nth = nth.parse::<u32>().ok().filter(|nth| *nth > 0)?;
    let end = part * f64::from(nth);
    (part > 0.0 && end <= 100.0).then_some((end - part, end))
}

/// Parses `12.5%` to 12.5.
fn parse_percent(text: &str) -> Option<f64> {
    let percent = text.trim().strip_suffix('%')?.parse::<f64>().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent)
}

/// Parses `1.5,2` to nanoseconds, without rounding.
fn parse_seconds(range: &str) -> Option<(u64, u64)> {
    let (start, stop) = range.split_once(',').unwrap_or((range, ""));
    let ns =
        |text: &str, default| if text.is_empty() { Some(default) } else { parse_nanoseconds(text) };
    let (start, stop) = ns(start, 0).zip(ns(stop, u64::MAX))?;
    (start <= stop).then_some((start, stop))
}

/// Parses `12.5` to 12500000000.
fn parse_nanoseconds(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.').unwrap_or((text, ""));
    if rest.len() > 9 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let below = format!("{rest:0<9}").parse::<u64>().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> TimeRanges {
        TimeRanges::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn parses_ranges_and_parts() {
        let ranges = |ranges: &[(u64, u64)]| TimeRanges::Nanoseconds(ranges.to_vec());
        let parts = |parts: &[(f64, f64)]| TimeRanges::Percent(parts.to_vec());
        assert_eq!(parse("12.5,13"), ranges(&[(12_500_000_000, 13_000_000_000)]));
        assert_eq!(parse(",0.000000001"), ranges(&[(0, 1)]));
        assert_eq!(parse("11787.999418,"), ranges(&[(11_787_999_418_000, u64::MAX)]));
        assert_eq!(
            parse("1,2 3,"),
            ranges(&[(1_000_000_000, 2_000_000_000), (3_000_000_000, u64::MAX)])
        );
        assert_eq!(parse("10%-20.5%"), parts(&[(10.0, 20.5)]));
        assert_eq!(parse("10%/2,10%/1"), parts(&[(10.0, 20.0), (0.0, 10.0)]));
        assert_eq!(parse("0%-10%,30%-40%"), parts(&[(0.0, 10.0), (30.0, 40.0)]));
        assert_eq!(parse("50%"), parts(&[(0.0, 50.0)]));
        for wrong in [
            "",
            "x",
            "1,y",
            "2,1",
            "1.0000000001,",
            "-1,2",
            "1, 2,3",
            "3,4 1,2",
            "10%/0",
            "10%/11",
            "10%-x%",
            "10%-101%",
            "0%/1",
            "10%,20%",
            "10%/1,",
            "20%-10%",
        ] {
            assert_eq!(TimeRanges::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parts_do_not_overlap() {
        let first = 1000;
        let last = 2001;
        assert_eq!(to_window(0.0, 10.0, first, last), (1000, 1099));
        assert_eq!(to_window(10.0, 20.0, first, last), (1100, 1199));
        assert_eq!(to_window(90.0, 100.0, first, last), (1901, 2001));
        let windows = TimeWindows(vec![(5, 6), (1, 2)]);
        assert!(windows.takes(Some(1)) && !windows.takes(Some(3)) && windows.takes(None));
        assert!(!windows.is_past(Some(6)) && windows.is_past(Some(7)));
    }
}
