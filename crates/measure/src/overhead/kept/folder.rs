//! A folder below the user's state directory where results are kept.
//!
//! Its files are the owner's alone. Symbolic links are followed up to the state directory, which is
//! the user's business, and never below: a link there could lead what root writes anywhere.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// No file that tare keeps is longer.
const LONGEST: u64 = 16 << 20;

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system's own.
    #[error("{}: {errno}", path.display())]
    Io {
        /// What was to be opened or made.
        path: PathBuf,
        /// Why that failed.
        errno: Errno,
    },
    /// Something else has its name.
    #[error("{} is a symbolic link or a file: tare keeps results only in a folder", .0.display())]
    NotAFolder(PathBuf),
    /// Another user could change its contents.
    #[error("{} belongs to another user", .0.display())]
    OfAnother(PathBuf),
}

/// An open folder.
#[derive(Debug)]
pub struct StateFolder {
    folder: OwnedFd,
    path: PathBuf,
}

impl StateFolder {
    /// Opens the folder of this name below tare's in a state directory, and makes both where they
    /// aren't there.
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

    /// Opens the folder; none where it isn't there.
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
                return Err(FolderError::OfAnother(path));
            }
        }
        Ok(Some(Self { folder, path }))
    }

    /// The path of a file in it, to name it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file's text; none where there is no such file.
    ///
    /// # Errors
    /// The file system's own; a symbolic link is refused.
    pub fn read(&self, name: &str) -> io::Result<Option<String>> {
        // Not blocking: a named pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Puts a file in its place, whole or not at all.
    ///
    /// # Errors
    /// The file system's own.
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

    /// Takes a file away; it may be gone.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }

    /// The names of the files in it, sorted.
    ///
    /// # Errors
    /// The file system's own.
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
    fn files_are_the_owners_alone_and_replaced_whole() {
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
    fn links_lead_nowhere() {
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
