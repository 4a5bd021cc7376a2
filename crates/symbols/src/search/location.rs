//! Opens candidate files safely: a recorded path may have become a FIFO, a device or a link.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::unresolved::Unresolved;

/// Location of a candidate file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileLocation {
    /// A path on this machine.
    Path(PathBuf),
    /// A path in a running process's root folder.
    InRoot {
        /// `/proc/PID/root`.
        root: PathBuf,
        /// Path below it.
        path: PathBuf,
    },
    /// A link in `/proc/PID` to a mapped file, which may have been renamed or deleted.
    MapFile(PathBuf),
}

impl FileLocation {
    /// Whether a file there counts as the recorded one only if build id or identity match: another
    /// process may have been given the recorded process's id.
    pub(crate) const fn is_in_proc(&self) -> bool {
        !matches!(self, Self::Path(_))
    }

    /// Returns the path of this location.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) | Self::MapFile(path) => path.clone(),
            Self::InRoot { root, path } => root.join(path),
        }
    }

    /// Returns the location of a path in this file's folder; `None` if this location has no folder.
    pub(crate) fn beside(&self, path: &Path) -> Option<Self> {
        match self {
            Self::Path(at) => Some(Self::Path(at.parent()?.join(path))),
            Self::InRoot { root, path: at } => {
                Some(Self::InRoot { root: root.clone(), path: at.parent()?.join(path) })
            }
            Self::MapFile(_) => None,
        }
    }

    /// Opens a regular file, without waiting as opening a FIFO would.
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

/// Opens a file in a process's root folder. Symbolic links resolve as they do for the process.
fn open_in_root(root: &Path, path: &Path) -> io::Result<File> {
    let folder = OpenOptions::new().read(true).custom_flags(flags(OFlags::DIRECTORY)).open(root)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    // Opening a device may have effects. O_PATH checks the type without opening.
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

/// Opens a regular file, and refuses FIFOs and devices.
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
    // Flags of open(2) fit into 31 bits.
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// Returns the reason for an error of opening or reading a file.
pub(crate) fn reason(error: &io::Error) -> Unresolved {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Unresolved::NotReadable,
        _ => Unresolved::NoFile,
    }
}
