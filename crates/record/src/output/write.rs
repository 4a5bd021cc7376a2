//! The plain way into a file: few, large writes.

use std::io::IoSlice;
use std::sync::Arc;

use rustix::io::Errno;

use super::disk::DiskFile;

/// The kernel takes no more pieces in one call (`UIO_MAXIOV`).
const PIECES: usize = 1024;

/// Writes to a file one piece behind the other.
#[derive(Debug)]
pub(super) struct FileWriter {
    file: Arc<dyn DiskFile>,
    end: u64,
    calls: u64,
}

impl FileWriter {
    /// The next piece belongs at `end`.
    pub(super) fn new(file: Arc<dyn DiskFile>, end: u64) -> Self {
        Self { file, end, calls: 0 }
    }

    /// System calls that this took.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Where the next piece belongs: behind what was written, also where writing failed in the
    /// middle.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Writes all the pieces.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), Errno> {
        let Self { file, end, calls } = self;
        all(pieces, |pieces| {
            *calls += 1;
            let written = file.write_at(pieces, *end)?;
            *end += written as u64;
            Ok(written)
        })
    }

    /// Writes all the pieces, and `behind` them what the next pieces are to replace.
    pub(super) fn append_before(&mut self, pieces: &[&[u8]], behind: &[u8]) -> Result<(), Errno> {
        let end = self.end + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let written = self.append(&[pieces, &[behind]].concat());
        self.end = self.end.min(end);
        written
    }

    /// Leaves so many bytes where they are: the next piece belongs behind them.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.end += bytes;
    }
}

/// Writes all the pieces to a stream.
pub(super) fn to_stream(
    file: &dyn DiskFile,
    pieces: &[&[u8]],
    end: &mut u64,
    calls: &mut u64,
) -> Result<(), Errno> {
    all(pieces, |pieces| {
        *calls += 1;
        let written = file.write(pieces)?;
        *end += written as u64;
        Ok(written)
    })
}

/// Hands the pieces to `write` until it has taken them all.
fn all(
    pieces: &[&[u8]],
    mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut slices: Vec<IoSlice<'_>> =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| IoSlice::new(piece)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match write(&left[..left.len().min(PIECES)])? {
            // A file that takes nothing and has no reason.
            0 => return Err(Errno::IO),
            written => IoSlice::advance_slices(&mut left, written),
        }
    }
    Ok(())
}

/// Writes bytes to their place in a file.
pub(super) fn write_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let mut end = offset;
    all(&[bytes], |pieces| {
        let written = file.write_at(pieces, end)?;
        end += written as u64;
        Ok(written)
    })
}
