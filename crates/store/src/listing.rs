//! The files of a table.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::folder::{Folder, file_error};
use crate::name::{FileName, TEMPORARY};
use crate::schema::TableDefinition;

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderFile {
    pub(crate) path: PathBuf,
    pub(crate) name: FileName,
    /// Whether it is being written, or was when its writer died.
    pub(crate) is_temporary: bool,
}

/// Returns the files of a table, by name. Other files are ignored, also those that aren't in the
/// folder of their date and hour.
pub(crate) fn list(
    folder: &Folder,
    table: &TableDefinition,
) -> Result<Vec<FolderFile>, StoreError> {
    let mut files = Vec::new();
    for date in entries(&folder.path(table.name), "date=")? {
        if table.has_hours() {
            for hour in entries(&date, "hour=")? {
                list_folder(folder, table, &hour, &mut files)?;
            }
        } else {
            list_folder(folder, table, &date, &mut files)?;
        }
    }
    files.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(files)
}

fn list_folder(
    folder: &Folder,
    table: &TableDefinition,
    path: &Path,
    files: &mut Vec<FolderFile>,
) -> Result<(), StoreError> {
    for name in names(path)? {
        let Some(text) = name.to_str() else { continue };
        let bare = text.strip_prefix('.').and_then(|text| text.strip_suffix(TEMPORARY));
        let Some(parsed) = FileName::parse(bare.unwrap_or(text)) else { continue };
        if folder.path(&parsed.folder(table)) == path {
            let is_temporary = bare.is_some();
            files.push(FolderFile { path: path.join(&name), name: parsed, is_temporary });
        }
    }
    Ok(())
}

/// Returns the folders whose names begin with `prefix`.
fn entries(path: &Path, prefix: &str) -> Result<Vec<PathBuf>, StoreError> {
    let names = names(path)?.into_iter();
    let named = names.filter(|name| name.to_str().is_some_and(|name| name.starts_with(prefix)));
    Ok(named.map(|name| path.join(name)).collect())
}

/// Returns the names in a folder; none if the folder doesn't exist.
fn names(path: &Path) -> Result<Vec<OsString>, StoreError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(file_error(path))?,
    };
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(file_error(path))).collect()
}
