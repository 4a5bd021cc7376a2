//! Values of the configuration with units.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use thiserror::Error;

/// A time such as `60s`, `10min`, `12h` or `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

/// A number of bytes such as `500M` or `10G`, in powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A share such as `0.5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// Why a value isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// Not an interval.
    #[error("give a time such as 60s, 10min, 12h or 30d")]
    Interval,
    /// Not a size.
    #[error("give a size such as 500M or 10G")]
    Size,
    /// Not a share.
    #[error("give a share such as 0.5%")]
    Share,
}

impl Interval {
    /// Reads a time.
    ///
    /// # Errors
    /// Fails without a unit (`s`, `min`, `h`, `d`), and above 100 years.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let (number, unit) = split_unit(text);
        let seconds = match unit {
            "s" => 1,
            "min" | "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(ValueError::Interval),
        };
        let number: u64 = number.parse().map_err(|_| ValueError::Interval)?;
        let total = number.checked_mul(seconds).filter(|total| *total <= 100 * 366 * 86_400);
        total.map(|total| Self(Duration::from_secs(total))).ok_or(ValueError::Interval)
    }
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match [(86_400, "d"), (3600, "h"), (60, "min")]
            .into_iter()
            .find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit))
        {
            Some((unit, name)) => write!(f, "{}{name}", seconds / unit),
            None => write!(f, "{seconds}s"),
        }
    }
}

impl Size {
    /// Reads a size.
    ///
    /// # Errors
    /// Fails if it isn't a number of bytes, or one with `K`, `M`, `G` or `T`.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let (number, unit) = split_unit(text);
        let shift = match unit {
            "" | "B" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(ValueError::Size),
        };
        let number: u64 = number.parse().map_err(|_| ValueError::Size)?;
        number.checked_mul(1 << shift).map(Self).ok_or(ValueError::Size)
    }
}

impl Share {
    /// Reads a percentage.
    ///
    /// # Errors
    /// Fails if it has no `%`, or isn't above 0% and at most 100%.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let is_share = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
        percent.filter(is_share).map(|percent| Self(percent / 100.0)).ok_or(ValueError::Share)
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        let seconds = |text| Interval::parse(text).map(|interval| interval.0.as_secs());
        assert_eq!(seconds("10 min"), Ok(600));
        assert_eq!(seconds("7d"), Ok(604_800));
        for wrong in ["", "5", "s", "-1s", "1y", "99999999999999999999s", "1.5h"] {
            assert_eq!(seconds(wrong), Err(ValueError::Interval), "{wrong}");
        }
        assert_eq!(Size::parse("500M"), Ok(Size(500 << 20)));
        assert!(Size::parse("99999999999T").is_err());
        assert!(Share::parse("101%").is_err());
        for text in ["60s", "90s", "10min", "12h", "30d"] {
            let shown = Interval::parse(text).unwrap().to_string();
            assert_eq!(Interval::parse(&shown), Interval::parse(text));
        }
    }
}
