#![doc = include_str!("../README.md")]

mod block_codes;
#[cfg(feature = "s3")]
mod bucket;
mod column_cursor;
mod compaction;
mod error;
mod extract;
mod filter;
mod folder;
mod hybrid;
mod limits;
mod listing;
mod merge;
mod name;
mod overview;
mod progress;
mod publication;
mod reader;
mod recovery;
mod row_cursor;
mod rows;
mod scan;
pub mod schema;
mod segment;
mod segment_scan;
mod stack_table;
mod store;
mod symbolize;
mod table_copy;
mod table_file;
mod table_writer;
#[cfg(test)]
mod tests;
mod texts;
mod verification;

#[cfg(feature = "s3")]
pub use bucket::{Bucket, BucketCredentials, BucketOptions, Transfer};
pub use column_cursor::TextDictionary;
pub use compaction::Compaction;
pub use error::StoreError;
pub use extract::Extraction;
pub use filter::{FilterError, LabelFilter, Query};
pub use limits::{Removal, StoreLimits};
pub use name::utc_date;
pub use overview::{FileTotals, GapTotals, HostOverview, StoreOverview};
pub use progress::ScanProgress;
pub use reader::StoreReader;
pub use recovery::Recovery;
pub use scan::SampleBatch;
pub use segment::{
    Figures, LabelSet, MAX_EXTRA_BYTES, MAX_STACK_FRAMES, OVERFLOW_TEXT, Segment, SegmentBuilder,
    SegmentInfo, SegmentLimits, SegmentRow, StackFrame, StackId,
};
pub use segment_scan::SegmentSummary;
pub use stack_table::{StackTable, StoredFrame};
pub use store::{Store, StoreOptions, WriteSize};
pub use symbolize::{FrameName, Symbolization, UnnamedFrame};
pub use texts::{MAX_TEXT_BYTES, TextId};
pub use verification::{ProblemKind, StoreProblem, Verification};
