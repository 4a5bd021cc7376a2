//! The contents of an agent's store.

use std::path::Path;

use serde::Serialize;
use tare_store::schema::SampleColumn;
use tare_store::{Query, StoreReader};

/// A window or a gap.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct StoredSegment {
    pub(super) is_gap: bool,
    pub(super) start_us: i64,
    pub(super) end_us: i64,
    pub(super) samples: u64,
    pub(super) lost: u64,
    pub(super) truncated: u64,
}

/// All windows and gaps of a store, by time, and the samples in its rows.
#[derive(Clone, Debug)]
pub(super) struct StoreContents {
    pub(super) segments: Vec<StoredSegment>,
    pub(super) samples_in_rows: u64,
}

/// Reads all of a store.
pub(super) fn read(store: &Path) -> anyhow::Result<StoreContents> {
    let reader = StoreReader::open(store, 1)?;
    let all = Query::default();
    let mut segments = reader.segments(&all, Vec::new, |segments, summary| {
        segments.push(StoredSegment {
            is_gap: summary.is_gap,
            start_us: summary.start_us,
            end_us: summary.end_us,
            samples: summary.figures.samples,
            lost: summary.figures.lost,
            truncated: summary.figures.truncated,
        });
    })?;
    segments.sort_by_key(|segment| segment.start_us);
    let column = SampleColumn::Samples;
    let sums = reader.scan(&all, &[column], i64::default, |sum, batch| {
        *sum += batch.ints(column).iter().sum::<i64>();
    })?;
    let samples_in_rows = u64::try_from(sums.into_iter().sum::<i64>())?;
    Ok(StoreContents { segments, samples_in_rows })
}

/// Returns the bytes of the files of a store's tables.
pub(super) fn bytes(store: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(store)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sum += bytes(&entry.path())?;
        } else if entry.path().extension().is_some_and(|extension| extension == "parquet") {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum)
}
