//! Lines of source files.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

/// Bytes of a source file that are read.
const BYTES: u64 = 16 << 20;

/// Source files that were looked at, by their paths.
#[derive(Debug, Default)]
pub struct Sources {
    lines: HashMap<String, Vec<String>>,
    moved: Option<PathPrefix>,
}

/// Where sources lie that were compiled elsewhere, as objdump has it.
#[derive(Clone, Debug, Default)]
pub struct PathPrefix {
    /// The folder below which absolute paths are looked for.
    pub prefix: String,
    /// How many folders at the beginning of a path are left out.
    pub strip: usize,
}

impl PathPrefix {
    fn path(&self, path: &str) -> String {
        let Some(rest) = path.strip_prefix('/') else { return path.to_owned() };
        let stripped = rest.splitn(self.strip + 1, '/').nth(self.strip);
        // A path keeps its file where there are fewer folders.
        let last = rest.rsplit('/').next().unwrap_or(rest);
        format!("{}/{}", self.prefix.trim_end_matches('/'), stripped.unwrap_or(last))
    }
}

impl Sources {
    /// Sources that lie elsewhere than where they were compiled.
    #[must_use]
    pub fn new(moved: Option<PathPrefix>) -> Self {
        Self { lines: HashMap::new(), moved }
    }

    /// A line, counted from 1; `None` where the file isn't there, or is no regular file.
    pub fn line(&mut self, path: &str, line: u32) -> Option<&str> {
        if !self.lines.contains_key(path) {
            let moved = self.moved.as_ref().map(|moved| moved.path(path));
            let found = lines(moved.as_deref().unwrap_or(path));
            self.lines.insert(path.to_owned(), found.unwrap_or_default());
        }
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        self.lines.get(path)?.get(at).map(String::as_str)
    }
}

fn lines(path: &str) -> Option<Vec<String>> {
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
    fn paths_are_moved_as_objdump_does() {
        let moved =
            |strip, path: &str| PathPrefix { prefix: "/here/".to_owned(), strip }.path(path);
        assert_eq!(moved(0, "/a/b/c.c"), "/here/a/b/c.c");
        assert_eq!(moved(1, "/a/b/c.c"), "/here/b/c.c");
        assert_eq!(moved(2, "/a/b/c.c"), "/here/c.c");
        assert_eq!(moved(9, "/a/b/c.c"), "/here/c.c");
        assert_eq!(moved(1, "b/c.c"), "b/c.c");
    }
}
