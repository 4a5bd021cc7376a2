//! The way that bytes take.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;

use super::account::Path;
use super::write::{self, FileWriter};

/// The way that bytes take.
#[derive(Debug)]
pub(super) enum Sink {
    /// Into a file, by writes.
    Write(FileWriter),
    /// Into a stream.
    Stream { file: File, end: u64 },
}

impl Sink {
    /// Where the next piece belongs: behind what arrived.
    pub(super) fn end(&self) -> u64 {
        match self {
            Self::Write(writer) => writer.end(),
            Self::Stream { end, .. } => *end,
        }
    }

    /// Takes all the pieces. Where that fails, [`Sink::end`] tells how much arrived.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), Errno> {
        match self {
            Self::Write(writer) => writer.append(pieces),
            Self::Stream { file, end } => write::to_stream(file, pieces, end),
        }
    }

    /// The name of the way.
    pub(super) fn path(&self) -> Path {
        match self {
            Self::Write(_) => Path::Write,
            Self::Stream { .. } => Path::Stream,
        }
    }
}

/// Writes a piece to its place in a file.
pub(super) fn write_at(file: &Arc<File>, bytes: &[u8], at: u64) -> Result<(), Errno> {
    file.write_all_at(bytes, at).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
