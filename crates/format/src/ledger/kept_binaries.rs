//! The binaries that a recording kept.

use serde::{Deserialize, Serialize};

/// The files that `--keep-binaries` stored (mapped files, the kernel's symbols, the vdso, files of
/// just-in-time compilers), and those that it could not store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeptBinaries {
    /// The folder of the copies, in the layout of perf's cache of build ids.
    pub folder: String,
    /// Number of added files.
    pub files: u64,
    /// Bytes of the added files, without files that share their blocks or inode with the original.
    pub copied_bytes: u64,
    /// Number of files that the folder already had.
    pub present: u64,
    /// Number of files without a build id, which the folder can't hold.
    pub without_id: u64,
    /// Number of mapped files that could not be opened, for example because file and process had
    /// disappeared.
    pub missed: u64,
    /// Number of files that could not be copied, or that changed during the copy.
    pub failed: u64,
}
