//! One line of results.

use tare_events::Unavailable;

use super::{NOT_COUNTED, NOT_SUPPORTED};
use crate::count::{Key, Metric};
use crate::statistics::Summary;

/// What came of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count in the event's unit: one run's, or the mean of several.
    Counted(f64),
    /// Open, but never on a counter, or never its turn.
    NotCounted(Option<Unavailable>),
    /// Not open, and why.
    NotSupported(Unavailable),
}

/// One line of results.
#[derive(Clone, Debug)]
pub struct Line {
    /// What was summed.
    pub key: Key,
    /// What a thread is called, as `comm-tid`.
    pub thread: Option<String>,
    /// How many CPUs or threads were summed.
    pub locations: usize,
    /// The event's name.
    pub event: String,
    /// The cgroup that it counted.
    pub cgroup: Option<String>,
    /// The unit of the value; empty for occurrences.
    pub unit: String,
    /// Whether the value is in another unit than the kernel's, and so has decimals.
    pub scaled_unit: bool,
    /// The count.
    pub value: Value,
    /// Nanoseconds on a counter, a run.
    pub running_ns: u64,
    /// The share of the enabled time on a counter, 0 to 1; 0 where nothing was counted.
    pub running_share: f64,
    /// The figure derived from it.
    pub metric: Option<Metric>,
    /// Whether several runs were asked for: machine-readable forms then have a column for the
    /// spread, whatever came of the event.
    pub repeated: bool,
    /// Mean, deviation and interval over runs, in the unit; `None` for a single run.
    pub spread: Option<Summary>,
    /// Each run's count, in the unit.
    pub runs: Vec<f64>,
}

impl Line {
    /// Whether the value is an estimate from a part of the enabled time.
    #[must_use]
    pub fn is_scaled(&self) -> bool {
        !self.runs.is_empty() && self.running_share < 1.0
    }

    /// perf's words for a value that isn't there.
    pub(super) fn missing(&self) -> Option<&'static str> {
        match self.value {
            Value::Counted(_) => None,
            Value::NotCounted(_) => Some(NOT_COUNTED),
            Value::NotSupported(_) => Some(NOT_SUPPORTED),
        }
    }

    /// The running share in percent as perf prints it: 100 where nothing was counted.
    pub(super) fn perf_running_percent(&self) -> f64 {
        if self.runs.is_empty() { 100.0 } else { self.running_share * 100.0 }
    }

    /// The standard deviation of the mean in percent of it, as in perf: 0 for a mean of 0; `None`
    /// for a single run.
    pub(super) fn deviation_percent(&self) -> Option<f64> {
        let percent = |spread: &Summary| {
            let of_mean = spread.deviation? / (spread.runs as f64).sqrt();
            (spread.mean != 0.0).then(|| of_mean / spread.mean.abs() * 100.0)
        };
        self.repeated.then(|| self.spread.as_ref().and_then(percent).unwrap_or(0.0))
    }
}
