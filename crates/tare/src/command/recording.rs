//! Opening what `-i` names.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use tare_replay::{Error, Recording};

/// Refuses a recording that isn't there.
pub(crate) fn exists(path: &Path) -> Result<(), Error> {
    let is_there = path == Path::new("-") || path.exists();
    if is_there { Ok(()) } else { Err(Error::Absent(path.to_owned())) }
}

/// Opens a recording; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Recording, Error> {
    if path != Path::new("-") {
        return Recording::open(path);
    }
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let failed = |source| Error::Open { path: path.to_owned(), source };
    Recording::from_file(stdin.map_err(failed)?, path)
}
