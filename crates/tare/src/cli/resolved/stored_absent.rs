//! `--store` in a build without the feature `agent`.

use crate::cli::{FULL_BUILD, raw};
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
            Some(_) => Err(Refusal::usage(format!("--store: this build reads none; {FULL_BUILD}"))),
            None => Ok(None),
        }
    }

    /// Refuses `--store`.
    ///
    /// # Errors
    /// Fails with `--store`.
    pub(crate) fn both(
        raw: &raw::StoreArgs,
        _: &raw::VersusStoreArgs,
    ) -> Result<Option<[Self; 2]>, Refusal> {
        Ok(Self::resolve(raw)?.map(|stored| match stored {}))
    }

    /// Can't be called.
    pub(crate) fn name(&self) -> String {
        match *self {}
    }

    /// Accepts all keys.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn check_keys(_: &raw::ColumnArgs) -> Result<(), Refusal> {
        Ok(())
    }
}
