//! The source files of the lines that samples lie in.
//!
//! Debug info names them, and it comes from the programs that were recorded: a hostile one could name
//! any file of whoever packs. Only text files that are called as source files are packed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use tare_profile::Profile;
use tare_symbols::{UsedContent, UsedFiles};

use crate::annotate::recorded_source;

/// Source files of an archive, bytes of one, and of all.
const FILES: usize = 10_000;
const FILE_BYTES: u64 = 4 << 20;
const ALL_BYTES: usize = 256 << 20;

/// What the names of source files end with.
const ENDINGS: [&str; 38] = [
    "S", "ada", "adb", "ads", "asm", "c", "cc", "cpp", "cs", "cu", "cxx", "d", "f", "f90", "go",
    "h", "hh", "hpp", "hs", "hxx", "inc", "inl", "ipp", "java", "jl", "js", "kt", "l", "m", "ml",
    "mm", "nim", "py", "rs", "s", "swift", "tcc", "zig",
];

/// Where headers without an ending are.
const HEADERS: &str = "/usr/include";

/// Adds the source files that a profile's lines are of, as far as they are here below a folder.
pub(super) fn add(profile: &Profile, symfs: &Path, used: &UsedFiles) {
    let mut lines: BTreeMap<&[u8], u32> = BTreeMap::new();
    let rows = profile.rows().map(|(row, _)| row);
    let frames = rows.flat_map(|row| row.leaf.iter().chain(profile.frames_of(row.stack)));
    for line in frames.filter_map(|frame| profile.frame(*frame)?.line) {
        let last = lines.entry(profile.string(line.file)).or_default();
        *last = line.line.max(*last);
    }
    let mut left = ALL_BYTES;
    for (path, last) in lines.into_iter().take(FILES) {
        let Ok(path) = std::str::from_utf8(path) else { continue };
        let Some(name) = recorded_source(path).filter(|name| is_source(name)) else { continue };
        // A file of fewer lines is another one.
        let content = read(&symfs.join(&name)).filter(|bytes| {
            bytes.iter().filter(|byte| **byte == b'\n').count() + 1 >= last as usize
        });
        if let Some(bytes) = content.filter(|bytes| bytes.len() <= left) {
            left -= bytes.len();
            used.add(Path::new("root").join(name), UsedContent::Bytes(bytes));
        }
    }
}

/// Whether a path below the root is called as a source file.
fn is_source(name: &Path) -> bool {
    let ending = name.extension().and_then(|ending| ending.to_str());
    let is_header = ending.is_none() && Path::new("/").join(name).starts_with(HEADERS);
    is_header || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// A regular file of text.
fn read(path: &Path) -> Option<Vec<u8>> {
    let meta = std::fs::metadata(path).ok()?;
    let file = Some(path).filter(|_| meta.is_file() && meta.len() <= FILE_BYTES);
    let mut bytes = Vec::new();
    File::open(file?).ok()?.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    (!bytes.contains(&0)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_as_source_is_packed() {
        for name in ["src/a.c", "usr/include/c++/14/vector", "x/build.rs", "start.S"] {
            assert!(is_source(Path::new(name)), "{name}");
        }
        for name in ["etc/shadow", "home/me/.ssh/id_rsa", "x/key.pem", "usr/lib/x", ".rs"] {
            assert!(!is_source(Path::new(name)), "{name}");
        }
    }
}
