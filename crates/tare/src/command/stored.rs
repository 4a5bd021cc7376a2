//! Samples of a store, for the views of recordings.

use std::path::Path;

pub(crate) use tare_agent::{OFF_CPU_EVENT as OFF_CPU, StoredRows, TimedRow};
use tare_replay::ProfileSummary;
use tare_store::StoreReader;

use crate::Outcome;
use crate::cli::resolved::stored::StoredSamples;
use crate::exit::{Exit, Refusal};

/// Sums up the samples of a store.
pub(crate) fn summarize(stored: &StoredSamples) -> anyhow::Result<ProfileSummary> {
    Ok(read(stored, false)?.summary)
}

/// Reads the samples of a store, window by window or summed up.
pub(crate) fn read(stored: &StoredSamples, by_window: bool) -> anyhow::Result<StoredRows> {
    let reader = StoreReader::open(&stored.folder()?, 2)?;
    let samples = tare_agent::read_samples(&reader, &stored.query, by_window)?;
    Ok(samples.ok_or_else(|| no_samples(stored))?)
}

/// Copies samples of a store into a new one.
pub(crate) fn extract(stored: &StoredSamples, to: &Path) -> Outcome {
    let extraction = StoreReader::open(&stored.folder()?, 1)?.extract(&stored.query, to)?;
    if extraction.samples == 0 {
        return Err(no_samples(stored).into());
    }
    Ok(Exit::Success)
}

fn no_samples(stored: &StoredSamples) -> Refusal {
    let message = format!(
        "{}: no window has such samples; leave out --where, --since or --until",
        stored.name()
    );
    Refusal { exit: Exit::Failure, message }
}
