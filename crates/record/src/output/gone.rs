//! File names on the disk: restoring deleted files, and making names durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::io::Errno;

use super::destination::with_ending;
use super::disk::DiskFile;
use super::names::format_time;

/// Bytes per copy.
const PIECE: usize = 1 << 20;

/// See [`super::disk::Disk::write_anew`].
pub(super) fn write_anew(
    file: &dyn DiskFile,
    path: &Path,
    now: SystemTime,
) -> Result<PathBuf, Errno> {
    let create = |path: PathBuf| {
        let mut options = OpenOptions::new();
        let new = options.write(true).create_new(true).mode(0o600).open(&path);
        new.map(|new| (new, path))
    };
    let (mut new, path) = match create(path.to_owned()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            create(with_ending(path, &format!(".{}", format_time(now))))
        }
        created => created,
    }
    .map_err(|error| errno(&error))?;
    copy(file, &mut new).inspect_err(|_| {
        let _ = std::fs::remove_file(&path);
    })?;
    Ok(path)
}

fn copy(file: &dyn DiskFile, to: &mut File) -> Result<(), Errno> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    loop {
        let read = file.read_at(&mut piece, at)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).map_err(|error| errno(&error))?;
        at += read as u64;
    }
}

/// See [`super::disk::Disk::sync_folder`].
pub(super) fn sync_folder(of: &Path) -> Result<(), Errno> {
    let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(|error| errno(&error))?;
    match rustix::fs::fsync(folder) {
        // The file system doesn't support a sync of folders.
        Err(Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
