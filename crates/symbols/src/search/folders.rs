//! Paths of a recorded file and of its debug files, in search order. `docs/symbols.md` lists them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dso::{BuildId, RecordedDso};
use crate::search::SymbolOptions;
use crate::search::location::FileLocation;

/// Suffix that the kernel gives to the path of a deleted, mapped file.
const DELETED: &[u8] = b" (deleted)";

impl SymbolOptions {
    /// Lists the locations of a recorded ELF file.
    pub(super) fn binaries(&self, recorded: &RecordedDso<'_>) -> Vec<FileLocation> {
        let name = &recorded.dso.name;
        let mut places = vec![FileLocation::Path(self.path(name))];
        if self.is_here() {
            let path = name.strip_suffix(DELETED).unwrap_or(name);
            recorded.mapped.iter().for_each(|mapped| {
                let process = PathBuf::from(format!("/proc/{}", mapped.pid));
                let range = format!("map_files/{:x}-{:x}", mapped.start, mapped.end);
                let path = PathBuf::from(OsStr::from_bytes(path));
                places.extend([
                    FileLocation::InRoot { root: process.join("root"), path },
                    FileLocation::MapFile(process.join(range)),
                    FileLocation::MapFile(process.join("exe")),
                ]);
            });
        }
        let Some(id) = recorded.dso.build_id else { return places };
        let by_id = self.cached(Some(id), "elf").into_iter();
        let by_id = by_id.chain(self.by_id(id, "")).chain(self.downloaded(id, "executable"));
        places.extend(by_id.map(FileLocation::Path));
        places
    }

    /// Returns the path of a file in perf's cache: `elf`, `debug`, `vdso` or `kallsyms`.
    pub(crate) fn cached(&self, build_id: Option<BuildId>, name: &str) -> Option<PathBuf> {
        let folder = self.build_id_cache.as_ref()?;
        Some(build_id_path(folder, build_id?, &format!("/{name}")))
    }

    /// Iterates over the paths of a build id in the folders of debug files.
    pub(super) fn by_id(&self, id: BuildId, end: &str) -> impl Iterator<Item = PathBuf> {
        self.debug_folders().map(move |folder| build_id_path(&folder, id, end))
    }

    pub(super) fn debug_folders(&self) -> impl Iterator<Item = PathBuf> {
        let usual = self.debug_folders.iter().map(|folder| self.below_symfs(folder));
        self.debug_dirs.iter().cloned().chain(usual)
    }

    /// Returns the path of a file in the debuginfod cache: `debuginfo` or `executable`.
    pub(super) fn downloaded(&self, id: BuildId, kind: &str) -> Option<PathBuf> {
        Some(self.debuginfod_cache.as_ref()?.join(id.to_string()).join(kind))
    }

    /// Iterates over the locations of a debug file with this build id.
    pub(super) fn debug_files_by_id(&self, id: BuildId) -> impl Iterator<Item = FileLocation> {
        let kept = self.cached(Some(id), "debug").into_iter();
        let places = kept.chain(self.by_id(id, ".debug")).chain(self.downloaded(id, "debuginfo"));
        places.map(FileLocation::Path)
    }

    /// Lists the locations of the debug file that a binary's `.gnu_debuglink` names: beside the
    /// binary, in `.debug/` there, and below the debug folders at the binary's recorded and real
    /// paths (gdb's order: section "Debugging Information in Separate Files" of its manual); last,
    /// directly in the folders that the user named.
    pub(super) fn debug_files_by_link(
        &self,
        binary: &FileLocation,
        recorded: &RecordedDso<'_>,
        link: &[u8],
    ) -> Vec<FileLocation> {
        let link = Path::new(OsStr::from_bytes(link));
        // A debug link is a file name; one with a folder is refused.
        if link.file_name().is_none_or(|name| name != link.as_os_str()) {
            return Vec::new();
        }
        let named = Path::new(OsStr::from_bytes(&recorded.dso.name)).to_owned();
        let real = binary.path().canonicalize().ok();
        let real = real.filter(|_| self.is_here() && matches!(binary, FileLocation::Path(_)));
        let mut folders: Vec<PathBuf> = Vec::new();
        for path in [Some(named), real].into_iter().flatten() {
            let Some(folder) = path.parent() else { continue };
            let folder = folder.strip_prefix("/").unwrap_or(folder).to_owned();
            // A distribution that moved a binary below /usr may not have moved its debug file.
            let before = folder.strip_prefix("usr").ok().map(Path::to_owned);
            [Some(folder), before].into_iter().flatten().for_each(|folder| {
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            });
        }
        let beside = [binary.beside(link), binary.beside(&Path::new(".debug").join(link))];
        let below = self.debug_folders().flat_map(|debug| {
            folders.iter().map(move |folder| debug.join(folder).join(link)).collect::<Vec<_>>()
        });
        let direct = self.debug_dirs.iter().map(|folder| folder.join(link));
        let places = below.chain(direct).map(FileLocation::Path);
        beside.into_iter().flatten().filter(|place| place != binary).chain(places).collect()
    }
}

/// Returns the path of a build id below a folder.
pub(super) fn build_id_path(folder: &Path, id: BuildId, end: &str) -> PathBuf {
    let digits = id.to_string();
    let (front, rest) = digits.split_at(2);
    folder.join(format!(".build-id/{front}/{rest}{end}"))
}
