//! Samples of a store, in a build that reads none.

use std::path::Path;

use tare_profile::{Row, Weight};
use tare_replay::ProfileSummary;

use crate::Outcome;
use crate::cli::resolved::stored::StoredSamples;

/// The event of the time that tasks are not on a CPU, as perf calls it.
pub(crate) const OFF_CPU: &str = "offcpu-time";

/// Samples of a window that are alike.
pub(crate) struct TimedRow {
    pub(crate) time_ns: Option<u64>,
    pub(crate) row: Row,
    pub(crate) weight: Weight,
}

/// Samples of a store.
pub(crate) struct StoredRows {
    pub(crate) summary: ProfileSummary,
    pub(crate) rows: Vec<TimedRow>,
    pub(crate) recorded_ns: u64,
}

/// Can't be called.
pub(crate) fn read(stored: &StoredSamples, _by_window: bool) -> anyhow::Result<StoredRows> {
    match *stored {}
}

/// Can't be called.
pub(crate) fn extract(stored: &StoredSamples, _to: &Path) -> Outcome {
    match *stored {}
}

/// Can't be called.
pub(crate) fn summarize(stored: &StoredSamples) -> anyhow::Result<ProfileSummary> {
    match *stored {}
}
