//! A folder of files by build id, in the layout of perf's cache, and of files of just-in-time
//! compilers by process. New folders and copies in it are only for the user.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object::ReadCache;
use rustix::fs::{AtFlags, CWD, SeekFrom};
use rustix::io::Errno;
use tare_format::hex;
use tare_kernel::host::Host;

use crate::describe::{elf_build_id, kernel_build_id, vdso_image};

/// Limit on the bytes of a kept file, not counting holes.
pub(super) const LARGEST: u64 = 1 << 32;

/// Bytes that are copied before the next look whether copying is over.
const AT_ONCE: u64 = 16 << 20;

/// The folder of kept files.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    is_copying_over: Arc<AtomicBool>,
}

/// How a file was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageKind {
    /// Copied; the number of bytes.
    Copied(u64),
    /// Shares its blocks or its inode with the original.
    Shared,
    /// Was stored before.
    Present,
    /// Has no build id, so it can't be stored.
    NoId,
}

impl Store {
    /// Opens the folder, and creates it if it doesn't exist.
    pub(super) fn open(folder: &Path, is_copying_over: &Arc<AtomicBool>) -> io::Result<Self> {
        make_folder(folder)?;
        let meta = std::fs::metadata(folder)?;
        let user = rustix::process::geteuid().as_raw();
        if meta.uid() != user || meta.mode() & 0o022 != 0 {
            let whose =
                if meta.uid() == user { "others can write to it" } else { "it is another user's" };
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, whose));
        }
        Ok(Self { folder: folder.to_owned(), is_copying_over: Arc::clone(is_copying_over) })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores a binary that was mapped from a path.
    pub(super) fn binary(&self, path: &[u8], file: &File) -> io::Result<StorageKind> {
        let Some(id) = elf_build_id(&ReadCache::new(file)) else { return Ok(StorageKind::NoId) };
        let name = relative(path);
        self.put(&name, &id, "elf", |to| {
            if rustix::fs::ioctl_ficlone(to, file).is_ok() {
                return Ok(StorageKind::Shared);
            }
            let bytes = copy_data(file, to, &self.is_copying_over)?;
            // The file may have changed during the copy.
            let copied = elf_build_id(&ReadCache::new(to));
            if copied.as_ref() == Some(&id) {
                Ok(StorageKind::Copied(bytes))
            } else {
                Err(io::ErrorKind::InvalidData.into())
            }
        })
        .or_else(|error| self.link(&name, &id, file).map_err(|_| error))
    }

    /// Stores the kernel's symbols and the vdso, as far as they can be read.
    pub(super) fn kernel(&self, host: &Host) -> Vec<StorageKind> {
        let name = Path::new("[kernel.kallsyms]");
        let symbols = || {
            let id = kernel_build_id(host)?;
            if self.place(name, &id, "kallsyms").ok()?.1.exists() {
                return Some(StorageKind::Present);
            }
            let text = std::fs::read(host.path("/proc/kallsyms")).ok()?;
            // The kernel hides addresses from unprivileged users: all are 0.
            let is_hidden = text.split(|byte| *byte == b' ').next()?.iter().all(|b| *b == b'0');
            let stored = || self.put(name, &id, "kallsyms", bytes(&text));
            if is_hidden { None } else { stored().ok() }
        };
        let vdso = || {
            let image = vdso_image()?;
            let id = elf_build_id(&image[..])?;
            self.put(Path::new("[vdso]"), &id, "vdso", bytes(&image)).ok()
        };
        [symbols(), vdso()].into_iter().flatten().collect()
    }

    /// Stores the file of a just-in-time compiler, as it is now.
    pub(super) fn jit(&self, process: &str, name: &str, file: &File) -> io::Result<StorageKind> {
        let folder = self.folder.join("jit").join(process);
        make_folder(&folder)?;
        let beside = folder.join(format!("{name}.{}", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let mut open = OpenOptions::new();
        let to = open.write(true).create_new(true).mode(0o600).open(&beside)?;
        let copied = copy_data(file, &to, &self.is_copying_over)
            .and_then(|bytes| std::fs::rename(&beside, folder.join(name)).map(|()| bytes));
        copied.map(StorageKind::Copied).inspect_err(|_| drop(std::fs::remove_file(&beside)))
    }

    /// Writes a new file with `fill` and moves it into place, unless it exists, and links it by
    /// build id.
    fn put(
        &self,
        name: &Path,
        id: &[u8],
        kind: &str,
        fill: impl FnOnce(&File) -> io::Result<StorageKind>,
    ) -> io::Result<StorageKind> {
        let (folder, path) = self.place(name, id, kind)?;
        if path.exists() {
            self.link_id(name, id)?;
            return Ok(StorageKind::Present);
        }
        let beside = folder.join(format!("{kind}.{}", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let mut open = OpenOptions::new();
        let file = open.read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
        let stored = fill(&file).and_then(|stored| {
            std::fs::rename(&beside, &path)?;
            Ok(stored)
        });
        let stored = stored.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
        self.link_id(name, id)?;
        Ok(stored)
    }

    /// Hard-links the file itself, for use when a copy fails. Refuses a file for which any user has
    /// write permission.
    fn link(&self, name: &Path, id: &[u8], file: &File) -> io::Result<StorageKind> {
        if file.metadata()?.mode() & 0o222 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (_, path) = self.place(name, id, "elf")?;
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, open, CWD, &path, AtFlags::SYMLINK_FOLLOW)?;
        self.link_id(name, id)?;
        Ok(StorageKind::Shared)
    }

    fn place(&self, name: &Path, id: &[u8], kind: &str) -> io::Result<(PathBuf, PathBuf)> {
        let folder = self.folder.join(name).join(hex(id));
        make_folder(&folder)?;
        let path = folder.join(kind);
        Ok((folder, path))
    }

    /// Creates the link `.build-id/xx/yyyy` to the folder of a file.
    fn link_id(&self, name: &Path, id: &[u8]) -> io::Result<()> {
        let digits = hex(id);
        let (front, rest) = digits.split_at(2);
        let folder = self.folder.join(".build-id").join(front);
        make_folder(&folder)?;
        let target = Path::new("../..").join(name).join(&digits);
        match std::os::unix::fs::symlink(target, folder.join(rest)) {
            // The same build was stored before, maybe under another path: either will do.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    }
}

/// Copies what a file has besides holes, up to its current length. Returns the bytes.
///
/// # Errors
/// Fails if these are more than [`LARGEST`], if copying is over, and if reading or writing fails.
fn copy_data(mut from: &File, mut to: &File, is_over: &AtomicBool) -> io::Result<u64> {
    let length = from.metadata()?.len();
    let mut copied = 0;
    let mut at = 0;
    while at < length {
        let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            // The file system doesn't tell holes.
            Err(_) => at,
        };
        let hole = rustix::fs::seek(from, SeekFrom::Hole(data)).unwrap_or(length).min(length);
        let hole = hole.min(data.saturating_add(AT_ONCE));
        let bytes = hole.saturating_sub(data);
        if is_over.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if copied + bytes > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        from.seek(io::SeekFrom::Start(data))?;
        to.seek(io::SeekFrom::Start(data))?;
        let done = io::copy(&mut from.take(bytes), &mut to)?;
        copied += done;
        if done < bytes || bytes == 0 {
            break;
        }
        at = hole;
    }
    to.set_len(length)?;
    Ok(copied)
}

fn bytes(content: &[u8]) -> impl FnOnce(&File) -> io::Result<StorageKind> + '_ {
    |mut to| to.write_all(content).map(|()| StorageKind::Copied(content.len() as u64))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Turns a recorded path into one below the folder.
fn relative(path: &[u8]) -> PathBuf {
    let parts = Path::new(OsStr::from_bytes(path)).components();
    parts.filter(|part| matches!(part, Component::Normal(_))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_keep_holes_and_leave_out_what_is_appended_later() {
        let from = tempfile::tempfile().unwrap();
        let to = tempfile::tempfile().unwrap();
        let length = 1 << 40;
        from.set_len(length).unwrap();
        rustix::io::pwrite(&from, b"begin", 0).unwrap();
        rustix::io::pwrite(&from, b"middle", 1 << 39).unwrap();
        let copied = copy_data(&from, &to, &AtomicBool::new(false)).unwrap();
        if from.metadata().unwrap().blocks() > 1 << 20 {
            return println!("skipped: no holes here");
        }
        assert!(copied < 1 << 20, "{copied} bytes");
        assert_eq!(to.metadata().unwrap().len(), length);
        let mut found = [0; 6];
        rustix::io::pread(&to, &mut found, 1 << 39).unwrap();
        assert_eq!(&found, b"middle");
    }

    #[test]
    fn a_copy_ends_when_copying_is_over() {
        let from = File::open(std::env::current_exe().unwrap()).unwrap();
        let to = tempfile::tempfile().unwrap();
        let ended = copy_data(&from, &to, &AtomicBool::new(true));
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(to.metadata().unwrap().len(), 0);
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &Arc::new(AtomicBool::new(true))).unwrap();
        store.jit("1-2", "jit-1.dump", &from).unwrap_err();
        let left = std::fs::read_dir(folder.path().join("jit/1-2")).unwrap().count();
        assert_eq!(left, 0, "of a copy that was not finished");
    }

    #[test]
    fn a_copy_is_whole() {
        let whole = std::env::current_exe().unwrap();
        let from = File::open(&whole).unwrap();
        let to = tempfile::NamedTempFile::new().unwrap();
        copy_data(&from, to.as_file(), &AtomicBool::new(false)).unwrap();
        assert!(std::fs::read(whole).unwrap() == std::fs::read(to.path()).unwrap());
    }
}
