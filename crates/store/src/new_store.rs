//! A store that appears once it is whole.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::folder::file_error;
use crate::store::{Store, StoreOptions};

/// A new store, in a folder beside it until it is published. The folder is removed if it isn't.
pub struct NewStore {
    store: Store,
    to: PathBuf,
}

impl NewStore {
    /// Begins a store in `to`, which must not exist, or be empty.
    ///
    /// # Errors
    /// Fails if the folder has files, or the one beside it can't be created.
    pub fn begin(to: &Path) -> Result<Self, StoreError> {
        let has_files = fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some());
        if has_files {
            let source = std::io::ErrorKind::DirectoryNotEmpty.into();
            return Err(StoreError::File { path: to.to_owned(), source });
        }
        let mut name = OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        Ok(Self { store: open(&to.with_file_name(name))?, to: to.to_owned() })
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Removes what was written.
    ///
    /// # Errors
    /// Fails if the folder can't be created again.
    pub(crate) fn clear(&mut self) -> Result<(), StoreError> {
        self.store = open(self.store.path())?;
        Ok(())
    }

    /// Gives the store its name.
    ///
    /// # Errors
    /// Fails if the folder has files by now, or can't be renamed.
    pub fn publish(self) -> Result<(), StoreError> {
        fs::rename(self.store.path(), &self.to).map_err(file_error(&self.to))
    }
}

/// Opens an empty store.
fn open(path: &Path) -> Result<Store, StoreError> {
    remove(path);
    Store::open(path, StoreOptions::default())
}

fn remove(path: &Path) {
    // What isn't there can't be removed; what can't be removed makes the next step fail.
    let _ = fs::remove_dir_all(path);
}

impl Drop for NewStore {
    fn drop(&mut self) {
        remove(self.store.path());
    }
}
