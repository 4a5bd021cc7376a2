//! The agent's configuration: a TOML file, whose keys are the names of `tare agent`'s options.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use thiserror::Error;

use crate::labels::{EnvironmentLabel, LabelOptions};

/// The folder that segments go into by default.
pub const DEFAULT_STORE: &str = "/var/lib/tare";

/// Default of the sampling rate, in Hz. Most timers have rates that it doesn't divide.
pub const DEFAULT_HZ: u64 = 19;

/// Default of the limit on the agent's cost: a share of all CPUs' time.
pub const DEFAULT_MAX_OVERHEAD: f64 = 0.005;

/// Default of the lowest rate to which the limit reduces sampling, in Hz.
pub const DEFAULT_MIN_HZ: u64 = 1;

/// Shortest and longest window.
const WINDOWS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

/// The agent's configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Folder of the segments.
    pub store: PathBuf,
    /// Length of a window.
    pub window: Interval,
    /// Events, as for `-e`; empty: `cycles`, or `cpu-clock` without a PMU.
    pub events: Vec<String>,
    /// Sampling rate in Hz.
    pub frequency: u64,
    /// Limit on the agent's cost.
    pub max_overhead: Share,
    /// Lowest rate to which the limit reduces sampling, in Hz.
    pub min_rate: u64,
    /// Whether off-CPU time is recorded.
    pub off_cpu: bool,
    /// Only tasks in and below this cgroup.
    pub cgroup: Option<String>,
    /// Whether frames keep the address of the instruction.
    pub keep_addresses: bool,
    /// Name of the host in segments; the machine's by default.
    pub host: Option<String>,
    /// Labels from processes.
    pub labels: LabelConfig,
    /// What the store keeps.
    pub limits: LimitConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: DEFAULT_STORE.into(),
            window: Interval(Duration::from_secs(60)),
            events: Vec::new(),
            frequency: DEFAULT_HZ,
            max_overhead: Share(DEFAULT_MAX_OVERHEAD),
            min_rate: DEFAULT_MIN_HZ,
            off_cpu: false,
            cgroup: None,
            keep_addresses: false,
            host: None,
            labels: LabelConfig::default(),
            limits: LimitConfig::default(),
        }
    }
}

/// Labels from processes: the table `labels`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LabelConfig {
    /// Environment variables that become labels: `VARIABLE` or `LABEL=VARIABLE`.
    pub environment: Vec<String>,
    /// Whether command lines become labels. They may hold secrets.
    pub command_line: bool,
}

/// What the store keeps: the table `limits`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitConfig {
    /// Age above which windows are deleted.
    pub age: Option<Interval>,
    /// Size above which the oldest windows are deleted.
    pub size: Option<Size>,
}

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

/// Why a configuration can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Not TOML, or an unknown key or a wrong value in it.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A window of another length than 10 s to 10 min.
    #[error("window = \"{0}\": give 10s to 10min")]
    Window(Interval),
    /// A rate of 0, or a floor above it.
    #[error("min-rate = {min_hz} and frequency = {hz}: give at least 1, and no higher min-rate")]
    Rate {
        /// The rate in Hz.
        hz: u64,
        /// The floor in Hz.
        min_hz: u64,
    },
    /// Not the name of a variable.
    #[error("labels.environment: \"{0}\": give VARIABLE or LABEL=VARIABLE")]
    Environment(String),
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

impl Config {
    /// Reads and validates a configuration.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            ConfigError::Syntax { line, message: error.message().replace('\n', "; ") }
        })?;
        config.validate()?;
        Ok(config)
    }

    /// Checks what the types don't.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.window.0 < WINDOWS[0] || self.window.0 > WINDOWS[1] {
            return Err(ConfigError::Window(self.window));
        }
        if self.min_rate == 0 || self.min_rate > self.frequency {
            return Err(ConfigError::Rate { hz: self.frequency, min_hz: self.min_rate });
        }
        self.label_options().map(|_| ())
    }

    /// Returns the options of labels.
    ///
    /// # Errors
    /// Fails with [`ConfigError::Environment`].
    pub fn label_options(&self) -> Result<LabelOptions, ConfigError> {
        let parse = |text: &String| {
            EnvironmentLabel::parse(text).ok_or_else(|| ConfigError::Environment(text.clone()))
        };
        let environment = self.labels.environment.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(LabelOptions { environment, command_line: self.labels.command_line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_what_it_names() {
        let text = r#"
store = "/srv/profiles"
window = "10s"
events = ["cpu-clock", "page-faults"]
frequency = 99
max-overhead = "1%"
off-cpu = true
[labels]
environment = ["version=APP_VERSION", "TEAM"]
[limits]
age = "30d"
size = "10G"
"#;
        let config = Config::parse(text).unwrap();
        assert_eq!(config.window, Interval(Duration::from_secs(10)));
        assert_eq!(config.frequency, 99);
        assert_eq!(config.max_overhead, Share(0.01));
        assert_eq!(config.min_rate, DEFAULT_MIN_HZ);
        assert_eq!(config.limits.size, Some(Size(10 << 30)));
        assert_eq!(config.limits.age, Some(Interval(Duration::from_secs(30 * 86_400))));
        assert_eq!(config.label_options().unwrap().environment.len(), 2);
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let error = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(error("\nwindw = \"10s\"").starts_with("line 2: unknown field `windw`"));
        assert_eq!(error("a = 1\nb")[..7].to_owned(), "line 2:", "{}", error("a = 1\nb"));
        assert_eq!(error("window = \"5s\""), "window = \"5s\": give 10s to 10min");
        assert!(error("window = 60").contains("line 1"));
        assert!(error("max-overhead = \"0%\"").contains("give a share such as 0.5%"));
        assert!(error("frequency = 5\nmin-rate = 6").contains("min-rate"));
        assert!(error("[labels]\nenvironment = [\"A B\"]").contains("LABEL=VARIABLE"));
    }

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
