//! Moments as texts.

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Returns a moment as `2026-11-26 10:00:00.000000`, in UTC.
pub(crate) fn utc(time_us: i64) -> String {
    let within = time_us.rem_euclid(DAY_US);
    let seconds = within / 1_000_000;
    format!(
        "{} {:02}:{:02}:{:02}.{:06}",
        tare_store::utc_date(time_us),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        within % 1_000_000
    )
}

/// Returns a moment as `2026-11-26T10:00:00Z`.
pub(crate) fn rfc3339(time_us: i64) -> String {
    format!("{}Z", utc(time_us)[..19].replace(' ', "T"))
}
