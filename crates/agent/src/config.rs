//! The agent's configuration: a TOML file, whose keys are the names of `tare agent`'s options.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tare_store::StoreLocation;
use thiserror::Error;

use crate::labels::{EnvironmentLabel, LabelOptions};
use crate::push::{self, PushTarget, TargetError};
pub use crate::values::{Interval, Share, Size, ValueError};

/// The folder that segments go into by default.
pub const DEFAULT_STORE: &str = "/var/lib/tare";

/// The folder in which windows wait for a bucket by default.
pub const DEFAULT_SPOOL: &str = "/var/lib/tare/spool";

/// Default of the limit on windows that wait for a bucket, in bytes.
pub const DEFAULT_SPOOL_SIZE: u64 = 1 << 30;

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
    /// Where segments go: a folder, or `s3://BUCKET/PREFIX`.
    pub store: PathBuf,
    /// Where segments wait for a bucket.
    pub spool: SpoolConfig,
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
    /// Where windows are sent.
    pub push: Vec<PushTarget>,
    /// Address at which the agent's figures are served.
    pub metrics: Option<SocketAddr>,
    /// Whether that address may be one that other machines reach.
    pub metrics_public: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: DEFAULT_STORE.into(),
            spool: SpoolConfig::default(),
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
            push: Vec::new(),
            metrics: None,
            metrics_public: false,
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

/// Where segments wait for a bucket: the table `spool`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SpoolConfig {
    /// The folder.
    pub folder: PathBuf,
    /// Size above which the oldest windows are dropped.
    pub size: Size,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self { folder: DEFAULT_SPOOL.into(), size: Size(DEFAULT_SPOOL_SIZE) }
    }
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
    /// An address that other machines reach.
    #[error(
        "metrics = \"{0}\": give a loopback address such as 127.0.0.1:9464, or metrics-public too"
    )]
    Metrics(SocketAddr),
    /// Limits of a store whose windows other hosts write too.
    #[error(
        "limits: they are for a folder: rules of the bucket delete old windows, and spool.size limits those that wait"
    )]
    Limits,
    /// A bucket in a build without them.
    #[error("store = \"{0}\": this tare was built without the feature s3")]
    NoBuckets(String),
    /// A target that can't be used.
    #[error(transparent)]
    Push(#[from] TargetError),
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
        push::validate(&self.push)?;
        if let StoreLocation::Bucket(url) = self.location() {
            if cfg!(not(feature = "s3")) {
                return Err(ConfigError::NoBuckets(url));
            }
            if self.limits != LimitConfig::default() {
                return Err(ConfigError::Limits);
            }
        }
        match self.metrics {
            Some(address) if !address.ip().is_loopback() && !self.metrics_public => {
                return Err(ConfigError::Metrics(address));
            }
            _ => {}
        }
        self.label_options().map(|_| ())
    }

    /// Returns where the store is.
    #[must_use]
    pub fn location(&self) -> StoreLocation {
        StoreLocation::from_path(&self.store)
    }

    /// Returns the folder that windows are written into: the store, or the spool of a bucket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        if self.location().is_bucket() { &self.spool.folder } else { &self.store }
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
        let bucket = "store = \"s3://b/p\"\n[limits]\nage = \"1d\"";
        let refused =
            if cfg!(feature = "s3") { "limits: they are" } else { "store = \"s3://b/p\"" };
        assert!(error(bucket).starts_with(refused), "{}", error(bucket));
        assert!(error("[labels]\nenvironment = [\"A B\"]").contains("LABEL=VARIABLE"));
    }
}
