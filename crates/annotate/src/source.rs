//! Lines of source files.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

/// Bytes of a source file that are read.
const BYTES: u64 = 16 << 20;

/// Source files that were looked at, by their paths.
#[derive(Debug, Default)]
pub struct Sources(HashMap<String, Vec<String>>);

impl Sources {
    /// A line, counted from 1; `None` where the file isn't there, or is no regular file.
    pub fn line(&mut self, path: &str, line: u32) -> Option<&str> {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), lines(path).unwrap_or_default());
        }
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        self.0.get(path)?.get(at).map(String::as_str)
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
