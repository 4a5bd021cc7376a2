//! Takes the place of `access_bucket` in a build without the feature `s3`.

use std::path::PathBuf;

use crate::access::StoreAccess;
use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::filter::Query;
use crate::store::Store;

impl StoreAccess<'_> {
    pub(crate) fn mirrored(&self, url: &str, _query: &Query) -> Result<PathBuf, StoreError> {
        self.refuse(url)
    }

    pub(crate) fn compacted(&self, url: &str, _now_us: i64) -> Result<Compaction, StoreError> {
        self.refuse(url)
    }

    pub(crate) fn rewritten<T>(
        &self,
        url: &str,
        _change: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.refuse(url)
    }

    #[expect(clippy::unused_self, reason = "as in access_bucket")]
    fn refuse<T>(&self, url: &str) -> Result<T, StoreError> {
        Err(StoreError::NoBuckets(url.to_owned()))
    }
}
