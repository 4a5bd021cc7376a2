//! Opening what may be the wanted file, and nothing else: a path of a recording may by now name a
//! FIFO, a device or a link to anywhere.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::unresolved::Unresolved;

/// Where a file may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileLocation {
    /// At a path here.
    Path(PathBuf),
    /// At a path in a running process's root folder.
    InRoot {
        /// `/proc/PID/root`.
        root: PathBuf,
        /// Below it.
        path: PathBuf,
    },
    /// A link of `/proc/PID` to what it has mapped, whatever its name is now.
    MapFile(PathBuf),
}

impl FileLocation {
    /// Whether a file there is believed only if its build id or its inode is the recorded one: a
    /// process ends, and another gets its number.
    pub(crate) const fn wants_proof(&self) -> bool {
        !matches!(self, Self::Path(_))
    }

    /// What the place is called, and what other files may lie beside.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) | Self::MapFile(path) => path.clone(),
            Self::InRoot { root, path } => root.join(path),
        }
    }

    /// The same place in another file's folder; `None` where it has no folder.
    pub(crate) fn beside(&self, path: &Path) -> Option<Self> {
        match self {
            Self::Path(at) => Some(Self::Path(at.parent()?.join(path))),
            Self::InRoot { root, path: at } => {
                Some(Self::InRoot { root: root.clone(), path: at.parent()?.join(path) })
            }
            Self::MapFile(_) => None,
        }
    }

    /// Opens a regular file there. It never waits, as a FIFO would make it.
    pub(crate) fn open(&self) -> Result<File, Unresolved> {
        match self {
            Self::Path(path) | Self::MapFile(path) => open(path),
            Self::InRoot { root, path } => {
                let opened = open_in_root(root, path).map_err(|error| reason(&error))?;
                regular(opened)
            }
        }
    }
}

/// Opens a file as a process sees it: links in its folders lead to what they lead to for the
/// process.
fn open_in_root(root: &Path, path: &Path) -> io::Result<File> {
    let folder = OpenOptions::new().read(true).custom_flags(flags(OFlags::DIRECTORY)).open(root)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    // The first look opens nothing: opening a device may have effects.
    let looked = rustix::fs::openat2(
        &folder,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    )?;
    if !File::from(looked).metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let opened = rustix::fs::openat2(&folder, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    Ok(File::from(opened))
}

/// Opens a regular file: a recorded path may name a FIFO or a device by now.
pub(crate) fn open(path: &Path) -> Result<File, Unresolved> {
    let meta = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if !meta.is_file() {
        return Err(Unresolved::NoFile);
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlags::NONBLOCK | OFlags::NOCTTY))
        .open(path)
        .map_err(|error| reason(&error))?;
    regular(opened)
}

fn regular(file: File) -> Result<File, Unresolved> {
    let meta = file.metadata().map_err(|error| reason(&error))?;
    if meta.is_file() { Ok(file) } else { Err(Unresolved::NoFile) }
}

fn flags(flags: OFlags) -> i32 {
    // The flags of open(2) are few bits.
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// Why a file can't be opened or read.
pub(crate) fn reason(error: &io::Error) -> Unresolved {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Unresolved::NotReadable,
        _ => Unresolved::NoFile,
    }
}
