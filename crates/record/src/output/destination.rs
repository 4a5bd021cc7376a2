//! Opens destinations: detects their kind, and keeps existing files.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::disk::OpenDestination;
use super::{Destination, OutputError, Result};
use crate::own_file;

/// Opens a destination without waiting.
pub(super) fn open(to: &Destination) -> Result<OpenDestination> {
    match to {
        Destination::Stdout => stdout(),
        Destination::File(path) => {
            let open = |reason: io::Error| OutputError::Open {
                path: path.clone(),
                reason: reason.to_string(),
            };
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => Err(open(Errno::ISDIR.into())),
                Ok(found) if !found.is_file() => {
                    special(path, &found).map_err(|error| match Errno::from_io_error(&error) {
                        Some(Errno::NXIO) if found.file_type().is_fifo() => {
                            OutputError::NoReader(path.clone())
                        }
                        _ => open(error),
                    })
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(open(error)),
                _ => {
                    let path = own_file::resolve_link(path).map_err(open)?;
                    keep_existing(&path)?;
                    Ok(OpenDestination::File { file: Arc::new(create(&path)?), path })
                }
            }
        }
    }
}

/// Creates a file, or truncates an existing one.
pub(super) fn create(path: &Path) -> Result<File> {
    let new = || OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    let file = match new() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => own_file::open(
            path,
            OpenOptions::new().read(true).write(true).truncate(true),
            OFlags::empty(),
        ),
        file => file,
    };
    file.map_err(|error| OutputError::Open { path: path.to_owned(), reason: error.to_string() })
}

fn stdout() -> Result<OpenDestination> {
    let fd = io::stdout().as_fd().try_clone_to_owned();
    let fd =
        fd.map_err(|error| OutputError::Open { path: "-".into(), reason: error.to_string() })?;
    if rustix::termios::isatty(&fd) {
        Err(OutputError::Terminal)
    } else {
        Ok(OpenDestination::Stream(Arc::new(File::from(fd))))
    }
}

/// Opens a device or FIFO.
fn special(path: &Path, found: &Metadata) -> io::Result<OpenDestination> {
    let file = Arc::new(own_file::open_special(path, found)?);
    let is_null = found.file_type().is_char_device()
        && fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == found.rdev());
    Ok(if is_null { OpenDestination::Null(file) } else { OpenDestination::Stream(file) })
}

/// Renames an existing file, as perf does, unless it is empty and belongs to the user.
fn keep_existing(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.len() > 0 || found.uid() != rustix::process::geteuid().as_raw() => {
            let old = with_ending(path, ".old");
            rustix::fs::rename(path, &old).map_err(|error| OutputError::Keep {
                path: path.to_owned(),
                old,
                error,
            })
        }
        _ => Ok(()),
    }
}

pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}
