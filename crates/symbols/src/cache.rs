//! What was looked up before, on disk, by build id: a file's symbols, and what debug info said of
//! its addresses.
//!
//! ```text
//! FOLDER/BUILDID.symbols           all symbols of a file, where names are as in source code
//! FOLDER/BUILDID.mangled-symbols   the same where they are not
//! FOLDER/BUILDID.lines             answers to addresses that were asked for
//! ```
//! A build id says which file it is, and a debug file has that of its binary: what is kept holds
//! wherever the file lies, and also when it is gone. Only what is whole is kept: symbols of a full
//! table, and answers where no part of the debug info was missing. Files are read in part, written
//! beside the old ones and put in their place; of those who write at once, the last one stays.
//! Nobody but the reader can write there, so that names are believed.

mod blocks;
mod lines;
mod symbols;

use std::fs::{File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blocks::Blocks;
pub(crate) use lines::{KeptAnswers, MergedAnswers, NewAnswers};
pub(crate) use symbols::KeptTable;

use crate::dso::BuildId;
use crate::table::Table;

/// What a file holds.
const SYMBOLS: u64 = 1;
const MANGLED_SYMBOLS: u64 = 2;
const LINES: u64 = 3;

/// A table with fewer symbols is read from its own file as fast.
const FEWEST_SYMBOLS: usize = 1 << 11;

/// A file that was used has the time of its use, this exact.
const USED: Duration = Duration::from_secs(3600);

/// A temporary file this old is left from a program that was killed.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// Files of the folder that are looked at.
const FILES: usize = 1 << 16;

/// Where what was looked up is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolCache {
    /// A folder that is there, of the reader alone (mode 0700).
    pub folder: PathBuf,
    /// Bytes of all its files; of more, those go that weren't used for longest.
    pub most_bytes: u64,
    /// The reader, whose files they are.
    pub uid: u32,
}

impl SymbolCache {
    /// The size that the folder has unless told otherwise.
    pub const MOST_BYTES: u64 = 512 << 20;

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
        note_use(blocks.file());
        Some(blocks)
    }

    /// The symbols of a file.
    pub(crate) fn table(&self, build_id: BuildId, demangled: bool) -> Option<KeptTable> {
        let (path, kind) = self.symbols(build_id, demangled);
        self.open(&path, kind).map(KeptTable::new)
    }

    /// Keeps the symbols of a file, unless there are few.
    pub(crate) fn keep_table(&self, build_id: BuildId, demangled: bool, table: &Table) {
        if table.len() < FEWEST_SYMBOLS {
            return;
        }
        if let Some(tables) = symbols::tables(table) {
            let (path, kind) = self.symbols(build_id, demangled);
            self.write(&path, kind, &tables);
        }
    }

    /// Removes a file's symbols, which are damaged.
    pub(crate) fn forget_table(&self, build_id: BuildId, demangled: bool) {
        let _ = std::fs::remove_file(self.symbols(build_id, demangled).0);
    }

    /// What debug info said of a file's addresses.
    pub(crate) fn answers(&self, build_id: BuildId) -> Option<KeptAnswers> {
        self.open(&self.path(build_id, "lines"), LINES).map(KeptAnswers::new)
    }

    /// Keeps further answers, beside those that were kept since the cache was read.
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
        // Without a cache the next reader looks everything up again.
        if Blocks::write(path, kind, tables.each_ref().map(Vec::as_slice)).is_ok() {
            self.sweep(path);
        }
    }

    /// Removes files that were used least lately, until the others have room, and what programs that
    /// were killed left.
    fn sweep(&self, just_written: &Path) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let now = SystemTime::now();
        let mut files = Vec::new();
        let mut bytes = 0_u64;
        for entry in entries.filter_map(Result::ok).take(FILES) {
            let Ok(meta) = entry.metadata() else { continue };
            let path = entry.path();
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_temporary = path.as_os_str().as_bytes().ends_with(b".tmp");
            let age = now.duration_since(used).unwrap_or_default();
            if is_temporary && age > LEFT {
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
            if bytes <= self.most_bytes {
                return;
            }
            bytes = bytes.saturating_sub(size);
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Says that a file was used, by its time of modification: file systems seldom keep that of reading.
fn note_use(file: &File) {
    let now = SystemTime::now();
    let used = file.metadata().and_then(|meta| meta.modified());
    if used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > USED)) {
        let _ = file.set_times(FileTimes::new().set_modified(now));
    }
}

#[cfg(test)]
mod tests;
