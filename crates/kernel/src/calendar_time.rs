//! Times as calendar dates.

use std::mem::MaybeUninit;

/// A date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarTime {
    /// The full year, such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// 0 to 23.
    pub hour: i32,
    /// 0 to 59.
    pub minute: i32,
    /// 0 to 60.
    pub second: i32,
}

/// `localtime_r` or `gmtime_r`.
type Convert = unsafe extern "C" fn(*const libc::time_t, *mut libc::tm) -> *mut libc::tm;

impl CalendarTime {
    /// Converts seconds since the beginning of 1970 (UTC) to local time; `None` if the year doesn't
    /// fit.
    #[must_use]
    pub fn local(seconds: i64) -> Option<Self> {
        Self::by(libc::localtime_r, seconds)
    }

    /// Converts like [`Self::local`], but to UTC.
    #[must_use]
    pub fn utc(seconds: i64) -> Option<Self> {
        Self::by(libc::gmtime_r, seconds)
    }

    fn by(convert: Convert, seconds: i64) -> Option<Self> {
        let mut fields = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: both pointers are to locals of the types that the function takes, and zeros are a
        // valid value of `fields`; both functions write no more than that.
        #[allow(unsafe_code)]
        let fields = unsafe {
            let done = convert(&raw const seconds, fields.as_mut_ptr());
            (!done.is_null()).then(|| fields.assume_init())
        }?;
        let year = fields.tm_year + 1900;
        let month = fields.tm_mon + 1;
        Some(Self {
            year,
            month,
            day: fields.tm_mday,
            hour: fields.tm_hour,
            minute: fields.tm_min,
            second: fields.tm_sec,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_later_the_clock_shows_the_same() {
        // In mid-January no clock changes for daylight saving.
        let [first, second] = [1_768_478_400, 1_768_478_400 + 86_400]
            .map(|seconds| CalendarTime::local(seconds).unwrap());
        assert_eq!((first.year, first.month), (2026, 1));
        assert_eq!(CalendarTime { day: first.day + 1, ..first }, second);
        assert_eq!(CalendarTime::local(i64::MAX), None);
    }

    #[test]
    fn in_greenwich_1970_began_at_0() {
        let first = CalendarTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0 };
        assert_eq!(CalendarTime::utc(0), Some(first));
        assert_eq!(CalendarTime::utc(i64::MAX), None);
    }
}
