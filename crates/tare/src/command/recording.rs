//! `-i`: opens a recording, an archive or standard input.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use tare_kernel::file_window::catch_bus_errors;
use tare_replay::{Error, Recording};
use tare_symbols::SymbolOptions;
use tare_tui::ProgressLine;

use crate::command::archive::unpack::{is_archive, unpack};
use crate::command::vmlinux;
use crate::exit::Refusal;

/// Fails if the recording doesn't exist.
pub(crate) fn exists(path: &Path) -> Result<(), Error> {
    let is_there = path == Path::new("-") || path.exists();
    if is_there { Ok(()) } else { Err(Error::Absent(path.to_owned())) }
}

/// Words an error of reading a recording.
pub(crate) fn refusal(error: Error) -> anyhow::Error {
    match error {
        Error::NoSampleTimes => Refusal::usage(format!("--time: {error}")).into(),
        error => error.into(),
    }
}

/// Opens a recording, or unpacks an archive and opens the recording in it; symbols are then looked
/// up in the archive's files. `-` is standard input. Shows the progress of reading.
pub(crate) fn open(
    path: &Path,
    symbols: &mut SymbolOptions,
    progress: &ProgressLine,
) -> anyhow::Result<Recording> {
    // Another process may truncate a file while its debug info is read.
    catch_bus_errors();
    tare_kernel::heap::keep_large_blocks_apart();
    if is_archived(path) {
        progress.show_step(&format!("unpacking {}", path.display()));
    }
    let recording = opened(path, symbols)?;
    vmlinux::check(&recording, symbols)?;
    progress.read(&recording, path);
    Ok(recording)
}

fn is_archived(path: &Path) -> bool {
    path != Path::new("-") && is_archive(path)
}

fn opened(path: &Path, symbols: &mut SymbolOptions) -> anyhow::Result<Recording> {
    if is_archived(path) {
        return Ok(Recording::open(&unpack(path, symbols)?)?);
    }
    if path != Path::new("-") {
        return Ok(Recording::open(path)?);
    }
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let failed = |source| Error::Open { path: path.to_owned(), source };
    Ok(Recording::from_file(stdin.map_err(failed)?, path)?)
}
