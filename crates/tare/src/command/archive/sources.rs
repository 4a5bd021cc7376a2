//! The source files of the lines that samples hit.

use std::collections::BTreeMap;
use std::path::Path;

use tare_annotate::{path_below_root, read_source};
use tare_profile::Profile;
use tare_symbols::{UsedContent, UsedFiles};

/// Limit on the number of source files.
const FILES: usize = 10_000;

/// Limit on the bytes of one source file.
const FILE_BYTES: u64 = 4 << 20;

/// Limit on the bytes of all source files.
const ALL_BYTES: usize = 256 << 20;

/// Adds the source files of a profile's lines within the limits, as far as they exist below
/// `symfs`.
pub(super) fn add(profile: &Profile, symfs: &Path, used: &UsedFiles) {
    let mut left = ALL_BYTES;
    for (path, last_line) in last_lines(profile).into_iter().take(FILES) {
        let Some(name) = std::str::from_utf8(path).ok().and_then(path_below_root) else { continue };
        let Some(bytes) = read_source(&symfs.join(&name), FILE_BYTES) else { continue };
        // A file with fewer lines is not the one that was compiled.
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        if lines >= last_line as usize && bytes.len() <= left {
            left -= bytes.len();
            used.add(Path::new("root").join(name), UsedContent::Bytes(bytes));
        }
    }
}

/// The largest line number of each source file in a profile.
fn last_lines(profile: &Profile) -> BTreeMap<&[u8], u32> {
    let mut last_lines = BTreeMap::new();
    for (row, _) in profile.rows() {
        for frame in row.leaf.iter().chain(profile.frames_of(row.stack)) {
            let Some(line) = profile.frame(*frame).and_then(|frame| frame.line) else { continue };
            let last = last_lines.entry(profile.string(line.file)).or_default();
            *last = line.line.max(*last);
        }
    }
    last_lines
}
