//! The time of day where the user is.

use std::mem::MaybeUninit;

/// A time of day, as a calendar and a clock on the wall show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// All of it, such as 2026.
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

impl LocalTime {
    /// The local time so many seconds after the beginning of 1970 in Greenwich; `None` where the
    /// year has no number.
    #[must_use]
    pub fn at(seconds: i64) -> Option<Self> {
        let mut fields = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: both pointers are to locals of the types that the call takes, and zeros are a
        // valid value of `fields`.
        #[allow(unsafe_code)]
        let fields = unsafe {
            let done = libc::localtime_r(&raw const seconds, fields.as_mut_ptr());
            (!done.is_null()).then(|| fields.assume_init())
        }?;
        let (year, month) = (fields.tm_year + 1900, fields.tm_mon + 1);
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
        // In the middle of a January no clock is put forward or back.
        let [first, second] =
            [1_768_478_400, 1_768_478_400 + 86_400].map(|seconds| LocalTime::at(seconds).unwrap());
        assert_eq!((first.year, first.month), (2026, 1));
        assert_eq!(LocalTime { day: first.day + 1, ..first }, second);
        assert_eq!(LocalTime::at(i64::MAX), None);
    }
}
