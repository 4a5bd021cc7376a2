//! Where this machine has what a recording names.
//!
//! ```text
//! recorded DSO --folders--> places --place--> open regular files --find--> the one that was recorded
//! ```

pub(crate) mod find;
mod folders;
mod kernel;
pub(crate) mod location;
pub(crate) mod used;

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

/// Where symbols are looked for, and how they are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOptions {
    /// The folder that recorded paths begin in, and those of this machine's kernel: `/proc`, `/sys`.
    pub symfs: PathBuf,
    /// The folder of `.build-id/xx/yyyy/`: files that `perf` or `tare record --keep-binaries` kept
    /// when they were recorded (`perf-buildid-cache(1)`), mostly `~/.debug`.
    pub build_id_cache: Option<PathBuf>,
    /// Folders of separate debug files that the user named, searched before all others: by build
    /// id, by path, and by name.
    pub debug_dirs: Vec<PathBuf>,
    /// Folders of separate debug files, by build id and by path, below [`Self::symfs`].
    pub debug_folders: Vec<PathBuf>,
    /// The folder of what clients of debuginfod servers downloaded: `ID/debuginfo`,
    /// `ID/executable` (debuginfod-client-config(7)).
    pub debuginfod_cache: Option<PathBuf>,
    /// Servers that are asked for what no folder has.
    pub debuginfod: Option<SharedDebuginfod>,
    /// The recorded kernel's symbols, in the form of `/proc/kallsyms`, where they are not this
    /// machine's.
    pub kallsyms: Option<PathBuf>,
    /// The recorded kernel's own ELF file, with its symbols and lines.
    pub vmlinux: Option<PathBuf>,
    /// Where a copy of `/proc/kallsyms` is kept, a file with mode 0600: reading the list itself takes
    /// the kernel some 40 ms. Its folder must be there; `None`: no copy is kept.
    pub kallsyms_copy: Option<PathBuf>,
    /// Where what was looked up is kept for the next time; `None`: it isn't.
    pub cache: Option<SymbolCache>,
    /// The user who reads: what just-in-time compilers left is believed if it is theirs, root's, or
    /// of the user that the process had.
    pub reader_uid: u32,
    /// Names as in source code rather than as in the file.
    pub demangle: bool,
    /// Where the files are noted that answers come from, debug info among them.
    pub used: Option<UsedFiles>,
    /// The folder that is removed when these options are not needed any more.
    pub unpacked: Option<UnpackedFolder>,
}

/// A client of debuginfod servers that all readers share.
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
    /// A recorded path, or one of this machine's kernel, in the folder that they begin in.
    pub(crate) fn path(&self, path: &[u8]) -> PathBuf {
        self.below_symfs(Path::new(std::ffi::OsStr::from_bytes(path)))
    }

    fn below_symfs(&self, path: &Path) -> PathBuf {
        self.symfs.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether the recorded machine is looked for here rather than in a folder that describes it:
    /// processes that still run may be the recorded ones.
    pub(crate) fn is_here(&self) -> bool {
        self.symfs == Path::new("/")
    }
}

/// All of a text of symbols.
pub(crate) fn read_text(path: &Path) -> Result<Vec<u8>, Unresolved> {
    let mut text = Vec::new();
    let file = open(path)?;
    file.take(limits::TEXT_BYTES).read_to_end(&mut text).map_err(|error| reason(&error))?;
    Ok(text)
}

/// The image that the kernel maps into this process too.
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
