//! Takes the place of `uploader` in a build without the feature `s3`, where no bucket is valid.

use std::path::Path;
use std::sync::Arc;

use tare_store::{StoreError, StoreLocation};

use crate::push::PushTotals;

/// Has no value.
#[derive(Debug)]
pub enum OutgoingSpool {}

impl OutgoingSpool {
    pub(crate) fn add_window(&self, _samples: u64, _bytes: u64) {
        match *self {}
    }

    pub(crate) fn add_gap(&self, _bytes: u64) {
        match *self {}
    }
}

/// Has no value.
#[derive(Debug)]
pub enum Uploader {}

impl Uploader {
    /// Returns `None`.
    ///
    /// # Errors
    /// Fails with a bucket.
    pub fn start(
        location: &StoreLocation,
        _folder: &Path,
        _max_bytes: u64,
        _variable: fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, StoreError> {
        match location {
            StoreLocation::Folder(_) => Ok(None),
            StoreLocation::Bucket(url) => Err(StoreError::NoBuckets(url.clone())),
        }
    }

    /// Is never called.
    #[must_use]
    pub fn spool(&self) -> Arc<OutgoingSpool> {
        match *self {}
    }

    /// Is never called.
    #[must_use]
    pub fn totals(&self) -> PushTotals {
        match *self {}
    }

    /// Is never called.
    #[must_use]
    pub fn end(self) -> EndingUploader {
        match self {}
    }
}

/// Has no value.
#[derive(Debug)]
pub enum EndingUploader {}

impl EndingUploader {
    /// Is never called.
    #[must_use]
    pub fn finish(self) -> PushTotals {
        match self {}
    }
}
