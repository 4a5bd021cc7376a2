//! Names of files and folders.
//!
//! `w-START-END-HOST-DIGEST.parquet`: `w` for a window, `g` for a gap, `h` and `d` for compacted
//! hours and days; times in microseconds since 1970. The tables of a segment have files of the
//! same name.

use std::fmt;

use twox_hash::XxHash64;

use crate::schema::TableDefinition;
use crate::segment::SegmentInfo;

/// Characters of the host in a name.
const MAX_HOST_CHARS: usize = 32;

/// End of the names of temporary files.
pub(crate) const TEMPORARY: &str = ".tmp";

const EXTENSION: &str = ".parquet";

/// Stands for all hours in the folder of a compacted day.
const ALL_HOURS: &str = "all";

/// Stands for the hosts of a compacted file.
const MANY_HOSTS: &str = "many";

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;

/// Last moment that has a date of ten characters: the end of the year 9999.
const MAX_TIME_US: i64 = 253_402_300_800_000_000;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FileKind {
    /// A window of a host.
    Window,
    /// A gap of a host.
    Gap,
    /// Compacted windows of an hour.
    Hour,
    /// Compacted windows of a day.
    Day,
}

impl FileKind {
    const ALL: [(Self, &str); 4] =
        [(Self::Window, "w"), (Self::Gap, "g"), (Self::Hour, "h"), (Self::Day, "d")];

    /// Returns whether the file has the rows of other files.
    pub(crate) fn is_compacted(self) -> bool {
        matches!(self, Self::Hour | Self::Day)
    }

    fn letter(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("w", |(_, letter)| letter)
    }
}

/// The name of a segment's files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileName {
    pub(crate) start_us: i64,
    pub(crate) end_us: i64,
    pub(crate) kind: FileKind,
    pub(crate) host: String,
    pub(crate) digest: u64,
}

impl FileName {
    /// Returns the name of a window or gap.
    pub(crate) fn for_segment(kind: FileKind, info: &SegmentInfo) -> Self {
        let identity = [
            kind.letter().as_bytes(),
            info.host.as_bytes(),
            info.boot.as_bytes(),
            &info.start_us.to_le_bytes(),
            &info.end_us.to_le_bytes(),
        ];
        Self {
            kind,
            start_us: info.start_us,
            end_us: info.end_us,
            host: safe(&info.host),
            digest: XxHash64::oneshot(0, &identity.join(&0)),
        }
    }

    /// Returns the name of a compacted file with the rows of `inputs`, which aren't empty.
    pub(crate) fn for_compaction(kind: FileKind, inputs: &[Self]) -> Self {
        let starts = inputs.iter().map(|input| input.start_us);
        let ends = inputs.iter().map(|input| input.end_us);
        let mut hosts = inputs.iter().map(|input| &input.host);
        let first = hosts.next().map_or("", String::as_str);
        let host = if hosts.all(|host| host == first) { first } else { MANY_HOSTS };
        let digests = inputs.iter().flat_map(|input| input.digest.to_le_bytes());
        let identity: Vec<u8> = kind.letter().bytes().chain(digests).collect();
        Self {
            kind,
            start_us: starts.min().unwrap_or(0),
            end_us: ends.max().unwrap_or(0),
            host: host.to_owned(),
            digest: XxHash64::oneshot(0, &identity),
        }
    }

    /// Returns the end of the hour or day that the start belongs to.
    pub(crate) fn period_end_us(&self, kind: FileKind) -> i64 {
        let length = if kind == FileKind::Day { DAY_US } else { HOUR_US };
        (self.start_us.div_euclid(length) + 1) * length
    }

    /// Reads a file's name; `None` if it isn't one of a store.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.strip_suffix(EXTENSION)?.split('-').collect();
        let [kind, start, end, host, digest] = parts[..] else { return None };
        let kind = FileKind::ALL.iter().find(|(_, letter)| *letter == kind)?.0;
        let parsed = Self {
            kind,
            start_us: start.parse().ok()?,
            end_us: end.parse().ok()?,
            host: host.to_owned(),
            digest: u64::from_str_radix(digest, 16).ok()?,
        };
        (is_window(parsed.start_us, parsed.end_us) && parsed.to_string() == name).then_some(parsed)
    }

    /// Returns the folder of a table that the file belongs to, below the store.
    pub(crate) fn folder(&self, table: &TableDefinition) -> String {
        let date = utc_date(self.start_us);
        let hour = match self.kind {
            FileKind::Day => ALL_HOURS.to_owned(),
            _ => format!("{:02}", self.start_us.rem_euclid(DAY_US) / HOUR_US),
        };
        if table.has_hours() {
            format!("{}/date={date}/hour={hour}", table.name)
        } else {
            format!("{}/date={date}", table.name)
        }
    }

    /// Returns the name while the file is written. Readers of Hive folders ignore such names.
    pub(crate) fn temporary(&self) -> String {
        format!(".{self}{TEMPORARY}")
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, start_us, end_us, host, digest } = self;
        write!(f, "{}-{start_us}-{end_us}-{host}-{digest:016x}{EXTENSION}", kind.letter())
    }
}

/// Returns whether a window may have these times.
pub(crate) fn is_window(start_us: i64, end_us: i64) -> bool {
    (0..=MAX_TIME_US).contains(&start_us) && (start_us..=MAX_TIME_US).contains(&end_us)
}

/// Replaces all characters but letters, digits, `.` and `_` of ASCII. Hosts that become equal have
/// different digests.
fn safe(host: &str) -> String {
    let safe = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' => letter,
        _ => '_',
    };
    host.chars().take(MAX_HOST_CHARS).map(safe).collect()
}

/// Returns the date of a moment as `YYYY-MM-DD`, by the proleptic Gregorian calendar.
#[must_use]
pub fn utc_date(time_us: i64) -> String {
    // Days since 0000-03-01: a leap day is then the last of its year.
    let days = time_us.div_euclid(DAY_US) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{FRAMES, SAMPLES};

    fn name(host: &str, start_us: i64) -> FileName {
        let info = SegmentInfo {
            host: host.to_owned(),
            start_us,
            end_us: start_us + 60_000_000,
            ..SegmentInfo::default()
        };
        FileName::for_segment(FileKind::Window, &info)
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let second = 1_000_000;
        let dates = [
            (0, "1970-01-01"),
            (951_782_400 * second, "2000-02-29"),
            (951_868_800 * second, "2000-03-01"),
            (4_107_542_399 * second, "2100-02-28"),
            (4_107_542_400 * second, "2100-03-01"),
            (1_795_737_599 * second, "2026-11-26"),
            (MAX_TIME_US - 1, "9999-12-31"),
        ];
        for (time_us, expected) in dates {
            assert_eq!(utc_date(time_us), expected);
        }
    }

    #[test]
    fn a_window_belongs_to_the_date_and_hour_of_its_start() {
        let last_second = name("web", 1_795_737_599_000_000);
        assert_eq!(last_second.folder(&SAMPLES), "samples/date=2026-11-26/hour=23");
        assert_eq!(last_second.folder(&FRAMES), "frames/date=2026-11-26");
    }

    #[test]
    fn hostile_hosts_make_harmless_and_different_names() {
        let long = "x".repeat(4096);
        let hosts =
            ["..", "../../etc", "/date=2020-01-01/", "a\nb", "a\0b", "", "a-b", "a_b", "ä", &long];
        let names: Vec<FileName> = hosts.iter().map(|host| name(host, 0)).collect();
        for name in &names {
            let text = name.to_string();
            assert!(text.len() < 128 && text.starts_with("w-0-60000000-"), "{text}");
            assert!(!text.contains(['/', '\n', '\0']), "{text}");
            assert_eq!(FileName::parse(&text).as_ref(), Some(name));
        }
        let distinct: std::collections::BTreeSet<u64> =
            names.iter().map(|name| name.digest).collect();
        assert_eq!(distinct.len(), hosts.len());
    }

    #[test]
    fn other_names_are_not_of_a_store() {
        let others = [
            "",
            "w.parquet",
            ".w-0-1-a-0000000000000000.parquet.tmp",
            "x-0-1-a-0000000000000000.parquet",
            "w-5-1-a-0000000000000000.parquet",
            "w--5-1-a-0000000000000000.parquet",
            "w-0-1-a-0.parquet",
            "w-0-1-a-0000000000000000",
        ];
        for other in others {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
