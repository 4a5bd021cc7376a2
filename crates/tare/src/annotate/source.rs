//! Lines of source files.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use tare_symbols::SymbolOptions;

/// Bytes of a source file that are read.
const BYTES: u64 = 16 << 20;

/// Source files that were looked at, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: HashMap<String, Vec<String>>,
    root: SourceRoot,
}

/// Where source files are: below a folder that describes the recorded machine, and at their paths
/// here unless that folder is an archive's, which has those of the recorded build.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceRoot {
    symfs: Option<PathBuf>,
    is_archive: bool,
}

impl SourceRoot {
    /// As symbols are looked for.
    pub(crate) fn of(symbols: &SymbolOptions) -> Self {
        let symfs = Some(symbols.symfs.clone()).filter(|symfs| symfs != Path::new("/"));
        Self { symfs, is_archive: symbols.unpacked.is_some() }
    }

    fn lines(&self, path: &str) -> Option<Vec<String>> {
        let below = || lines(&self.symfs.as_ref()?.join(recorded_source(path)?));
        below().or_else(|| lines(Path::new(path)).filter(|_| !self.is_archive))
    }
}

impl Sources {
    /// None was looked at yet.
    pub(crate) fn new(root: SourceRoot) -> Self {
        Self { root, ..Self::default() }
    }

    /// A line, counted from 1; `None` where the file isn't there, or is no regular file.
    pub(crate) fn line(&mut self, path: &str, line: u32) -> Option<&str> {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), self.root.lines(path).unwrap_or_default());
        }
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        self.files.get(path)?.get(at).map(String::as_str)
    }
}

/// The path of a source file below a root folder, as debug info has it: compilers leave `..` in it.
/// `None` where it leads elsewhere, or says nothing of where it begins.
pub(crate) fn recorded_source(path: &str) -> Option<PathBuf> {
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

fn lines(path: &Path) -> Option<Vec<String>> {
    // What is no file may never end, or have an effect when it is opened.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_files_path_stays_below_its_root() {
        let is = |path: &str| recorded_source(path);
        assert_eq!(is("/build/x/../src/./a.c"), Some("build/src/a.c".into()));
        assert_eq!([is("/../etc/x.c"), is("/a/../../x.c"), is("a.c"), is("")], [const { None }; 4]);
    }
}
