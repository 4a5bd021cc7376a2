//! Sends windows to a store in a bucket.
//!
//! ```text
//! finished window --> SegmentWriter --> spool, a local store --> a thread --> bucket
//!                                         \-- full: the oldest windows are dropped --> gap
//! ```
//! Nothing here makes the recorder wait.

#[cfg(not(feature = "s3"))]
mod absent;
#[cfg(feature = "s3")]
mod uploader;

#[cfg(not(feature = "s3"))]
pub use absent::{EndingUploader, OutgoingSpool, Uploader};
#[cfg(feature = "s3")]
pub use uploader::{EndingUploader, OutgoingSpool, Uploader};
