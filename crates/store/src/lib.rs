#![doc = include_str!("../README.md")]

mod access;
#[cfg(not(feature = "s3"))]
mod access_absent;
#[cfg(feature = "s3")]
mod access_bucket;
mod block_codes;
#[cfg(feature = "s3")]
mod bucket;
#[cfg(feature = "s3")]
mod bucket_mirror;
#[cfg(feature = "s3")]
mod bucket_options;
#[cfg(feature = "s3")]
mod bucket_reason;
#[cfg(feature = "s3")]
mod bucket_upload;
mod column_cursor;
mod compaction;
mod error;
mod extract;
mod filter;
mod folder;
mod hybrid;
mod limits;
mod listing;
mod location;
mod merge;
mod name;
mod new_store;
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
#[cfg(feature = "s3")]
mod spool;
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

pub use access::StoreAccess;
#[cfg(feature = "s3")]
pub use bucket::{Bucket, BucketStop, Transfer};
#[cfg(feature = "s3")]
pub use bucket_options::{BucketCredentials, BucketOptions};
pub use column_cursor::TextDictionary;
pub use compaction::Compaction;
pub use error::StoreError;
pub use extract::Extraction;
pub use filter::{FilterError, LabelFilter, Query};
pub use limits::{Removal, StoreLimits};
pub use location::StoreLocation;
pub use name::utc_date;
pub use new_store::NewStore;
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
#[cfg(feature = "s3")]
pub use spool::{Spool, SpoolTally};
pub use stack_table::{StackTable, StoredFrame};
pub use store::{Store, StoreOptions, WriteSize};
pub use symbolize::{FrameName, Symbolization, UnnamedFrame};
pub use texts::{MAX_TEXT_BYTES, TextId};
pub use verification::{ProblemKind, StoreProblem, Verification};
