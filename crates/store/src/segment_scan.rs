//! The rows of the table of segments.

use std::path::Path;

use crate::column_cursor::PageDecoder;
use crate::error::StoreError;
use crate::filter::Query;
use crate::publication::encoding_error;
use crate::reader::{StoreReader, again};
use crate::row_cursor::RowCursor;
use crate::schema::{SEGMENTS, SegmentColumn};
use crate::segment::Figures;
use crate::table_file::TableFile;

const BLOCK_ROWS: usize = 1 << 12;

/// A window or a gap of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary<'a> {
    /// Whether nothing was recorded. `figures` then has a lower bound of the samples lost.
    pub is_gap: bool,
    /// Name of the host.
    pub host: &'a str,
    /// Id of the boot.
    pub boot: &'a str,
    /// Release of the kernel.
    pub kernel: &'a str,
    /// Version of the writer.
    pub agent_version: &'a str,
    /// Start, in microseconds since 1970.
    pub start_us: i64,
    /// End, in microseconds since 1970.
    pub end_us: i64,
    /// What was counted, and what it cost.
    pub figures: Figures,
    /// Samples whose stack wasn't kept.
    pub omitted: u64,
}

impl StoreReader {
    /// Adds the segments that overlap the query's times to a sink, in no particular order. Of the
    /// query's filters, those of the host apply. `sink` makes a new one if files were compacted
    /// meanwhile.
    ///
    /// # Errors
    /// Fails if a folder or a file can't be read.
    pub fn segments<S>(
        &self,
        query: &Query,
        sink: impl Fn() -> S,
        each: impl Fn(&mut S, &SegmentSummary<'_>),
    ) -> Result<S, StoreError> {
        // A gap that began earlier may reach into the query's times.
        let earlier = Query { since_us: None, ..query.clone() };
        again(|| {
            let mut sink = sink();
            for file in self.files(&SEGMENTS, &earlier)? {
                if query.since_us.is_none_or(|since| file.name.end_us > since) {
                    for_segments(&file.path, query, |segment| each(&mut sink, segment))?;
                }
            }
            Ok(sink)
        })
    }
}

/// Calls `each` with the segments of a file that overlap the query's times.
pub(crate) fn for_segments(
    path: &Path,
    query: &Query,
    mut each: impl FnMut(&SegmentSummary<'_>),
) -> Result<(), StoreError> {
    let mut cursor = RowCursor::new(TableFile::open(path, &SEGMENTS)?, &SEGMENTS);
    let mut read = || {
        let mut decoder = PageDecoder::new()?;
        while cursor.next_block(BLOCK_ROWS, &mut decoder)? {
            for row in 0..cursor.rows().len() {
                let summary = summary(&cursor, row);
                if wants(query, &summary) {
                    each(&summary);
                }
            }
        }
        Ok(())
    };
    read().map_err(|error| encoding_error(path, error))
}

fn wants(query: &Query, summary: &SegmentSummary<'_>) -> bool {
    query.since_us.is_none_or(|since| summary.end_us > since)
        && query.until_us.is_none_or(|until| summary.start_us < until)
        && query.has_host(summary.host)
}

fn summary(cursor: &RowCursor, row: usize) -> SegmentSummary<'_> {
    let text = |column: SegmentColumn| cursor.text(column as usize, row).unwrap_or_default();
    let int = |column: SegmentColumn| cursor.rows().int(column as usize, row);
    let count = |column| u64::try_from(int(column)).unwrap_or(0);
    SegmentSummary {
        is_gap: text(SegmentColumn::Kind) == "gap",
        host: text(SegmentColumn::Host),
        boot: text(SegmentColumn::Boot),
        kernel: text(SegmentColumn::Kernel),
        agent_version: text(SegmentColumn::AgentVersion),
        start_us: int(SegmentColumn::Start),
        end_us: int(SegmentColumn::End),
        figures: Figures {
            samples: count(SegmentColumn::Samples),
            lost: count(SegmentColumn::Lost),
            truncated: count(SegmentColumn::Truncated),
            unnamed: count(SegmentColumn::Unnamed),
            recorder_cpu_us: count(SegmentColumn::RecorderCpuUs),
            kernel_us: count(SegmentColumn::KernelUs),
            rate_millihertz: count(SegmentColumn::RateMillihertz),
            cpus: count(SegmentColumn::Cpus),
        },
        omitted: count(SegmentColumn::Omitted),
    }
}
