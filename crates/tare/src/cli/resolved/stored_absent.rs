//! `--store` in a build without the feature `agent`.

use crate::cli::raw;
use crate::exit::Refusal;

/// No samples: such a build reads no store.
#[derive(Clone, Debug)]
pub(crate) enum StoredSamples {}

impl StoredSamples {
    /// Refuses `--store`.
    ///
    /// # Errors
    /// Fails with `--store`.
    pub(crate) fn resolve(raw: &raw::StoreArgs) -> Result<Option<Self>, Refusal> {
        match raw.store {
            Some(_) => {
                Err(Refusal::usage("--store: this tare was built without the feature agent"))
            }
            None => Ok(None),
        }
    }

    /// Accepts all keys.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn check_keys(_: &raw::ColumnArgs) -> Result<(), Refusal> {
        Ok(())
    }
}
