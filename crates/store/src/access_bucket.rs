//! Access to a store in a bucket, through copies in a cache.

use std::path::PathBuf;

use twox_hash::XxHash64;

use crate::access::StoreAccess;
use crate::bucket::Bucket;
use crate::bucket_mirror::MirrorScope;
use crate::bucket_options::BucketOptions;
use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::filter::Query;
use crate::store::Store;

/// Bytes of copies that a bucket may have in the cache.
const MIRROR_BYTES: u64 = 16 << 30;

impl StoreAccess<'_> {
    pub(crate) fn mirrored(&self, url: &str, query: &Query) -> Result<PathBuf, StoreError> {
        let (bucket, mirror) = self.open(url)?;
        bucket.download(&mirror, query, MIRROR_BYTES)?;
        Ok(mirror)
    }

    pub(crate) fn compacted(&self, url: &str, now_us: i64) -> Result<Compaction, StoreError> {
        let (bucket, mirror) = self.open(url)?;
        bucket.compact(&mirror, now_us)
    }

    pub(crate) fn rewritten<T>(
        &self,
        url: &str,
        change: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (bucket, mirror) = self.open(url)?;
        bucket.rewrite(&mirror, &MirrorScope::All, change)
    }

    /// Opens a bucket, and returns the folder of its copies.
    fn open(&self, url: &str) -> Result<(Bucket, PathBuf), StoreError> {
        let options = BucketOptions::from_variables(url, self.variable)?;
        let Some(cache) = &self.cache else {
            let message = "no folder for copies of windows: set XDG_CACHE_HOME or HOME";
            return Err(StoreError::BucketOption(message.to_owned()));
        };
        let identity = [options.endpoint.as_deref().unwrap_or_default(), url].join("\0");
        let name = format!("{:016x}", XxHash64::oneshot(0, identity.as_bytes()));
        Ok((Bucket::open(&options)?, cache.join(name)))
    }
}
