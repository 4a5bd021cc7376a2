//! Where this machine has what a recording names.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::dso::{BuildId, Dso};
use crate::limits;
use crate::unresolved::Unresolved;

/// Where symbols are looked for, and how they are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOptions {
    /// The folder that recorded paths begin in, and those of this machine's kernel: `/proc`, `/sys`.
    pub symfs: PathBuf,
    /// The folder of `.build-id/xx/yyyy/`: files that `perf` kept when they were recorded
    /// (`perf-buildid-cache(1)`), mostly `~/.debug`.
    pub build_id_cache: Option<PathBuf>,
    /// Folders of separate debug files, by build id and by path, below [`Self::symfs`].
    pub debug_folders: Vec<PathBuf>,
    /// The recorded kernel's symbols, in the form of `/proc/kallsyms`, where they are not this
    /// machine's.
    pub kallsyms: Option<PathBuf>,
    /// Where a copy of `/proc/kallsyms` is kept, a file with mode 0600: reading the list itself takes
    /// the kernel some 40 ms. Its folder must be there; `None`: no copy is kept.
    pub kallsyms_copy: Option<PathBuf>,
    /// The user who reads: perf maps are believed if they are theirs or root's.
    pub reader_uid: u32,
    /// Names as in source code rather than as in the file.
    pub demangle: bool,
}

impl Default for SymbolOptions {
    fn default() -> Self {
        Self {
            symfs: PathBuf::from("/"),
            build_id_cache: None,
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
            kallsyms: None,
            kallsyms_copy: None,
            reader_uid: 0,
            demangle: true,
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

    /// Where a recorded ELF file may be: its path, and perf's cache.
    pub(crate) fn binaries(&self, dso: &Dso) -> impl Iterator<Item = PathBuf> {
        [Some(self.path(&dso.name)), self.cached(dso.build_id, "elf")].into_iter().flatten()
    }

    /// A file that perf keeps of a file with this build id: `elf`, `debug`, `vdso`, `kallsyms`.
    pub(crate) fn cached(&self, build_id: Option<BuildId>, name: &str) -> Option<PathBuf> {
        let folder = self.build_id_cache.as_ref()?;
        Some(build_id_path(folder, build_id?, &format!("/{name}")))
    }

    /// Where the debug file of a file with a build id may be.
    pub(crate) fn debug_files_by_id(&self, build_id: BuildId) -> impl Iterator<Item = PathBuf> {
        let folders = self.debug_folders.iter();
        let debug =
            folders.map(move |folder| build_id_path(&self.below_symfs(folder), build_id, ".debug"));
        self.cached(Some(build_id), "debug").into_iter().chain(debug)
    }

    /// Where the debug file may be that a binary's `.gnu_debuglink` names: beside it, in a folder
    /// `.debug` there, and below the debug folders at the binary's recorded path (the order of
    /// gdb, section "Debugging Information in Separate Files" of its manual).
    pub(crate) fn debug_files_by_link(
        &self,
        binary: &Path,
        dso: &Dso,
        link: &[u8],
    ) -> Vec<PathBuf> {
        let link = Path::new(std::ffi::OsStr::from_bytes(link));
        // A link is the name of a file, and leads nowhere else.
        let is_name = link.file_name().is_some_and(|name| name == link.as_os_str());
        let Some(folder) = binary.parent().filter(|_| is_name) else { return Vec::new() };
        let recorded = Path::new(std::ffi::OsStr::from_bytes(&dso.name));
        let recorded = recorded.parent().unwrap_or(recorded);
        let recorded = recorded.strip_prefix("/").unwrap_or(recorded);
        let beside = [folder.join(link), folder.join(".debug").join(link)];
        let debug = self
            .debug_folders
            .iter()
            .map(|folder| self.below_symfs(folder).join(recorded).join(link));
        beside.into_iter().filter(|path| path != binary).chain(debug).collect()
    }

    /// Whether a perf map of this user is believed.
    fn trusts(&self, uid: u32) -> bool {
        uid == 0 || uid == self.reader_uid
    }
}

/// The path of a file that is found by its build id.
fn build_id_path(folder: &Path, id: BuildId, end: &str) -> PathBuf {
    let digits = id.to_string();
    let (front, rest) = digits.split_at(2);
    folder.join(format!(".build-id/{front}/{rest}{end}"))
}

/// Opens a regular file: a recorded path may name a FIFO or a device by now.
pub(crate) fn open(path: &Path) -> Result<File, Unresolved> {
    let meta = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if !meta.is_file() {
        return Err(Unresolved::NoFile);
    }
    File::open(path).map_err(|error| reason(&error))
}

/// All of a text of symbols.
pub(crate) fn read_text(path: &Path) -> Result<Vec<u8>, Unresolved> {
    let mut text = Vec::new();
    let file = open(path)?;
    file.take(limits::TEXT_BYTES).read_to_end(&mut text).map_err(|error| reason(&error))?;
    Ok(text)
}

/// A perf map. They lie in a folder that everybody can write to: only a regular file of root or of
/// the reader is believed, not one that a symbolic link leads to.
pub(crate) fn read_perf_map(options: &SymbolOptions, dso: &Dso) -> Result<Vec<u8>, Unresolved> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(options.path(&dso.name), flags, Mode::empty());
    let file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(Unresolved::NotTrusted),
        Err(error) => return Err(reason(&error.into())),
    };
    let meta = file.metadata().map_err(|error| reason(&error))?;
    if !meta.is_file() || !options.trusts(meta.uid()) {
        return Err(Unresolved::NotTrusted);
    }
    let mut text = Vec::new();
    let most = limits::PERF_MAP_BYTES;
    file.take(most + 1).read_to_end(&mut text).map_err(|error| reason(&error))?;
    if text.len() as u64 > most { Err(Unresolved::OverLimit) } else { Ok(text) }
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

fn reason(error: &io::Error) -> Unresolved {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Unresolved::NotReadable,
        _ => Unresolved::NoFile,
    }
}
