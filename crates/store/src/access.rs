//! Access to a store for programs that read or change it, also to one in a bucket.

use std::path::PathBuf;

use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::filter::Query;
use crate::location::StoreLocation;
use crate::reader::StoreReader;
use crate::store::{Store, StoreOptions};

/// Access to a store.
pub struct StoreAccess<'a> {
    /// The store.
    pub location: &'a StoreLocation,
    /// Returns an environment variable: a bucket's key, region and address.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Where copies of a bucket's windows are kept.
    pub cache: Option<PathBuf>,
}

impl StoreAccess<'_> {
    /// Returns a folder with the windows of a query's times: the store, or copies of them.
    ///
    /// # Errors
    /// Fails if the bucket can't be read, or the copies can't be written.
    pub fn folder(&self, query: &Query) -> Result<PathBuf, StoreError> {
        match self.location {
            StoreLocation::Folder(path) => Ok(path.clone()),
            StoreLocation::Bucket(url) => self.mirrored(url, query),
        }
    }

    /// Compacts the hours and days that have ended.
    ///
    /// # Errors
    /// As [`Store::compact`], and if the bucket can't be read or written.
    pub fn compact(&self, now_us: i64) -> Result<Compaction, StoreError> {
        match self.location {
            StoreLocation::Folder(path) => {
                let store = existing(path)?;
                store.recover()?;
                store.compact(now_us)
            }
            StoreLocation::Bucket(url) => self.compacted(url, now_us),
        }
    }

    /// Changes segments. Those of a bucket are changed in copies.
    ///
    /// # Errors
    /// Fails if `change` does, or the bucket can't be read or written.
    pub fn rewrite<T>(
        &self,
        change: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.location {
            StoreLocation::Folder(path) => change(&existing(path)?),
            StoreLocation::Bucket(url) => self.rewritten(url, change),
        }
    }
}

/// Opens a store that exists.
fn existing(path: &std::path::Path) -> Result<Store, StoreError> {
    StoreReader::open(path, 1)?;
    Store::open(path, StoreOptions::default())
}
