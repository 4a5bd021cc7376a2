//! Results of earlier lookups, on disk by build id: the symbols of a file, and the answers of its
//! debug info.
//!
//! ```text
//! FOLDER/BUILDID.symbols           all symbols of a file, chosen by demangled names
//! FOLDER/BUILDID.mangled-symbols   all symbols of a file, chosen by mangled names
//! FOLDER/BUILDID.lines             answers of debug info by address
//! ```
//! A build id identifies a file, and a debug file has the build id of its binary. So an entry is
//! valid wherever the file is, and even after it was deleted. Only complete results are kept:
//! symbols of a full table, and answers for which no part of the debug info was missing. Entries
//! are read in part. A new entry is written to a temporary file and renamed over the old one; if
//! several processes write at once, the last one wins. Only the user can write to the folder, so
//! entries are checked for damage, not for forgery.

mod blocks;
mod lines;
mod symbols;

use std::fs::{File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blocks::Blocks;
pub(crate) use lines::{AnswerMerge, KeptAnswers, NewAnswers};
pub(crate) use symbols::KeptTable;

use crate::dso::BuildId;
use crate::table::SymbolTable;

/// Kinds of files.
const SYMBOLS: u64 = 1;
const MANGLED_SYMBOLS: u64 = 2;
const LINES: u64 = 3;

/// A table with fewer symbols isn't kept: it is read from the ELF file as fast.
const MIN_SYMBOLS: usize = 1 << 11;

/// Precision of a file's time of last use: it is updated if it is older.
const USE_PRECISION: Duration = Duration::from_secs(3600);

/// Age from which on a temporary file is a leftover of a killed process.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);

/// Limit on the files of the folder that a sweep examines.
const MAX_SWEPT_FILES: usize = 1 << 16;

/// A cache of lookup results on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolCache {
    /// An existing folder that only the user can access (mode 0700).
    pub folder: PathBuf,
    /// Limit on the bytes of all files. Above it, the least recently used files are removed.
    pub max_bytes: u64,
    /// Id of the user who must own all files.
    pub uid: u32,
}

impl SymbolCache {
    /// Default for [`Self::max_bytes`].
    pub const DEFAULT_MAX_BYTES: u64 = 512 << 20;

    fn path(&self, build_id: BuildId, end: &str) -> PathBuf {
        self.folder.join(format!("{build_id}.{end}"))
    }

    fn symbols(&self, build_id: BuildId, demangled: bool) -> (PathBuf, u64) {
        let (end, kind) =
            if demangled { ("symbols", SYMBOLS) } else { ("mangled-symbols", MANGLED_SYMBOLS) };
        (self.path(build_id, end), kind)
    }

    fn open(&self, path: &Path, kind: u64) -> Option<Blocks> {
        let blocks = Blocks::open(path, kind, self.uid)?;
        update_time_of_use(blocks.file());
        Some(blocks)
    }

    /// Opens the kept symbols of a file.
    pub(crate) fn table(&self, build_id: BuildId, demangled: bool) -> Option<KeptTable> {
        let (path, kind) = self.symbols(build_id, demangled);
        self.open(&path, kind).map(KeptTable::new)
    }

    /// Keeps the symbols of a file, unless the table is small or too large.
    pub(crate) fn keep_table(&self, build_id: BuildId, demangled: bool, table: &SymbolTable) {
        if table.len() < MIN_SYMBOLS {
            return;
        }
        if let Some(tables) = symbols::tables(table) {
            let (path, kind) = self.symbols(build_id, demangled);
            self.write(&path, kind, &tables);
        }
    }

    /// Removes the damaged symbols of a file.
    pub(crate) fn remove_table(&self, build_id: BuildId, demangled: bool) {
        let _ = std::fs::remove_file(self.symbols(build_id, demangled).0);
    }

    /// Opens the kept answers of a file.
    pub(crate) fn answers(&self, build_id: BuildId) -> Option<KeptAnswers> {
        self.open(&self.path(build_id, "lines"), LINES).map(KeptAnswers::new)
    }

    /// Merges new answers with those in the cache and stores both.
    pub(crate) fn keep_answers(&self, build_id: BuildId, mut new: NewAnswers) {
        if new.is_empty() {
            return;
        }
        if let Some(old) = self.answers(build_id) {
            new.add_old(&old);
        }
        self.write(&self.path(build_id, "lines"), LINES, &new.tables());
    }

    fn write(&self, path: &Path, kind: u64, tables: &[Vec<u8>; 4]) {
        // If writing fails, the next run looks the new results up again.
        if Blocks::write(path, kind, tables.each_ref().map(Vec::as_slice)).is_ok() {
            self.sweep(path);
        }
    }

    /// Removes the least recently used files until the rest is within the limit, but not the one
    /// just written. Removes leftovers of killed processes.
    fn sweep(&self, just_written: &Path) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let now = SystemTime::now();
        let mut files = Vec::new();
        let mut bytes = 0_u64;
        for entry in entries.filter_map(Result::ok).take(MAX_SWEPT_FILES) {
            let Ok(meta) = entry.metadata() else { continue };
            let path = entry.path();
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_temporary = path.as_os_str().as_bytes().ends_with(b".tmp");
            let age = now.duration_since(used).unwrap_or_default();
            if is_temporary && age > LEFTOVER_AGE {
                let _ = std::fs::remove_file(path);
            } else if meta.is_file() && !is_temporary && path != just_written {
                bytes += meta.len();
                files.push((used, meta.len(), path));
            } else {
                bytes += meta.len();
            }
        }
        files.sort();
        for (_, size, path) in files {
            if bytes <= self.max_bytes {
                return;
            }
            bytes = bytes.saturating_sub(size);
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Sets a file's time of modification to now, if it is older than [`USE_PRECISION`]. The access
/// time wouldn't do: a mount with `noatime` never updates it.
fn update_time_of_use(file: &File) {
    let now = SystemTime::now();
    let used = file.metadata().and_then(|meta| meta.modified());
    if used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > USE_PRECISION)) {
        let _ = file.set_times(FileTimes::new().set_modified(now));
    }
}

#[cfg(test)]
mod tests;
