//! Lines of source files.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

/// Limit on the bytes read of a source file.
const BYTES: u64 = 16 << 20;

/// Source files read so far, by path.
#[derive(Debug, Default)]
pub struct Sources {
    lines: HashMap<String, Vec<String>>,
    relocation: Option<PathPrefix>,
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
        // A path with fewer folders is reduced to its file name.
        let last = rest.rsplit('/').next().unwrap_or(rest);
        format!("{}/{}", self.prefix.trim_end_matches('/'), stripped.unwrap_or(last))
    }
}

impl Sources {
    /// Creates a reader that has read no file yet.
    #[must_use]
    pub fn new(relocation: Option<PathPrefix>) -> Self {
        Self { lines: HashMap::new(), relocation }
    }

    /// Returns a line, counted from 1; `None` if the file is missing or not a regular file.
    pub fn line(&mut self, path: &str, line: u32) -> Option<&str> {
        if !self.lines.contains_key(path) {
            let relocated = self.relocation.as_ref().map(|relocation| relocation.path(path));
            let lines = read_lines(relocated.as_deref().unwrap_or(path));
            self.lines.insert(path.to_owned(), lines.unwrap_or_default());
        }
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        self.lines.get(path)?.get(at).map(String::as_str)
    }
}

fn read_lines(path: &str) -> Option<Vec<String>> {
    // A FIFO or a device may never end, and opening it may have side effects.
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
    fn relocates_paths_like_objdump() {
        let relocate =
            |strip, path: &str| PathPrefix { prefix: "/here/".to_owned(), strip }.path(path);
        assert_eq!(relocate(0, "/a/b/c.c"), "/here/a/b/c.c");
        assert_eq!(relocate(1, "/a/b/c.c"), "/here/b/c.c");
        assert_eq!(relocate(2, "/a/b/c.c"), "/here/c.c");
        assert_eq!(relocate(9, "/a/b/c.c"), "/here/c.c");
        assert_eq!(relocate(1, "b/c.c"), "b/c.c");
    }
}
