//! Where a store is.

use std::fmt;
use std::path::{Path, PathBuf};

/// Begins the URL of a bucket.
const BUCKET: &str = "s3://";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A folder.
    Folder(PathBuf),
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    Bucket(String),
}

impl StoreLocation {
    /// Reads a path or a URL.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        match path.to_str().filter(|text| text.starts_with(BUCKET)) {
            Some(url) => Self::Bucket(url.to_owned()),
            None => Self::Folder(path.to_owned()),
        }
    }

    /// Returns whether the store is in a bucket.
    #[must_use]
    pub fn is_bucket(&self) -> bool {
        matches!(self, Self::Bucket(_))
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Bucket(url) => f.write_str(url),
        }
    }
}
