//! Writes a file by few, large writes.

use std::io::IoSlice;
use std::sync::Arc;

use rustix::io::Errno;

use super::disk::DiskFile;

/// Limit of the kernel on pieces per call (`UIO_MAXIOV`).
const PIECES: usize = 1024;

/// Writes pieces to a file in sequence.
#[derive(Debug)]
pub(super) struct FileWriter {
    file: Arc<dyn DiskFile>,
    end: u64,
    calls: u64,
}

impl FileWriter {
    /// Continues at `end`.
    pub(super) fn new(file: Arc<dyn DiskFile>, end: u64) -> Self {
        Self { file, end, calls: 0 }
    }

    /// Number of system calls.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Offset of the next piece, after everything written, even if a write failed in the middle.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), Errno> {
        let Self { file, end, calls } = self;
        write_all(pieces, |pieces| {
            *calls += 1;
            let written = file.write_at(pieces, *end)?;
            *end += written as u64;
            Ok(written)
        })
    }

    /// Writes all pieces, followed by `behind`, which the next pieces overwrite.
    pub(super) fn append_before(&mut self, pieces: &[&[u8]], behind: &[u8]) -> Result<(), Errno> {
        let end = self.end + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let written = self.append(&[pieces, &[behind]].concat());
        self.end = self.end.min(end);
        written
    }

    /// Skips bytes that stay in the file: the next piece follows them.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.end += bytes;
    }
}

/// Writes all pieces to a stream.
pub(super) fn to_stream(
    file: &dyn DiskFile,
    pieces: &[&[u8]],
    end: &mut u64,
    calls: &mut u64,
) -> Result<(), Errno> {
    write_all(pieces, |pieces| {
        *calls += 1;
        let written = file.write(pieces)?;
        *end += written as u64;
        Ok(written)
    })
}

/// Calls `write` until it has taken all pieces.
fn write_all(
    pieces: &[&[u8]],
    mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut slices: Vec<IoSlice<'_>> =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| IoSlice::new(piece)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match write(&left[..left.len().min(PIECES)])? {
            // The file accepts nothing and gives no reason.
            0 => return Err(Errno::IO),
            written => IoSlice::advance_slices(&mut left, written),
        }
    }
    Ok(())
}

pub(super) fn write_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let mut end = offset;
    write_all(&[bytes], |pieces| {
        let written = file.write_at(pieces, end)?;
        end += written as u64;
        Ok(written)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pieces_than_a_call_takes_are_written_in_order() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let bytes: Vec<u8> = (0..2 * PIECES + 5).map(|number| number.to_le_bytes()[0]).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        let mut writer = FileWriter::new(Arc::clone(&file) as Arc<dyn DiskFile>, 7);
        writer.append(&pieces).unwrap();
        assert_eq!((writer.end(), writer.calls()), (7 + bytes.len() as u64, 3));
        let mut written = vec![0; bytes.len()];
        std::os::unix::fs::FileExt::read_exact_at(&*file, &mut written, 7).unwrap();
        assert!(written == bytes);
    }
}
