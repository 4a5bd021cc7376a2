//! Times as options take them: ago, or dates.

use crate::config::Interval;

/// Reads a time such as `1h` before `now_us`, or a date such as `2026-11-26T10:00`, as microseconds
/// since 1970 (UTC).
#[must_use]
pub fn parse_time(text: &str, now_us: i64) -> Option<i64> {
    let ago = Interval::parse(text).ok();
    let ago_us = ago.and_then(|ago| i64::try_from(ago.0.as_micros()).ok());
    ago_us.map(|ago_us| now_us - ago_us).or_else(|| date(text))
}

/// Reads `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM` or `YYYY-MM-DDTHH:MM:SS`, in UTC.
fn date(text: &str) -> Option<i64> {
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let numbers = day.split('-').map(|number| number.parse().ok());
    let [year, month, day] = numbers.collect::<Option<Vec<i64>>>()?.try_into().ok()?;
    let is_date =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let mut seconds = 0;
    let limits = [24, 60, 60].into_iter().zip([3600, 60, 1]);
    for (part, (limit, unit)) in time.split(':').filter(|part| !part.is_empty()).zip(limits) {
        seconds += part.parse::<i64>().ok().filter(|number| (0..limit).contains(number))? * unit;
    }
    is_date.then(|| (days(year, month, day) * 86_400 + seconds) * 1_000_000)
}

/// Returns the number of days from 1970 to a date. Years begin in March, so that leap days come
/// last; a month of them has 30.6 days on average.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    365 * year + year / 4 - year / 100 + year / 400 + (306 * month + 5) / 10 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_utc() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2000-02-29T01:02:03"), Some(951_786_123_000_000));
        assert_eq!(date("2026-11-26 10:00"), Some(1_795_687_200_000_000));
        for wrong in
            ["", "2026", "2026-13-01", "2026-01-32", "2026-01-01T24:00", "2026-1-1-1", "x-1-1"]
        {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_ago_or_dates() {
        let now_us = 86_400_000_000;
        assert_eq!(parse_time("1h", now_us), Some(23 * 3_600_000_000));
        assert_eq!(parse_time("1970-01-02", now_us), Some(86_400_000_000));
        assert_eq!(parse_time("soon", now_us), None);
    }
}
