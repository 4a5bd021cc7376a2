//! Lists the files that results came from. Packed, they give the same results on another machine.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::dso::BuildId;
use crate::search::SymbolOptions;
use crate::search::folders::build_id_path;

/// The list of used files. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct UsedFiles(Arc<Mutex<Vec<UsedFile>>>);

impl PartialEq for UsedFiles {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UsedFiles {}

/// A file that was used.
#[derive(Debug)]
pub struct UsedFile {
    /// Path in the archive, where [`SymbolOptions::symfs`] is `root` and
    /// [`SymbolOptions::build_id_cache`] is `.debug`.
    pub name: PathBuf,
    /// The file.
    pub content: UsedContent,
    /// Path on this machine, by which `note_beside` finds this file; may be empty.
    path: PathBuf,
}

/// Content of a used file.
#[derive(Debug)]
pub enum UsedContent {
    /// An open file.
    File(File),
    /// Bytes in memory: of the vDSO, or of a text of the kernel.
    Bytes(Vec<u8>),
}

impl UsedFiles {
    /// Removes and returns the files, each once.
    #[must_use]
    pub fn take(&self) -> Vec<UsedFile> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a file that symbols don't come from.
    pub fn add(&self, name: PathBuf, content: UsedContent) {
        self.note(name, Path::new(""), content);
    }

    fn note(&self, name: PathBuf, path: &Path, content: UsedContent) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.iter().all(|known| known.name != name) {
            files.push(UsedFile { name, content, path: path.to_owned() });
        }
    }

    /// Returns the archive path of a used file.
    fn name_of(&self, path: &Path) -> Option<PathBuf> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().find(|known| known.path == path).map(|known| known.name.clone())
    }
}

impl SymbolOptions {
    /// Adds a file under its build id, with perf's names: `elf`, `debug`, `vdso`, `kallsyms`.
    pub(crate) fn note_by_id(
        &self,
        id: BuildId,
        kind: &str,
        path: &Path,
        content: impl FnOnce() -> Option<UsedContent>,
    ) {
        let name = build_id_path(Path::new(".debug"), id, &format!("/{kind}"));
        self.note_as(name, path, content);
    }

    /// Adds a file under its own path.
    pub(crate) fn note_at(&self, path: &Path, content: impl FnOnce() -> Option<UsedContent>) {
        let below = path.strip_prefix(&self.symfs).or_else(|_| path.strip_prefix("/"));
        self.note_as(Path::new("root").join(below.unwrap_or(path)), path, content);
    }

    /// Adds a file under a recorded name.
    pub(crate) fn note_recorded(
        &self,
        name: &[u8],
        path: &Path,
        content: impl FnOnce() -> Option<UsedContent>,
    ) {
        let name = Path::new(OsStr::from_bytes(name));
        let name = Path::new("root").join(name.strip_prefix("/").unwrap_or(name));
        self.note_as(name, path, content);
    }

    /// Adds a file beside another used file: under the other's name with a suffix if the files' own
    /// names differ by that suffix, else under its own name.
    pub(crate) fn note_beside(
        &self,
        near: &Path,
        path: &Path,
        content: impl FnOnce() -> Option<UsedContent>,
    ) {
        let Some(known) = self.used.as_ref().and_then(|used| used.name_of(near)) else { return };
        let [near_name, name] = [near, path].map(|path| path.file_name().unwrap_or_default());
        let behind = name.as_encoded_bytes().strip_prefix(near_name.as_encoded_bytes());
        let name = match behind.and_then(|behind| std::str::from_utf8(behind).ok()) {
            Some(behind) => {
                let mut name = known.file_name().unwrap_or_default().to_owned();
                name.push(behind);
                name
            }
            None => name.to_owned(),
        };
        self.note_as(known.with_file_name(name), path, content);
    }

    fn note_as(&self, name: PathBuf, path: &Path, content: impl FnOnce() -> Option<UsedContent>) {
        if let Some(used) = &self.used
            && let Some(content) = content()
        {
            used.note(name, path, content);
        }
    }
}

/// Returns a function that duplicates a file for the list.
pub(crate) fn file(file: &File) -> impl FnOnce() -> Option<UsedContent> + '_ {
    || file.try_clone().ok().map(UsedContent::File)
}

/// A folder with an archive's files, removed when the last copy of this value is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedFolder(Arc<Folder>);

#[derive(Debug, PartialEq, Eq)]
struct Folder(PathBuf);

impl UnpackedFolder {
    /// Takes ownership of a folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self(Arc::new(Folder(folder)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A later unpacking removes a folder that remains.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
