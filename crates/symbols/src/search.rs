//! Finds the files that a recording names, and their debug files.
//!
//! ```text
//! recorded DSO --folders--> locations --location--> open regular files --find--> the recorded file
//! ```

pub(crate) mod find;
mod folders;
mod kernel;
pub(crate) mod location;
pub(crate) mod used;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::SymbolCache;
use crate::debuginfod::Debuginfod;
use crate::limits;
pub(crate) use crate::search::location::open;
use crate::search::location::reason;
pub use crate::search::used::{UnpackedFolder, UsedContent, UsedFile, UsedFiles};
use crate::unresolved::Unresolved;

/// Where to look for symbols, and how to name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOptions {
    /// Root folder of recorded paths, and of `/proc` and `/sys`.
    pub symfs: PathBuf,
    /// The folder of `.build-id/xx/yyyy/`, usually `~/.debug`: files kept by `perf` or `tare record
    /// --keep-binaries` (`perf-buildid-cache(1)`).
    pub build_id_cache: Option<PathBuf>,
    /// Folders of separate debug files that the user named, searched by build id and by path before
    /// [`field@Self::debug_folders`], and last by name.
    pub debug_dirs: Vec<PathBuf>,
    /// Folders of separate debug files below [`Self::symfs`], searched by build id and by path.
    pub debug_folders: Vec<PathBuf>,
    /// Cache folder of debuginfod clients: `ID/debuginfo`, `ID/executable`
    /// (debuginfod-client-config(7)).
    pub debuginfod_cache: Option<PathBuf>,
    /// Servers to ask for files that no folder has.
    pub debuginfod: Option<SharedDebuginfod>,
    /// Whether servers are asked for debug info, too, which has lines and inlined functions, or only
    /// for files with names.
    pub lines_from_servers: bool,
    /// Whether the user has set debuginfod's servers (`DEBUGINFOD_URLS`), asked or not.
    pub has_debuginfod_urls: bool,
    /// A file with the recorded kernel's symbols in the format of `/proc/kallsyms`, which it
    /// replaces.
    pub kallsyms: Option<PathBuf>,
    /// The recorded kernel's ELF file, with symbols and lines.
    pub vmlinux: Option<PathBuf>,
    /// Path of a copy of `/proc/kallsyms`, with mode 0600, in an existing folder. The kernel takes
    /// about 40 ms to generate the list. `None`: no copy.
    pub kallsyms_copy: Option<PathBuf>,
    /// Cache of results for later runs, if any.
    pub cache: Option<SymbolCache>,
    /// The reading user's id. Files of just-in-time compilers are trusted if this user, root or the
    /// recorded process's user owns them.
    pub reader_uid: u32,
    /// Whether to demangle names.
    pub demangle: bool,
    /// List of the files that results come from, debug files included.
    pub used: Option<UsedFiles>,
    /// A folder to remove once the last copy of these options is dropped.
    pub unpacked: Option<UnpackedFolder>,
}

/// A debuginfod client that all readers share.
#[derive(Clone, Debug)]
pub struct SharedDebuginfod(pub Arc<Debuginfod>);

impl PartialEq for SharedDebuginfod {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedDebuginfod {}

impl Default for SymbolOptions {
    fn default() -> Self {
        Self {
            symfs: PathBuf::from("/"),
            build_id_cache: None,
            debug_dirs: Vec::new(),
            debuginfod_cache: None,
            debuginfod: None,
            lines_from_servers: true,
            has_debuginfod_urls: false,
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
            kallsyms: None,
            vmlinux: None,
            kallsyms_copy: None,
            cache: None,
            reader_uid: 0,
            demangle: true,
            used: None,
            unpacked: None,
        }
    }
}

impl SymbolOptions {
    /// Returns a recorded path, or one of `/proc` or `/sys`, below [`Self::symfs`].
    pub(crate) fn path(&self, path: &[u8]) -> PathBuf {
        self.below_symfs(Path::new(std::ffi::OsStr::from_bytes(path)))
    }

    fn below_symfs(&self, path: &Path) -> PathBuf {
        self.symfs.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns these options for a search of debug info.
    pub(crate) fn for_debug_info(&self) -> Cow<'_, Self> {
        if self.lines_from_servers || self.debuginfod.is_none() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { debuginfod: None, ..self.clone() })
    }

    /// Whether these options, unlike the others, ask no server.
    pub(crate) fn asks_servers_less(&self, others: &Self) -> bool {
        self.debuginfod.is_none() && others.debuginfod.is_some()
    }

    /// Whether recorded paths are this machine's, so that running processes may be the recorded
    /// ones.
    pub(crate) fn is_here(&self) -> bool {
        self.symfs == Path::new("/")
    }
}

/// Reads a text, at most [`limits::TEXT_BYTES`] of it.
pub(crate) fn read_text(path: &Path) -> Result<Vec<u8>, Unresolved> {
    let mut text = Vec::new();
    let file = open(path)?;
    file.take(limits::TEXT_BYTES).read_to_end(&mut text).map_err(|error| reason(&error))?;
    Ok(text)
}

/// Reads the vDSO from this process's memory: the kernel maps the same image into all processes of
/// the same ABI.
pub(crate) fn own_vdso() -> Result<Vec<u8>, Unresolved> {
    const LARGEST: u64 = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| reason(&error))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or(Unresolved::NoFile)?;
    let range =
        line.split(' ').next().and_then(|range| range.split_once('-')).ok_or(Unresolved::NoFile)?;
    let [start, end] =
        [range.0, range.1].map(|digits| u64::from_str_radix(digits, 16).unwrap_or(0));
    let mut image = vec![0; usize::try_from(end.saturating_sub(start).min(LARGEST)).unwrap_or(0)];
    let memory = File::open("/proc/self/mem").map_err(|error| reason(&error))?;
    memory.read_exact_at(&mut image, start).map_err(|error| reason(&error))?;
    Ok(image)
}
