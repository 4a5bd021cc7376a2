//! Paths of the recorded kernel's files: its image with symbols, and its modules. `docs/symbols.md`
//! lists them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dso::{BuildId, RecordedDso};
use crate::search::{SymbolOptions, read_text};

/// Suffixes of a plain and of a compressed file.
const PACKED: [&str; 4] = ["", ".xz", ".zst", ".gz"];

/// Folders in which distributions and `make modules_install` install modules.
const MODULES: [&str; 2] = ["lib/modules", "usr/lib/modules"];

impl SymbolOptions {
    /// Lists the paths of the kernel's image with symbols.
    pub(crate) fn images(&self, id: BuildId, release: Option<&[u8]>) -> Vec<PathBuf> {
        let kept = ["elf", "debug"].into_iter().filter_map(|name| self.cached(Some(id), name));
        let by_id = [".debug", ""].into_iter().flat_map(|end| self.by_id(id, end));
        let downloaded = self.downloaded(id, "debuginfo");
        let mut places: Vec<PathBuf> = kept.chain(by_id).chain(downloaded).collect();
        let Some(release) = release.and_then(plain) else { return places };
        let image = format!("boot/vmlinux-{release}");
        for folder in self.debug_folders() {
            places.push(folder.join(&image));
            places.push(folder.join(format!("{image}.debug")));
            places
                .extend(MODULES.map(|modules| folder.join(modules).join(release).join("vmlinux")));
        }
        places.extend(PACKED.map(|end| self.path(format!("{image}{end}").as_bytes())));
        for end in ["build/vmlinux", "vmlinux"] {
            places.push(self.path(format!("lib/modules/{release}/{end}").as_bytes()));
        }
        places
    }

    /// Lists the paths of a module's file.
    pub(crate) fn modules(
        &self,
        recorded: &RecordedDso<'_>,
        id: BuildId,
        release: Option<&[u8]>,
    ) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = self.cached(Some(id), "elf").into_iter().collect();
        places.extend(self.by_id(id, ""));
        places.extend(recorded.path.map(|path| self.path(path)));
        if let Some(release) = release.and_then(plain) {
            places.extend(self.listed_module(recorded, release).map(|(path, _)| path));
        }
        places.extend(self.debug_modules(recorded, id, release));
        places
    }

    /// Lists the paths of a module's file with debug info.
    pub(crate) fn debug_modules(
        &self,
        recorded: &RecordedDso<'_>,
        id: BuildId,
        release: Option<&[u8]>,
    ) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = self.cached(Some(id), "debug").into_iter().collect();
        places.extend(self.by_id(id, ".debug"));
        places.extend(self.downloaded(id, "debuginfo"));
        let release = release.and_then(plain);
        let listed =
            release.and_then(|release| Some((release, self.listed_module(recorded, release)?.1)));
        let listed =
            listed.map(|(release, path)| Path::new("lib/modules").join(release).join(path));
        let own = recorded.path.map(|path| Path::new(OsStr::from_bytes(path)));
        let own = own.map(|path| path.strip_prefix("/").unwrap_or(path).to_owned());
        for path in own.into_iter().chain(listed) {
            let path = unpacked_name(&path);
            let plain = path.strip_prefix("usr").unwrap_or(&path);
            for folder in self.debug_folders() {
                for path in [plain.to_owned(), Path::new("usr").join(plain)] {
                    let path = folder.join(path);
                    let mut debug = path.clone().into_os_string();
                    debug.push(".debug");
                    places.extend([path, debug.into()]);
                }
            }
        }
        places
    }

    /// Finds a module in the list that `depmod(8)` makes. Returns its path here, and its path below
    /// the release's folder.
    fn listed_module(
        &self,
        recorded: &RecordedDso<'_>,
        release: &str,
    ) -> Option<(PathBuf, PathBuf)> {
        let name = recorded.dso.name.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let folders = MODULES.map(|modules| self.path(format!("{modules}/{release}").as_bytes()));
        folders.iter().find_map(|folder| {
            let text = read_text(&folder.join("modules.dep")).ok()?;
            let files = text.split(|byte| *byte == b'\n').filter_map(|line| {
                line.split(|byte| *byte == b':').next().filter(|file| !file.is_empty())
            });
            let file = files.into_iter().find(|file| is_called(file, name))?;
            let file = Path::new(OsStr::from_bytes(file));
            let is_below = file.components().all(|p| matches!(p, std::path::Component::Normal(_)));
            is_below.then(|| (folder.join(file), file.to_owned()))
        })
    }
}

/// Returns a release as a folder name; `None` if it would lead to another folder.
fn plain(release: &[u8]) -> Option<&str> {
    let release = std::str::from_utf8(release).ok()?;
    let is_plain = !release.contains(['/', '\0']) && !["", ".", ".."].contains(&release);
    is_plain.then_some(release)
}

/// Whether a file belongs to a module: `kernel/fs/nls/nls-ascii.ko.xz` is `nls_ascii`.
fn is_called(file: &[u8], name: &[u8]) -> bool {
    let base = file.rsplit(|byte| *byte == b'/').next().unwrap_or(file);
    let Some(at) = base.windows(3).position(|part| part == b".ko") else { return false };
    let stem = base[..at].iter().map(|byte| if *byte == b'-' { b'_' } else { *byte });
    stem.eq(name.iter().copied())
}

/// Removes the suffix of a compressed file from a path.
fn unpacked_name(path: &Path) -> PathBuf {
    let is_packed = path.extension().is_some_and(|end| {
        PACKED.iter().any(|packed| end.as_bytes() == packed.trim_start_matches('.').as_bytes())
    });
    if is_packed { path.with_extension("") } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_name_and_no_path() {
        assert_eq!(plain(b"6.1.0-9-amd64"), Some("6.1.0-9-amd64"));
        assert_eq!([plain(b".."), plain(b"../x"), plain(b""), plain(b"a\0b")], [None; 4]);
    }

    #[test]
    fn modules_are_known_by_their_files() {
        assert!(is_called(b"kernel/fs/nls/nls-ascii.ko.xz", b"nls_ascii"));
        assert!(is_called(b"updates/x.ko", b"x") && !is_called(b"kernel/xx.ko", b"x"));
        assert!(!is_called(b"kernel/x", b"x"));
        assert_eq!(unpacked_name(Path::new("a/b.ko.zst")), Path::new("a/b.ko"));
        assert_eq!(unpacked_name(Path::new("a/b.ko")), Path::new("a/b.ko"));
    }
}
