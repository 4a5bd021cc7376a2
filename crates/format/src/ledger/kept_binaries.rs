//! The binaries that a recording kept.

use serde::{Deserialize, Serialize};

/// What became of the files that samples can lie in, where they were to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeptBinaries {
    /// The folder that they are in, in the layout of perf's cache of build ids.
    pub folder: String,
    /// Files that were added.
    pub files: u64,
    /// Bytes that they take; what shares its blocks with the original takes none.
    pub copied_bytes: u64,
    /// Files that were there before.
    pub present: u64,
    /// Files that have no build id to keep them by.
    pub without_id: u64,
    /// Files that were gone, with their process, when they were looked for.
    pub missed: u64,
    /// Files that could not be written.
    pub failed: u64,
}
