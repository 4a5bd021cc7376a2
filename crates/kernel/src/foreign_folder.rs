//! Folders of other users, in which root creates nothing on its own account: with `HOME` set to a
//! user's, files of root would be left in the user's home, or go where its links lead.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the folder, or the nearest existing one above it, if this process is root and the folder
/// belongs to another user.
#[must_use]
pub fn find_foreign_folder(folder: &Path) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| find_foreign_to(folder, 0)).flatten()
}

fn find_foreign_to(folder: &Path, uid: u32) -> Option<PathBuf> {
    let (nearest, meta) = folder.ancestors().find_map(|nearest| {
        let nearest = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
        Some((nearest, std::fs::metadata(nearest).ok()?))
    })?;
    (meta.uid() != uid).then(|| nearest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_existing_folder_decides() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().metadata().unwrap().uid();
        let below = folder.path().join("a/b");
        for place in [folder.path(), &below] {
            assert_eq!(find_foreign_to(place, own), None);
            assert_eq!(find_foreign_to(place, own + 1), Some(folder.path().to_owned()));
        }
        assert_eq!(find_foreign_to(Path::new("/nonexistent/x"), 0), None);
    }
}
