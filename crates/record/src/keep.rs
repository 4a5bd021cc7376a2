//! Keeps the binaries that samples can lie in, so that samples can be symbolized after files were
//! removed or rebuilt, or if they are in another container.
//!
//! ```text
//! PERF_RECORD_MMAP2 --see--> an open file: kept alive, whatever becomes of its path
//!                                  at the end --store--> FOLDER/path/ID/elf, FOLDER/.build-id/xx/yyyy
//! ```
//! The layout is that of perf's cache (`perf-buildid-cache(1)`), which perf reads too. A file is
//! opened when the recorder reads its first mapping, which may be a flush interval after the kernel
//! wrote it. If the process has exited by then, files that only its mount namespace contains are
//! counted as missed.

mod jit;
mod store;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object::ReadCache;
use tare_format::Endian;
use tare_format::file::writer::BuildId;
use tare_format::ledger::KeptBinaries;
use tare_format::record::{FileId, Mmap, Record, Records};
use tare_kernel::file_identity::FileIdentity;
use tare_kernel::host::Host;

pub(crate) use self::jit::JitFile;
use self::store::{StorageKind, Store};
use crate::describe::elf_build_id;
use crate::process_file::{open_in_root, open_regular};

/// Limit on the files held open. Further files are opened again at the end.
const HELD: usize = 256;

/// Limit on the mapped files kept of one recording. Further ones are ignored.
const MOST: usize = 1 << 14;

/// The suffix that the kernel adds to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// The binaries of a recording, until they are stored.
#[derive(Debug)]
pub(crate) struct Binaries {
    host: Host,
    store: Store,
    seen: HashSet<(Vec<u8>, Expected)>,
    files: Vec<Binary>,
    missed: u64,
}

/// A file with code.
#[derive(Debug)]
struct Binary {
    /// The recorded path.
    path: Vec<u8>,
    /// The open file; `None` if too many are open, or if it can't be opened.
    held: Option<File>,
    at: MappedRange,
    expected: Expected,
}

/// Identifies the mapped file among all that have had its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Expected {
    Identity(FileIdentity),
    BuildId(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
struct MappedRange {
    pid: i32,
    start: u64,
    end: u64,
}

impl Binaries {
    /// Starts with no files, and creates the folder if it doesn't exist.
    ///
    /// # Errors
    /// Fails if the folder belongs to another user, if others can write to it, or if it can't be
    /// created.
    pub(crate) fn new(
        folder: &Path,
        host: Host,
        is_copying_over: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let store = Store::open(folder, is_copying_over)?;
        Ok(Self { host, store, seen: HashSet::new(), files: Vec::new(), missed: 0 })
    }

    /// Takes in whole records, and opens the files of code that were not mapped before.
    pub(crate) fn see(&mut self, records: &[u8]) {
        for record in Records::new(records, Endian::NATIVE) {
            if let Ok(Record::Mmap(mmap)) = record.decode() {
                self.see_mapping(&mmap);
            }
        }
    }

    fn see_mapping(&mut self, mmap: &Mmap<'_>) {
        let has_file = mmap.path.starts_with(b"/") && !mmap.path.starts_with(b"//");
        if mmap.is_data || mmap.pid <= 0 || !has_file || self.files.len() >= MOST {
            return;
        }
        let expected = match mmap.file {
            FileId::Inode { major, minor, inode, generation } if inode != 0 => {
                Expected::Identity(FileIdentity { device: (major, minor), inode, generation })
            }
            FileId::BuildId(id) if !id.is_empty() => Expected::BuildId(id.to_vec()),
            _ => return,
        };
        if !self.seen.insert((mmap.path.to_vec(), expected.clone())) {
            return;
        }
        let at = MappedRange {
            pid: mmap.pid,
            start: mmap.start,
            end: mmap.start.saturating_add(mmap.len),
        };
        let path = mmap.path.to_vec();
        let mut binary = Binary { path, held: None, at, expected };
        let held = self.files.iter().filter(|binary| binary.held.is_some()).count();
        let opened = open(&self.host, &binary);
        if held < HELD {
            binary.held = opened;
        } else if opened.is_none() {
            self.missed += 1;
            return;
        }
        self.files.push(binary);
    }

    /// Replaces the entries of a list in order of paths by the ids of the open files, since a file
    /// may have left its path. A path has no entry if the open files with that path differ in their
    /// ids, or have none.
    pub(crate) fn with_build_ids(&self, mut list: Vec<BuildId>) -> Vec<BuildId> {
        let mut ids: HashMap<&[u8], Option<Vec<u8>>> = HashMap::new();
        for binary in &self.files {
            let Some(held) = &binary.held else { continue };
            let id = elf_build_id(&ReadCache::new(held));
            let known = ids.entry(&binary.path).or_insert_with(|| id.clone());
            if *known != id {
                *known = None;
            }
        }
        list.retain(|listed| !ids.contains_key(listed.path.as_bytes()));
        list.extend(ids.into_iter().filter_map(|(path, id)| {
            let path = String::from_utf8(path.to_vec()).ok()?;
            Some(BuildId { kernel: false, id: id?, path })
        }));
        list.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        list
    }

    /// Stores all binaries, the kernel's symbols, the image of the vdso, and the files of
    /// just-in-time compilers.
    pub(crate) fn store(mut self, compiled: &[JitFile]) -> KeptBinaries {
        let mut kept = KeptBinaries {
            folder: self.store.folder().display().to_string(),
            ..KeptBinaries::default()
        };
        for mut binary in std::mem::take(&mut self.files) {
            // A recorded build id, other than an identity, rejects a file that was overwritten in
            // place since its mapping.
            let held = binary.held.take().filter(|held| is_expected(held, &binary.expected));
            let file = held.or_else(|| open(&self.host, &binary));
            match file.map(|file| self.store.binary(&binary.path, &file)) {
                Some(Ok(stored)) => count(&mut kept, stored),
                Some(Err(_)) => kept.failed += 1,
                None => self.missed += 1,
            }
        }
        for stored in self.store.kernel(&self.host) {
            count(&mut kept, stored);
        }
        for file in compiled {
            match jit::store(&self.store, &self.host, file) {
                Some(Ok(stored)) => count(&mut kept, stored),
                Some(Err(_)) => kept.failed += 1,
                None => {}
            }
        }
        kept.missed = self.missed;
        kept
    }
}

fn count(kept: &mut KeptBinaries, stored: StorageKind) {
    match stored {
        StorageKind::Copied(bytes) => {
            kept.files += 1;
            kept.copied_bytes += bytes;
        }
        StorageKind::Shared => kept.files += 1,
        StorageKind::Present => kept.present += 1,
        StorageKind::NoId => kept.without_id += 1,
    }
}

/// Opens the mapped file if it is found: at its path here or below the process's root, through the
/// process's `map_files`, or as its `exe`.
fn open(host: &Host, binary: &Binary) -> Option<File> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = binary.path.strip_suffix(DELETED).unwrap_or(&binary.path);
    let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
    let MappedRange { pid, start, end } = binary.at;
    let process = PathBuf::from(format!("/proc/{pid}"));
    let here = || host.path(path.to_str()?).to_str().map(PathBuf::from);
    let is_it = |file: &File| is_expected(file, &binary.expected);
    let by_path = |path: PathBuf| open_regular(&path).ok();
    None.or_else(|| by_path(here()?).filter(is_it))
        .or_else(|| open_in_root(&process.join("root"), path).ok().filter(is_it))
        .or_else(|| by_path(process.join(format!("map_files/{start:x}-{end:x}"))).filter(is_it))
        .or_else(|| by_path(process.join("exe")).filter(is_it))
}

fn is_expected(file: &File, expected: &Expected) -> bool {
    match expected {
        Expected::Identity(identity) => identity.is_of(file),
        Expected::BuildId(id) => {
            file.metadata().is_ok_and(|meta| meta.is_file())
                && elf_build_id(&ReadCache::new(file)).is_some_and(|found| found == *id)
        }
    }
}
