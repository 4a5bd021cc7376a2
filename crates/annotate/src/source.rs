//! Lines of source files.
//!
//! Debug info names the files, and it comes from the recorded programs: a hostile program could
//! name any file of the user who reads the recording. Only regular text files with the name of a
//! source file are read, and outside of archives root reads only those that everyone may read.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use tare_symbols::SymbolOptions;

/// Limit on the bytes read of a source file.
const BYTES: u64 = 16 << 20;

/// Extensions of source files.
const EXTENSIONS: [&str; 38] = [
    "S", "ada", "adb", "ads", "asm", "c", "cc", "cpp", "cs", "cu", "cxx", "d", "f", "f90", "go",
    "h", "hh", "hpp", "hs", "hxx", "inc", "inl", "ipp", "java", "jl", "js", "kt", "l", "m", "ml",
    "mm", "nim", "py", "rs", "s", "swift", "tcc", "zig",
];

/// Folder of headers without an extension, such as C++'s `vector`.
const HEADERS: &str = "/usr/include";

/// Source files read so far, by path.
#[derive(Debug, Default)]
pub struct Sources {
    lines: HashMap<String, Vec<String>>,
    root: SourceRoot,
}

/// Where source files are.
#[derive(Clone, Debug, Default)]
pub struct SourceRoot {
    relocation: Option<PathPrefix>,
    /// A folder that mirrors the recorded machine.
    symfs: Option<PathBuf>,
    /// Whether that folder is an archive's. This machine's own files may be of another build, so
    /// they aren't read then.
    is_archive: bool,
}

impl SourceRoot {
    /// With `relocation`, looks for a source file at the changed path alone. Otherwise looks where
    /// `symbols` looks for binaries: in an archive alone, or below `--symfs` and then at the file's
    /// own path.
    #[must_use]
    pub fn new(symbols: &SymbolOptions, relocation: Option<PathPrefix>) -> Self {
        let symfs = Some(symbols.symfs.clone()).filter(|symfs| symfs != Path::new("/"));
        Self { relocation, symfs, is_archive: symbols.unpacked.is_some() }
    }

    /// Returns the content of the source file at `path`, or `None` if it can't be read.
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        if let Some(relocation) = &self.relocation {
            return read_source(Path::new(&relocation.path(path)), BYTES);
        }
        let mirrored = self.symfs.as_ref().zip(path_below_root(path));
        let mirrored = mirrored.map(|(symfs, path)| symfs.join(path));
        if self.is_archive {
            // Unpacked files are readable for this user alone.
            return read_file(&mirrored?, BYTES, true);
        }
        let mirrored = mirrored.and_then(|path| read_source(&path, BYTES));
        mirrored.or_else(|| read_source(Path::new(path), BYTES))
    }
}

/// Where to find sources that were compiled elsewhere: `--prefix` and `--prefix-strip` of objdump.
#[derive(Clone, Debug, Default)]
pub struct PathPrefix {
    /// Folder to prepend to absolute paths.
    pub prefix: String,
    /// Number of leading folders to remove from a path first.
    pub strip: usize,
}

impl PathPrefix {
    fn path(&self, path: &str) -> String {
        let Some(rest) = path.strip_prefix('/') else { return path.to_owned() };
        let stripped = rest.splitn(self.strip + 1, '/').nth(self.strip);
        // A path with fewer folders than `strip` is reduced to its file name.
        let last = rest.rsplit('/').next().unwrap_or(rest);
        format!("{}/{}", self.prefix.trim_end_matches('/'), stripped.unwrap_or(last))
    }
}

impl Sources {
    /// Creates a reader that has read no file yet.
    #[must_use]
    pub fn new(root: SourceRoot) -> Self {
        Self { lines: HashMap::new(), root }
    }

    /// Returns a line, counted from 1; `None` if the file can't be read or has fewer lines.
    pub fn line(&mut self, path: &str, line: u32) -> Option<&str> {
        if !self.lines.contains_key(path) {
            let bytes = self.root.read(path).unwrap_or_default();
            let lines = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
            self.lines.insert(path.to_owned(), lines);
        }
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        self.lines.get(path)?.get(at).map(String::as_str)
    }
}

/// Returns an absolute path of debug info relative to the root folder, without `.` and `..`; `None`
/// if the path is relative or leads above the root.
#[must_use]
pub fn path_below_root(path: &str) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for part in Path::new(path).strip_prefix("/").ok()?.components() {
        match part {
            Component::Normal(part) => below.push(part),
            Component::ParentDir if below.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(below)
}

/// Reads a source file of at most `most` bytes. Returns `None` for other files: those without a
/// source file's name, larger ones, those with a NUL byte, those that aren't regular files or can't
/// be read, and, for root, those that not everyone may read.
#[must_use]
pub fn read_source(path: &Path, most: u64) -> Option<Vec<u8>> {
    read_file(path, most, !rustix::process::geteuid().is_root())
}

fn read_file(path: &Path, most: u64, may_be_private: bool) -> Option<Vec<u8>> {
    if !has_source_name(path) {
        return None;
    }
    // Neither opening a FIFO nor reading /proc/kmsg may block.
    let nonblocking = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(nonblocking.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    let is_allowed = may_be_private || meta.mode() & 0o004 != 0;
    if !meta.is_file() || meta.len() > most || !is_allowed {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    (!bytes.contains(&0)).then_some(bytes)
}

/// Whether a path has the name of a source file.
fn has_source_name(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some(extension) => EXTENSIONS.contains(&extension),
        None => path.to_str().is_some_and(|path| path.contains(HEADERS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relocates_paths_like_objdump() {
        let relocate =
            |strip, path: &str| PathPrefix { prefix: "/here/".to_owned(), strip }.path(path);
        assert_eq!(relocate(0, "/a/b/c.c"), "/here/a/b/c.c");
        assert_eq!(relocate(1, "/a/b/c.c"), "/here/b/c.c");
        assert_eq!(relocate(2, "/a/b/c.c"), "/here/c.c");
        assert_eq!(relocate(9, "/a/b/c.c"), "/here/c.c");
        assert_eq!(relocate(1, "b/c.c"), "b/c.c");
    }

    #[test]
    fn paths_of_debug_info_stay_below_the_root() {
        assert_eq!(path_below_root("/build/x/../src/./a.c"), Some("build/src/a.c".into()));
        for path in ["/../etc/x.c", "/a/../../x.c", "a.c", ""] {
            assert_eq!(path_below_root(path), None, "{path}");
        }
    }

    #[test]
    fn only_names_of_source_files_are_read() {
        for name in ["src/a.c", "/usr/include/c++/14/vector", "x/build.rs", "start.S"] {
            assert!(has_source_name(Path::new(name)), "{name}");
        }
        for name in ["etc/shadow", "home/me/.ssh/id_rsa", "x/key.pem", "usr/lib/x", ".rs"] {
            assert!(!has_source_name(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn files_that_block_or_are_hidden_or_binary_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("plain.c"), "int x;\n").unwrap();
        std::fs::write(path("binary.c"), "a\0b").unwrap();
        std::fs::write(path("large.c"), "123456789").unwrap();
        std::fs::write(path("secret.c"), "s").unwrap();
        let hidden = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path("secret.c"), hidden).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo.c"), rustix::fs::Mode::RUSR).unwrap();
        std::os::unix::fs::symlink("/proc/kmsg", path("kmsg.c")).unwrap();
        assert_eq!(read_source(&path("plain.c"), 8), Some(b"int x;\n".to_vec()));
        for name in ["binary.c", "large.c", "fifo.c", "kmsg.c", "absent.c"] {
            assert_eq!(read_source(&path(name), 8), None, "{name}");
        }
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(read_source(&path("secret.c"), 8).is_none(), is_root);
    }
}
