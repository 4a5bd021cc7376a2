//! What a store has: hosts, times, sizes.

use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::filter::Query;
use crate::publication::ORDER;
use crate::reader::{StoreReader, again};
use crate::segment_scan::SegmentSummary;

/// What a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOverview {
    /// Hosts by name.
    pub hosts: BTreeMap<String, HostOverview>,
    /// Files of windows and gaps as they were written.
    pub raw: FileTotals,
    /// Files of compacted hours and days.
    pub compacted: FileTotals,
}

/// What a store has of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOverview {
    /// Number of windows.
    pub windows: u64,
    /// Samples of these.
    pub samples: u64,
    /// Samples that the kernel or the writer dropped.
    pub lost: u64,
    /// Samples with an incomplete stack.
    pub truncated: u64,
    /// Samples whose innermost frame had no function when it was recorded.
    pub unnamed: u64,
    /// Samples whose stack wasn't kept.
    pub omitted: u64,
    /// Its gaps.
    pub gaps: GapTotals,
    /// Start of the first window or gap, in microseconds since 1970.
    pub start_us: i64,
    /// End of the last window or gap, in microseconds since 1970.
    pub end_us: i64,
}

impl Default for HostOverview {
    fn default() -> Self {
        Self {
            windows: 0,
            samples: 0,
            lost: 0,
            truncated: 0,
            unnamed: 0,
            omitted: 0,
            gaps: GapTotals::default(),
            start_us: i64::MAX,
            end_us: 0,
        }
    }
}

/// Gaps of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapTotals {
    /// Number of gaps.
    pub count: u64,
    /// Their length together, in microseconds.
    pub length_us: i64,
    /// Samples lost in them, at least.
    pub samples: u64,
}

/// Files of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// Number of files.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
}

impl HostOverview {
    fn add(&mut self, segment: &SegmentSummary<'_>) {
        let figures = segment.figures;
        self.start_us = self.start_us.min(segment.start_us);
        self.end_us = self.end_us.max(segment.end_us);
        if segment.is_gap {
            let length_us = segment.end_us.saturating_sub(segment.start_us);
            self.gaps.count += 1;
            self.gaps.length_us = self.gaps.length_us.saturating_add(length_us);
            self.gaps.samples += figures.samples;
            return;
        }
        self.windows += 1;
        self.samples += figures.samples;
        self.lost += figures.lost;
        self.truncated += figures.truncated;
        self.unnamed += figures.unnamed;
        self.omitted += segment.omitted;
    }
}

impl StoreReader {
    /// Sums up the segments of the query's times and hosts, and the files that may have rows of
    /// these times.
    ///
    /// # Errors
    /// Fails if a folder or a file can't be read.
    pub fn overview(&self, query: &Query) -> Result<StoreOverview, StoreError> {
        let mut overview = again(|| self.file_totals(query))?;
        overview.hosts = self.segments(query, BTreeMap::new, |hosts, segment| {
            let known = hosts.get_mut(segment.host);
            let host: &mut HostOverview = match known {
                Some(host) => host,
                None => hosts.entry(segment.host.to_owned()).or_default(),
            };
            host.add(segment);
        })?;
        Ok(overview)
    }

    fn file_totals(&self, query: &Query) -> Result<StoreOverview, StoreError> {
        let mut overview = StoreOverview::default();
        for table in ORDER {
            for file in self.files(table, query)? {
                let metadata = file.path.metadata().map_err(crate::folder::file_error(&file.path));
                let is_compacted = file.name.kind.is_compacted();
                let totals = if is_compacted { &mut overview.compacted } else { &mut overview.raw };
                totals.files += 1;
                totals.bytes += metadata?.len();
            }
        }
        Ok(overview)
    }
}
