//! Samples of a store.

use std::path::PathBuf;
use std::time::Duration;

use tare_agent::config::Interval;
use tare_agent::now_us;
use tare_store::{FilterError, LabelFilter, Query};

use crate::cli::raw;
use crate::exit::Refusal;

/// Sort keys and columns that samples of a store have.
const KEYS: [&str; 10] = [
    "comm",
    "dso",
    "sym",
    "symbol",
    "overhead",
    "overhead_children",
    "overhead_us",
    "overhead_sys",
    "sample",
    "period",
];

/// Samples of a store.
#[derive(Clone, Debug)]
pub(crate) struct StoredSamples {
    /// The store's folder.
    pub(crate) store: PathBuf,
    /// Which of them.
    pub(crate) query: Query,
}

impl StoredSamples {
    /// Resolves the typed options; `None` without `--store`.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub(crate) fn resolve(raw: &raw::StoreArgs) -> Result<Option<Self>, Refusal> {
        raw.store.is_some().then(|| Self::from_store(raw)).transpose()
    }

    /// Resolves the typed options of a command that needs a store.
    ///
    /// # Errors
    /// As [`StoredSamples::resolve`].
    pub(crate) fn from_store(raw: &raw::StoreArgs) -> Result<Self, Refusal> {
        let store = raw.store.clone().unwrap_or_default();
        let conditions = raw.conditions.iter().map(|text| text.parse::<LabelFilter>());
        let filters: Result<Vec<_>, FilterError> = conditions.collect();
        let query = Query {
            since_us: raw.since.as_deref().map(|text| moment("--since", text)).transpose()?,
            until_us: raw.until.as_deref().map(|text| moment("--until", text)).transpose()?,
            filters: filters.map_err(|error| Refusal::usage(format!("--where: {error}")))?,
        };
        Ok(Self { store, query })
    }

    /// Refuses sort keys and columns that samples of a store don't have.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that lists those that they have.
    pub(crate) fn check_keys(columns: &raw::ColumnArgs) -> Result<(), Refusal> {
        let typed = columns.sort.iter().chain(&columns.fields);
        let mut keys = typed.map(|word| word.trim_start_matches('+'));
        match keys.find(|key| !KEYS.contains(key)) {
            Some(key) => Err(Refusal::usage(format!(
                "{key}: samples of a store have {}; --where selects by labels",
                KEYS.join(", ")
            ))),
            None => Ok(()),
        }
    }
}

/// Returns a moment in microseconds since 1970 (UTC).
fn moment(option: &str, text: &str) -> Result<i64, Refusal> {
    let before = |ago: Duration| Some(now_us() - i64::try_from(ago.as_micros()).ok()?);
    let ago = Interval::parse(text).ok().and_then(|interval| before(interval.0));
    let refuse = || {
        Refusal::usage(format!(
            "{option} {text}: give a time such as 1h or 30d, or a date such as 2026-11-26T10:00"
        ))
    };
    ago.or_else(|| date(text)).ok_or_else(refuse)
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
        let hour = moment("--since", "1h").unwrap();
        let minute = moment("--since", "1min").unwrap();
        assert!((3_500_000_000..3_600_000_000).contains(&(minute - hour)), "{hour} {minute}");
        assert_eq!(moment("--since", "1970-01-02").unwrap(), 86_400_000_000);
        assert!(moment("--since", "soon").is_err());
    }
}
