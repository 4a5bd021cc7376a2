//! Age and size of a store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::StoreError;
use crate::filter::Query;
use crate::listing::list;
use crate::name::FileName;
use crate::schema::{FRAMES, SAMPLES, SEGMENTS, TableDefinition};
use crate::segment_scan::for_segments;
use crate::store::Store;

/// What a store may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreLimits {
    /// Age of the newest window of a file.
    pub max_age: Option<Duration>,
    /// Length of all files together.
    pub max_bytes: Option<u64>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Segments: windows, gaps, and compacted hours and days.
    pub files: u64,
    /// Windows in these.
    pub windows: u64,
    /// Length of all removed files.
    pub bytes: u64,
}

/// The files of a segment.
#[derive(Default)]
struct SegmentFiles {
    paths: Vec<(PathBuf, &'static TableDefinition)>,
    bytes: u64,
}

impl Store {
    /// Removes the oldest files until the store is within its limits. A compacted file is removed
    /// as a whole.
    ///
    /// # Errors
    /// Fails if another program compacts or removes, or a file can't be removed.
    pub fn enforce(&self, limits: &StoreLimits, now_us: i64) -> Result<Removal, StoreError> {
        let folder = self.folder();
        let _lock = folder.lock_rewriting()?;
        let mut segments: BTreeMap<FileName, SegmentFiles> = BTreeMap::new();
        // Frames are removed last: recovery removes frames that are alone.
        for table in [&SAMPLES, &SEGMENTS, &FRAMES] {
            for file in list(folder, table)?.into_iter().filter(|file| !file.is_temporary) {
                let bytes = file.path.metadata().map_or(0, |metadata| metadata.len());
                let segment = segments.entry(file.name.clone()).or_default();
                segment.bytes += bytes;
                segment.paths.push((file.path, table));
            }
        }
        let age_us = limits.max_age.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
        let oldest_us = age_us.map(|age| now_us.saturating_sub(age));
        let mut bytes: u64 = segments.values().map(|segment| segment.bytes).sum();
        let mut removal = Removal::default();
        let mut folders = Vec::new();
        for (name, segment) in segments {
            let is_old = oldest_us.is_some_and(|oldest| name.end_us <= oldest);
            if !is_old && limits.max_bytes.is_none_or(|limit| bytes <= limit) {
                continue;
            }
            removal.files += 1;
            removal.windows += segment.count_windows();
            removal.bytes += segment.bytes;
            bytes -= segment.bytes;
            for (path, _) in segment.paths {
                folder.remove_file(&path)?;
                folders.extend(path.parent().map(ToOwned::to_owned));
            }
        }
        self.remove_empty_folders(folders)?;
        Ok(removal)
    }
}

impl SegmentFiles {
    /// Returns the number of windows, 0 if it can't be read.
    fn count_windows(&self) -> u64 {
        let mut count = 0;
        for (path, table) in &self.paths {
            if **table == SEGMENTS {
                let query = Query::default();
                let counted =
                    for_segments(path, &query, |segment| count += u64::from(!segment.is_gap));
                // The file is removed, whatever it has.
                counted.unwrap_or(());
            }
        }
        count
    }
}
