//! A line of results.

use tare_events::Unavailable;

use super::{NOT_COUNTED, NOT_SUPPORTED};
use crate::count::{Key, Metric};
use crate::statistics::Summary;

/// The value of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count in the event's unit: of one run, or the mean of several.
    Counted(f64),
    /// The event was never on a counter, or got no turn; with the reason if it is known.
    NotCounted(Option<Unavailable>),
    /// The event could not be opened.
    NotSupported(Unavailable),
}

/// A line of results.
#[derive(Clone, Debug)]
pub struct StatLine {
    /// What the line covers.
    pub key: Key,
    /// The thread's name as `comm-tid`, for a thread.
    pub thread: Option<String>,
    /// Number of locations that were summed, as in [`crate::count::CountRow`].
    pub locations: usize,
    /// The event's name.
    pub event: String,
    /// The cgroup in which it was counted.
    pub cgroup: Option<String>,
    /// The unit of the value; empty for occurrences.
    pub unit: String,
    /// Whether counts were multiplied by a scale with a fraction, so that the value has decimals.
    pub scaled_unit: bool,
    /// The count.
    pub value: Value,
    /// Nanoseconds on a counter, averaged over the runs that counted it.
    pub running_ns: u64,
    /// The share of the enabled time on a counter, 0 to 1; 0 without a count.
    pub running_share: f64,
    /// The figure derived from the count.
    pub metric: Option<Metric>,
    /// Whether several runs were requested. `-x` and `-j` then have a column for the spread, even
    /// for an event without a count.
    pub repeated: bool,
    /// Mean, deviation and interval over runs, in the unit; `None` if a single run was requested,
    /// or none counted the event.
    pub spread: Option<Summary>,
    /// The count of each run that counted it, in the unit.
    pub runs: Vec<f64>,
}

impl StatLine {
    /// Whether the value is scaled up from a part of the enabled time.
    #[must_use]
    pub fn is_scaled(&self) -> bool {
        !self.runs.is_empty() && self.running_share < 1.0
    }

    /// Returns perf's text for a missing value; `None` for a count.
    pub(super) fn missing(&self) -> Option<&'static str> {
        match self.value {
            Value::Counted(_) => None,
            Value::NotCounted(_) => Some(NOT_COUNTED),
            Value::NotSupported(_) => Some(NOT_SUPPORTED),
        }
    }

    /// Returns the running share in percent, as perf prints it: 100 without a count.
    pub(super) fn perf_running_percent(&self) -> f64 {
        if self.runs.is_empty() { 100.0 } else { self.running_share * 100.0 }
    }

    /// Returns [`Summary::standard_error_percent`], and 0 for an event without a count. `None` if a
    /// single run was requested.
    pub(super) fn deviation_percent(&self) -> Option<f64> {
        self.repeated.then(|| self.spread.as_ref().map_or(0.0, Summary::standard_error_percent))
    }
}
