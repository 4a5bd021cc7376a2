//! Opening what `-i` names.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use tare_replay::{Error, Recording};
use tare_symbols::SymbolOptions;

use crate::command::archive::unpack::{is_archive, unpack};
use crate::command::vmlinux;

/// Refuses a recording that isn't there.
pub(crate) fn exists(path: &Path) -> Result<(), Error> {
    let is_there = path == Path::new("-") || path.exists();
    if is_there { Ok(()) } else { Err(Error::Absent(path.to_owned())) }
}

/// Opens a recording, or that in an archive, whose files symbols are then looked for in; `-` is
/// standard input.
pub(crate) fn open(path: &Path, symbols: &mut SymbolOptions) -> anyhow::Result<Recording> {
    let recording = opened(path, symbols)?;
    vmlinux::check(&recording, symbols)?;
    Ok(recording)
}

fn opened(path: &Path, symbols: &mut SymbolOptions) -> anyhow::Result<Recording> {
    if path != Path::new("-") && is_archive(path) {
        return Ok(Recording::open(&unpack(path, symbols)?)?);
    }
    if path != Path::new("-") {
        return Ok(Recording::open(path)?);
    }
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let failed = |source| Error::Open { path: path.to_owned(), source };
    Ok(Recording::from_file(stdin.map_err(failed)?, path)?)
}
