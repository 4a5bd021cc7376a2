//! Files that only the user can access, and that other users can't redirect by symbolic links.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// A file that is being written. It gets its name once [`NewFile::publish`] is called, and then
/// replaces a file of that name. Until then that file stays as it is, and if the new file is
/// dropped, nothing is left of it.
///
/// Only the owner can access the file, also where another user prepared one of the same name.
/// Devices and FIFOs are written directly.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// Where the file will be; `None` if it is there already.
    pending: Option<PendingName>,
}

#[derive(Debug)]
struct PendingName {
    path: PathBuf,
    /// The file's name until then; `None` if it has none.
    temporary: Option<PathBuf>,
}

impl NewFile {
    /// Creates a file for this path. Doesn't follow a symbolic link in a folder that others can
    /// write to: it could lead to any file of the user's.
    ///
    /// # Errors
    /// Fails for such a link and for one that leads nowhere; for a folder, a FIFO without a reader,
    /// and a device or FIFO that can't be opened; for another user's FIFO in a folder that others
    /// can write to; and if no file can be created in the folder.
    pub fn create(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path);
        if let Ok(found) = &found
            && !found.is_file()
        {
            let file = open_special(path, found).map_err(|error| {
                let is_fifo = found.file_type().is_fifo();
                match Errno::from_io_error(&error) {
                    Some(Errno::NXIO) if is_fifo => {
                        io::Error::other("the FIFO has no reader: start its reader first")
                    }
                    _ => error,
                }
            })?;
            return Ok(Self { file, pending: None });
        }
        let path = resolve_link(path)?;
        let folder = folder(&path);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let unnamed = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o600));
        let (file, temporary) = match unnamed {
            Ok(file) if Path::new("/proc/self/fd").exists() => (File::from(file), None),
            Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let temporary = temporary_name(&path);
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(0o600);
                (options.open(&temporary)?, Some(temporary))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { file, pending: Some(PendingName { path, temporary }) })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Fails if the file can't be linked or renamed.
    pub fn publish(&mut self) -> io::Result<()> {
        let Some(PendingName { path, temporary }) = self.pending.take() else { return Ok(()) };
        let named = match temporary {
            Some(temporary) => temporary,
            None => {
                let temporary = temporary_name(&path);
                let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(CWD, &open, CWD, &temporary, AtFlags::SYMLINK_FOLLOW)?;
                temporary
            }
        };
        fs::rename(&named, &path).inspect_err(|_| drop(fs::remove_file(&named)))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(PendingName { temporary: Some(temporary), .. }) = &self.pending {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes to a [`NewFile`] that gets its name with the first byte, so that the user's other
/// programs can watch it grow.
#[derive(Debug)]
pub struct GrowingFile(NewFile);

impl GrowingFile {
    /// Creates the file.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn create(path: &Path) -> io::Result<Self> {
        NewFile::create(path).map(Self)
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.0.publish()?;
        }
        self.0.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates an empty file at once, in place of an existing one. Opens a device or FIFO.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::publish`].
pub fn create(path: &Path) -> io::Result<File> {
    let mut new = NewFile::create(path)?;
    new.publish()?;
    new.file.try_clone()
}

/// Opens a file to append to it, and creates a missing one. Only its owner can access a new file.
///
/// # Errors
/// Fails for a symbolic link, or for another user's file, in a folder that others can write to, and
/// if the file can't be opened.
pub fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = open(path, options.create(true).mode(0o600).append(true), OFlags::empty())?;
    let found = file.metadata()?;
    if found.is_file()
        && found.uid() != rustix::process::geteuid().as_raw()
        && others_can_write(path)
    {
        return Err(io::Error::other("the file belongs to another user: name another one"));
    }
    Ok(file)
}

/// Opens a device or FIFO for writing, without waiting for a FIFO's reader.
///
/// # Errors
/// Fails with `ENXIO` for a FIFO without a reader and for a socket, with `EISDIR` for a folder, and
/// for the FIFO of another user than root in a folder that others can write to.
pub(crate) fn open_special(path: &Path, found: &Metadata) -> io::Result<File> {
    if found.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    let is_fifo = found.file_type().is_fifo();
    let flags = if is_fifo { OFlags::NONBLOCK } else { OFlags::empty() };
    let file = open(path, OpenOptions::new().write(true), flags)?;
    let opened = file.metadata()?;
    let is_theirs = ![0, rustix::process::geteuid().as_raw()].contains(&opened.uid());
    if opened.file_type().is_fifo() && is_theirs && others_can_write(path) {
        return Err(io::Error::other("the FIFO belongs to another user: name another one"));
    }
    if is_fifo {
        // Only the open is non-blocking: writes wait for a slow reader.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    }
    Ok(file)
}

/// Resolves a symbolic link. Fails if it lies in a folder that others can write to, or leads
/// nowhere.
pub(crate) fn resolve_link(path: &Path) -> io::Result<PathBuf> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Ok(path.to_owned());
    }
    refuse_link(path)?;
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::other("a symbolic link that leads nowhere: name the file itself"))
        }
        real => real,
    }
}

/// Returns a name that other users can't guess, and create before, in a folder that all share.
fn temporary_name(path: &Path) -> PathBuf {
    let random = RandomState::new().build_hasher().finish();
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{random:016x}.tare"));
    path.with_file_name(name)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file with these options and flags. Doesn't follow a symbolic link in a folder that
/// others can write to.
///
/// # Errors
/// Fails for such a link, and if the file can't be opened.
pub fn open(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    let flags = if others_can_write(path) { flags | OFlags::NOFOLLOW } else { flags };
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if Errno::from_raw_os_error(code) == Errno::LOOP => not_followed(),
        _ => error,
    })
}

/// Checks that a path may be opened if it is a symbolic link.
///
/// # Errors
/// Fails if the link lies in a folder that others can write to.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    if others_can_write(path) { Err(not_followed()) } else { Ok(()) }
}

fn not_followed() -> io::Error {
    io::Error::other(
        "a symbolic link in a folder that others can write to is not followed: name the file itself",
    )
}

/// Whether others can write to the folder of a path: by its mode, or because another user than root
/// owns it.
fn others_can_write(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(folder(path))
        .is_ok_and(|found| found.mode() & 0o022 != 0 || ![0, own].contains(&found.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_beside_the_file_and_cannot_be_guessed() {
        let path = Path::new("/tmp/out");
        let names = [(); 2].map(|()| temporary_name(path));
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.parent() == path.parent()), "{names:?}");
    }
}
