//! Samples of a store, in a build that reads none.

use tare_replay::ProfileSummary;

use crate::cli::resolved::stored::StoredSamples;

/// The event of the time that tasks are not on a CPU, as perf calls it.
pub(crate) const OFF_CPU: &str = "offcpu-time";

/// Can't be called.
pub(crate) fn summarize(stored: &StoredSamples) -> anyhow::Result<ProfileSummary> {
    match *stored {}
}
