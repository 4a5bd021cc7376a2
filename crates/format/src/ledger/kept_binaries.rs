//! The binaries that a recording kept.

use serde::{Deserialize, Serialize};

/// The copies that `--keep-binaries` made of mapped files, and the files that it could not copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeptBinaries {
    /// The folder of the copies, in the layout of perf's cache of build ids.
    pub folder: String,
    /// Number of added files.
    pub files: u64,
    /// Bytes of the added files, without those that share their blocks with the original.
    pub copied_bytes: u64,
    /// Number of files that the folder already had.
    pub present: u64,
    /// Number of files without a build id, which the folder can't hold.
    pub without_id: u64,
    /// Number of files that had disappeared, with their process, before they could be copied.
    pub missed: u64,
    /// Number of files that could not be written.
    pub failed: u64,
}
