//! Samples of a store, for the views of recordings.

pub(crate) use tare_agent::{OFF_CPU_EVENT as OFF_CPU, StoredRows, TimedRow};
use tare_replay::ProfileSummary;

use crate::cli::resolved::stored::StoredSamples;
use crate::exit::{Exit, Refusal};

/// Sums up the samples of a store.
pub(crate) fn summarize(stored: &StoredSamples) -> anyhow::Result<ProfileSummary> {
    Ok(read(stored, false)?.summary)
}

/// Reads the samples of a store, window by window or summed up.
pub(crate) fn read(stored: &StoredSamples, by_window: bool) -> anyhow::Result<StoredRows> {
    let StoredSamples { store, query, .. } = stored;
    let refusal = || Refusal {
        exit: Exit::Failure,
        message: format!(
            "{}: no window has such samples; leave out --where, --since or --until",
            stored.name()
        ),
    };
    Ok(tare_agent::read_samples(store, query, by_window)?.ok_or_else(refusal)?)
}
