//! A folder for results below the user's state directory.
//!
//! Only the owner can read its files. Symbolic links are followed up to the state directory, which
//! the user controls, but not below: there a link could redirect what root writes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Maximum number of bytes read from a file.
const MAX_BYTES: u64 = 16 << 20;

/// The reason why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder can't be opened or created.
    #[error("{}: {errno}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The file system's error.
        errno: Errno,
    },
    /// A file or symbolic link has the folder's name.
    #[error("{} is a symbolic link or a file: tare stores results only in a folder", .0.display())]
    NotAFolder(PathBuf),
    /// Another user owns the folder, and could change its contents. Root may use it nevertheless.
    #[error("{} belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
}

/// An open folder.
#[derive(Debug)]
pub struct StateFolder {
    folder: OwnedFd,
    path: PathBuf,
}

impl StateFolder {
    /// Opens the folder `tare/NAME` in a state directory, and creates both if necessary.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn make(base: &Path, name: &str) -> Result<Self, FolderError> {
        let failed = |errno| FolderError::Io { path: base.to_owned(), errno };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(base)
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Self::open(base, name, true)?.ok_or_else(|| failed(Errno::NOENT))
    }

    /// Opens the folder `tare/NAME` in a state directory; `None` if there is no such folder.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn find(base: &Path, name: &str) -> Result<Option<Self>, FolderError> {
        Self::open(base, name, false)
    }

    fn open(base: &Path, name: &str, make: bool) -> Result<Option<Self>, FolderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |path: &Path| {
            let path = path.to_owned();
            |errno| FolderError::Io { path, errno }
        };
        let mut folder = match rustix::fs::open(base, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(failed(base))?,
        };
        let mut path = base.to_owned();
        for part in ["tare", name] {
            path.push(part);
            if make {
                match mkdirat(&folder, part, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(&path)(error)),
                }
            }
            folder = match openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(FolderError::NotAFolder(path)),
                opened => opened.map_err(failed(&path))?,
            };
            let owner = rustix::fs::fstat(&folder).map_err(failed(&path))?.st_uid;
            let user = rustix::process::geteuid();
            if owner != user.as_raw() && !user.is_root() {
                return Err(FolderError::ForeignOwner(path));
            }
        }
        Ok(Some(Self { folder, path }))
    }

    /// Returns the path of a file in the folder, for messages.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads the first 16 MiB of a file; `None` if there is no such file.
    ///
    /// # Errors
    /// Fails if reading fails, the file is a symbolic link, or the text isn't UTF-8.
    pub fn read(&self, name: &str) -> io::Result<Option<String>> {
        // Non-blocking: opening a named pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Writes a file by renaming a temporary one, so that the file is replaced completely or not at
    /// all.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let new = format!(".{name}.{}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = unlinkat(&self.folder, &new, AtFlags::empty());
        let mut file = File::from(openat(&self.folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| Ok(renameat(&self.folder, &new, &self.folder, name)?));
        if written.is_err() {
            let _ = unlinkat(&self.folder, &new, AtFlags::empty());
        }
        written
    }

    /// Removes a file, if there is one.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }

    /// Returns the names of the files, sorted, without hidden ones and those that aren't UTF-8.
    ///
    /// # Errors
    /// Fails if the folder can't be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let name: OsString =
                std::os::unix::ffi::OsStringExt::from_vec(entry?.file_name().to_bytes().to_vec());
            names.extend(name.into_string().ok().filter(|name| !name.starts_with('.')));
        }
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open(base: &Path, make: bool) -> Result<Option<StateFolder>, FolderError> {
        StateFolder::open(base, "overhead", make)
    }

    #[test]
    fn files_are_private_and_replaced_completely() {
        let base = tempfile::tempdir().unwrap();
        assert!(open(base.path(), false).unwrap().is_none());
        let folder = open(base.path(), true).unwrap().unwrap();
        assert_eq!(folder.read("a").unwrap(), None);
        folder.write("a", "one").unwrap();
        folder.write("a", "two").unwrap();
        assert_eq!(
            (folder.read("a").unwrap().unwrap(), folder.names().unwrap()),
            ("two".to_owned(), vec!["a".to_owned()])
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path("a")), mode(&base.path().join("tare"))), (0o600, 0o700));
        folder.remove("a");
        assert!(folder.names().unwrap().is_empty());
    }

    #[test]
    fn links_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path(), base.path().join("tare")).unwrap();
        assert!(open(base.path(), true).unwrap_err().to_string().contains("symbolic link"));
        std::fs::remove_file(base.path().join("tare")).unwrap();
        let folder = open(base.path(), true).unwrap().unwrap();
        let target = other.path().join("target");
        std::fs::write(&target, "mine").unwrap();
        symlink(&target, folder.path("a")).unwrap();
        assert!(folder.read("a").is_err());
        folder.write("a", "new").unwrap();
        assert_eq!(
            std::fs::read_to_string(&target).unwrap(),
            "mine",
            "the link was replaced, not followed"
        );
    }
}
