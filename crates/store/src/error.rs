//! Errors of a store.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Why a store can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder can't be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file isn't valid Parquet, or can't be encoded as such.
    #[error("{path}: {source}", path = path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: ParquetError,
    },
    /// The store has this window already.
    #[error("{path}: this window is already in the store", path = .0.display())]
    Exists(PathBuf),
    /// Another program holds the lock of the store.
    #[error("{path}: another program is rewriting this store; try again when it has ended", path = .0.display())]
    Locked(PathBuf),
    /// The caller stopped a scan or a transfer.
    #[error("stopped")]
    Stopped,
    /// A URL doesn't name a bucket.
    #[error("'{0}' isn't a bucket: write s3://BUCKET or s3://BUCKET/PREFIX")]
    #[cfg(feature = "s3")]
    Url(String),
    /// Options of a bucket can't be used.
    #[error("{0}")]
    #[cfg(feature = "s3")]
    BucketOption(String),
    /// The windows of a query are larger than the disk space for them.
    #[error(
        "the bucket has more than {limit_mb} MB of these windows: select fewer with --since and --until"
    )]
    #[cfg(feature = "s3")]
    TooLarge {
        /// Limit of the mirror, in megabytes.
        limit_mb: u64,
    },
    /// A store in a bucket, in a build without the feature `s3`.
    #[error("--store {0}: this tare was built without the feature s3")]
    #[cfg(not(feature = "s3"))]
    NoBuckets(String),
    /// A bucket can't be read or written.
    #[error("{object}: {}", crate::bucket_reason::reason(source))]
    #[cfg(feature = "s3")]
    Bucket {
        /// The object, or the bucket.
        object: String,
        /// The reason.
        source: Box<object_store::Error>,
    },
    /// A window ends before it starts, or its times are outside the years 1970 to 9999.
    #[error("a window from {start_us} to {end_us} (microseconds since 1970) isn't valid")]
    Window {
        /// Start of the window.
        start_us: i64,
        /// End of the window.
        end_us: i64,
    },
}

impl StoreError {
    /// Returns whether the disk or the quota is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::File { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ))
    }
}
