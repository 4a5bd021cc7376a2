//! The files of a table.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::folder::{Folder, file_error};
use crate::name::{FileName, TEMPORARY};
use crate::schema::TableDefinition;
use crate::table_file::TableFile;

/// The key of a compacted file's metadata that has the digests of its inputs.
pub(crate) const INPUTS: &str = "tare.store.inputs";

/// How often a folder that changes is listed.
const MAX_LISTINGS: usize = 10;

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

/// Returns the files of a table that readers use: none that is being written, and none whose rows
/// are in a compacted file.
pub(crate) fn list_current(
    folder: &Folder,
    table: &TableDefinition,
) -> Result<Vec<FolderFile>, StoreError> {
    let mut files = list_published(folder, table)?;
    // A folder that is compacted while it is listed may show neither a file nor its replacement.
    for _ in 0..MAX_LISTINGS {
        let before = std::mem::replace(&mut files, list_published(folder, table)?);
        if !has_compaction(&before, &files) {
            break;
        }
    }
    let replaced = replaced(&files, table)?;
    files.retain(|file| !replaced.contains(&file.name.digest));
    Ok(files)
}

/// Returns whether files were removed, or compacted files were added.
fn has_compaction(before: &[FolderFile], after: &[FolderFile]) -> bool {
    let has =
        |files: &[FolderFile], name| files.binary_search_by_key(&name, |file| &file.name).is_ok();
    before.iter().any(|file| !has(after, &file.name))
        || after.iter().any(|file| file.name.kind.is_compacted() && !has(before, &file.name))
}

fn list_published(folder: &Folder, table: &TableDefinition) -> Result<Vec<FolderFile>, StoreError> {
    let mut files = list(folder, table)?;
    files.retain(|file| !file.is_temporary);
    Ok(files)
}

/// Returns the digests of the files that compacted files replace. `files` are sorted. Metadata is
/// only read of a compacted file in whose range others lie.
pub(crate) fn replaced(
    files: &[FolderFile],
    table: &TableDefinition,
) -> Result<HashSet<u64>, StoreError> {
    let mut replaced = HashSet::new();
    for file in files.iter().filter(|file| file.name.kind.is_compacted()) {
        let begin = files.partition_point(|other| other.name.start_us < file.name.start_us);
        let within =
            files[begin..].iter().take_while(|other| other.name.start_us < file.name.end_us);
        if within.filter(|other| other.name.end_us <= file.name.end_us).count() > 1 {
            let inputs = TableFile::open(&file.path, table)?;
            let digests = inputs.value(INPUTS).unwrap_or_default().split(',');
            replaced.extend(digests.filter_map(|digest| u64::from_str_radix(digest, 16).ok()));
        }
    }
    Ok(replaced)
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
