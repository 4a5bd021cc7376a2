//! The store's folder: each change to it is a step, at which a test may stop.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::StoreError;

/// Held by programs that write; recovery holds it alone.
const LOCK: &str = ".lock";

/// Held by the program that compacts, removes old windows or names frames.
const REWRITE_LOCK: &str = ".rewrite.lock";

/// Held by the program that makes a mirror follow its bucket.
#[cfg(feature = "s3")]
const MIRROR_LOCK: &str = ".mirror.lock";

/// Called before each change; the change fails with its error.
pub(crate) type Hook = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A store's folder on a local disk.
pub(crate) struct Folder {
    root: PathBuf,
    group_reads: bool,
    hook: Option<Hook>,
}

impl Folder {
    pub(crate) fn new(root: PathBuf, group_reads: bool, hook: Option<Hook>) -> Self {
        Self { root, group_reads, hook }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a name below the store.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the error that a test injects, if any.
    pub(crate) fn allow(&self) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook())
    }

    fn change<T>(
        &self,
        path: &Path,
        change: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.allow().and_then(|()| change()).map_err(file_error(path))
    }

    /// Creates a folder and those that lead to it.
    pub(crate) fn create_folder(&self, path: &Path) -> Result<(), StoreError> {
        let mode = if self.group_reads { 0o750 } else { 0o700 };
        self.change(path, || DirBuilder::new().recursive(true).mode(mode).create(path))
    }

    /// Creates an empty file, in place of a file of this name.
    pub(crate) fn create_file(&self, path: &Path) -> Result<File, StoreError> {
        let mode = if self.group_reads { 0o640 } else { 0o600 };
        self.change(path, || {
            // A remnant might be a link.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
        })
    }

    pub(crate) fn sync_file(&self, path: &Path, file: &File) -> Result<(), StoreError> {
        self.change(path, || file.sync_all())
    }

    /// Makes changes of names in a folder durable.
    pub(crate) fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.change(path, || File::open(path)?.sync_all())
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.change(to, || fs::rename(from, to))
    }

    /// Removes a file if it exists.
    pub(crate) fn remove_file(&self, path: &Path) -> Result<(), StoreError> {
        self.change(path, || match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        })
    }

    /// Removes folders that are empty, from the inner ones outwards.
    pub(crate) fn remove_empty_folders(&self, paths: &[PathBuf]) {
        for path in paths {
            let below = path.ancestors().take_while(|path| *path != self.root);
            for folder in below {
                if self.change(folder, || fs::remove_dir(folder)).is_err() {
                    break;
                }
            }
        }
    }

    /// Takes the lock of writers: shared to write, alone for recovery. Returns `None` if other
    /// programs hold it and the operation doesn't wait.
    pub(crate) fn lock(&self, operation: FlockOperation) -> Result<Option<File>, StoreError> {
        self.lock_file(LOCK, operation)
    }

    /// Takes the lock of programs that replace or remove files.
    ///
    /// # Errors
    /// Fails if another program holds it.
    pub(crate) fn lock_rewriting(&self) -> Result<File, StoreError> {
        let lock = self.lock_file(REWRITE_LOCK, FlockOperation::NonBlockingLockExclusive)?;
        lock.ok_or_else(|| StoreError::Locked(self.root.clone()))
    }

    /// Takes the lock of a mirror, and waits for it.
    #[cfg(feature = "s3")]
    pub(crate) fn lock_mirror(&self) -> Result<File, StoreError> {
        let lock = self.lock_file(MIRROR_LOCK, FlockOperation::LockExclusive)?;
        lock.ok_or_else(|| StoreError::Locked(self.root.clone()))
    }

    fn lock_file(&self, name: &str, operation: FlockOperation) -> Result<Option<File>, StoreError> {
        let path = self.path(name);
        let mode = if self.group_reads { 0o640 } else { 0o600 };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(mode);
        let file = match options.open(&path) {
            // The store was removed while it was used.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create_folder(&self.root)?;
                options.open(&path)
            }
            opened => opened,
        };
        let file = file.map_err(file_error(&path))?;
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(file_error(&path)(error.into())),
        }
    }
}

pub(crate) fn file_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    |source| StoreError::File { path, source }
}
