//! Removes or completes files of a program that died while it wrote.

use crate::error::StoreError;
use crate::folder::Folder;
use crate::listing::{FolderFile, list};
use crate::name::FileKind;
use crate::publication::{FilePaths, ORDER};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether it ran. Otherwise other programs kept writing.
    pub is_complete: bool,
    /// Segments whose last file it renamed.
    pub completed: u64,
    /// Files of unfinished segments that it removed.
    pub removed: u64,
}

/// Recovers a store whose lock the caller holds alone.
pub(crate) fn recover(folder: &Folder) -> Result<Recovery, StoreError> {
    let mut recovery = Recovery { is_complete: true, ..Recovery::default() };
    for table in ORDER {
        for file in list(folder, table)? {
            let FolderFile { path, name, is_temporary } = file;
            let has = |table| FilePaths::new(folder, &name, table).last.exists();
            if is_temporary && *table == SEGMENTS && name.kind != FileKind::Gap && has(&SAMPLES) {
                let paths = FilePaths::new(folder, &name, table);
                folder.rename(&path, &paths.last)?;
                folder.sync_folder(&paths.folder)?;
                recovery.completed += 1;
                continue;
            }
            // Frames are renamed first and removed last.
            let is_orphan = *table == FRAMES && !has(&SAMPLES) && !has(&SEGMENTS);
            if is_temporary || is_orphan {
                folder.remove_file(&path)?;
                recovery.removed += 1;
            }
        }
    }
    Ok(recovery)
}
