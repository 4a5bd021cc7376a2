//! Writes a file past the page cache: bytes are gathered in one aligned buffer and written with
//! `O_DIRECT`, whole blocks at a time. Long pieces whose alignment in memory matches the file are
//! written from where they lie.
//!
//! ```text
//! file    | written ............. | buffer: whole blocks, then a partial one |
//! flush                           | written, the partial one zero-padded      |   it stays in the buffer
//! ```
//! The block in which the data end is written at each flush with new data, and again when it has
//! grown. Other writes to the file use the page cache, and only touch earlier blocks.

use std::io::IoSlice;
use std::sync::Arc;

use rustix::io::Errno;

use super::disk::{DirectFile, DiskFile};

/// Bytes of the buffer.
const CAPACITY: usize = 1 << 20;
/// Bytes from which a piece is written from where it lies.
const THROUGH: usize = 64 << 10;
/// Bytes for which space is allocated first. Each further allocation is twice as large, up to a
/// limit.
const FIRST_ALLOCATION: u64 = 16 << 20;
/// Limit on the bytes of one allocation.
const LARGEST_ALLOCATION: u64 = 256 << 20;

/// Why bytes can't be written past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectError {
    /// The file was truncated.
    Truncated,
    /// The kernel's error.
    Failed(Errno),
}

/// Writes to a file past the page cache.
#[derive(Debug)]
pub(super) struct DirectWriter {
    /// The file through the page cache.
    file: Arc<dyn DiskFile>,
    direct: DirectFile,
    buffer: AlignedBuffer,
    /// Offset of the buffer in the file: the beginning of a block.
    base: u64,
    /// Bytes in the buffer.
    len: usize,
    /// Bytes at the front of the buffer that are already in the file.
    clean: usize,
    /// Smallest possible size of the file, unless another process truncates it.
    least_size: u64,
    /// Offset up to which space is allocated.
    allocated: u64,
    /// Bytes of the next allocation; 0 if the file system can't allocate.
    allocation: u64,
    calls: u64,
}

impl DirectWriter {
    /// Continues at `end`, up to which the file was written.
    ///
    /// # Errors
    /// Fails if the block that contains `end` can't be read.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        direct: DirectFile,
        end: u64,
    ) -> Result<Self, Errno> {
        let mut buffer = AlignedBuffer::new(CAPACITY, direct.block);
        let base = end / direct.block as u64 * direct.block as u64;
        let len = usize::try_from(end - base).map_err(|_| Errno::FBIG)?;
        let mut read = 0;
        while read < len {
            match file.read_at(&mut buffer.bytes()[read..len], base + read as u64)? {
                0 => return Err(Errno::IO),
                more => read += more,
            }
        }
        Ok(Self {
            file,
            direct,
            buffer,
            base,
            len,
            clean: len,
            least_size: end,
            allocated: end,
            allocation: FIRST_ALLOCATION,
            calls: 0,
        })
    }

    /// Offset of the next byte.
    pub(super) fn end(&self) -> u64 {
        self.base + self.len as u64
    }

    /// Bytes in the file.
    pub(super) fn in_file(&self) -> u64 {
        self.base + self.clean as u64
    }

    /// Number of system calls.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Appends all pieces.
    ///
    /// # Errors
    /// On failure, [`DirectWriter::end`] shows how much was taken.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), DirectError> {
        for piece in pieces {
            let mut rest = &piece[self.write_through(piece)?..];
            while !rest.is_empty() {
                if self.len == CAPACITY {
                    self.write_out()?;
                }
                let (now, later) = rest.split_at(rest.len().min(CAPACITY - self.len));
                self.take(now);
                rest = later;
            }
        }
        Ok(())
    }

    /// Copies bytes into the buffer, which has room for them.
    fn take(&mut self, bytes: &[u8]) {
        self.buffer.bytes()[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Writes the whole blocks of a long piece from where it lies, if it is aligned like its place
    /// in the file. Returns the number of bytes written.
    fn write_through(&mut self, piece: &[u8]) -> Result<usize, DirectError> {
        let block = self.direct.block;
        let head = self.len.next_multiple_of(block) - self.len;
        let lies_right = piece.len() >= THROUGH.max(2 * block)
            && piece[head..].as_ptr().align_offset(block) == 0;
        if !lies_right {
            return Ok(0);
        }
        let taken = head + (piece.len() - head) / block * block;
        self.take(&piece[..head]);
        self.write(&piece[head..taken])?;
        Ok(taken)
    }

    /// Writes everything appended, with zeros up to the end of the block.
    pub(super) fn write_out(&mut self) -> Result<(), DirectError> {
        if self.clean == self.len { Ok(()) } else { self.write(&[]) }
    }

    /// Writes the buffer from its first changed block on, followed by whole blocks of `behind`. If
    /// `behind` isn't empty, the buffer must consist of whole blocks.
    fn write(&mut self, behind: &[u8]) -> Result<(), DirectError> {
        let is_truncated = self.file.state().map_err(DirectError::Failed)?.bytes < self.least_size;
        self.calls += 1;
        if is_truncated {
            return Err(DirectError::Truncated);
        }
        let block = self.direct.block;
        let padded = self.len.next_multiple_of(block);
        self.buffer.bytes()[self.len..padded].fill(0);
        let all = padded + behind.len();
        self.allocate(self.base + all as u64);
        let mut at = self.clean / block * block;
        while at < all {
            let pieces = [
                IoSlice::new(self.buffer.bytes().get(at..padded).unwrap_or_default()),
                IoSlice::new(&behind[at.saturating_sub(padded)..]),
            ];
            let written = self.direct.file.write_at(&pieces, self.base + at as u64);
            self.calls += 1;
            match written {
                // After a short write, the next one returns the reason.
                Ok(written) if written >= block => at += written / block * block,
                failed => {
                    self.advance(at.min(padded), at.saturating_sub(padded));
                    return Err(DirectError::Failed(failed.err().unwrap_or(Errno::INVAL)));
                }
            }
        }
        self.advance(padded, behind.len());
        Ok(())
    }

    /// Notes that bytes of the buffer, and `behind` bytes after them, are in the file. The block in
    /// which the data end stays in the buffer.
    fn advance(&mut self, of_buffer: usize, behind: usize) {
        self.least_size = self.least_size.max(self.base + (of_buffer + behind) as u64);
        self.clean = of_buffer.min(self.len);
        if behind > 0 {
            self.base += (self.len + behind) as u64;
            (self.len, self.clean) = (0, 0);
        } else if self.clean == self.len {
            let whole = self.len / self.direct.block * self.direct.block;
            self.buffer.bytes().copy_within(whole..self.len, 0);
            self.base += whole as u64;
            self.len -= whole;
            self.clean = self.len;
        }
    }

    /// Allocates space ahead. If the disk is full, a later write reports it.
    fn allocate(&mut self, end: u64) {
        if self.allocation == 0 || end <= self.allocated {
            return;
        }
        let ahead = end + self.allocation;
        self.calls += 1;
        if self.file.allocate(self.allocated, ahead - self.allocated).is_ok() {
            self.allocated = ahead;
            self.allocation = (2 * self.allocation).min(LARGEST_ALLOCATION);
        } else {
            self.allocation = 0;
        }
    }

    /// Returns the bytes that are not in the file yet, and their offset.
    pub(super) fn rest(&mut self) -> (u64, &[u8]) {
        (self.base + self.clean as u64, &self.buffer.bytes()[self.clean..self.len])
    }

    /// The file, through the page cache.
    pub(super) fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file)
    }
}

/// Memory that begins at a multiple of a block's size.
#[derive(Debug)]
struct AlignedBuffer {
    memory: Vec<u8>,
    first: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `align` must be a power of two.
    fn new(len: usize, align: usize) -> Self {
        let memory = vec![0; len + align];
        let first = memory.as_ptr().align_offset(align).min(align);
        Self { memory, first, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.first..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const BLOCK: usize = 4096;

    /// A writer in blocks to a file that has these bytes.
    fn writer(begun: &[u8]) -> (Arc<File>, DirectWriter) {
        let file = Arc::new(tempfile::tempfile().unwrap());
        file.write_all_at(begun, 0).unwrap();
        let direct = DirectFile { file: Arc::clone(&file) as Arc<dyn DiskFile>, block: BLOCK };
        let through = Arc::clone(&file) as Arc<dyn DiskFile>;
        let writer = DirectWriter::new(through, direct, begun.len() as u64).unwrap();
        (file, writer)
    }

    fn content(file: &File, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn bytes_follow_the_earlier_ones_in_whole_blocks() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut all = vec![1; 5000];
        let (file, mut writer) = writer(&all);
        for _ in 0..200 {
            let len = [10, 5000, 300_000][random.usize(..3)];
            let piece: Vec<u8> = (0..random.usize(1..len)).map(|_| random.u8(..)).collect();
            writer.append(&[&piece]).unwrap();
            all.extend(piece);
            assert_eq!(writer.end(), all.len() as u64);
            if random.bool() {
                writer.write_out().unwrap();
                assert_eq!(writer.in_file(), all.len() as u64);
                let len = file.metadata().unwrap().len();
                assert!(len.is_multiple_of(BLOCK as u64) && len >= all.len() as u64);
            }
            let in_file = usize::try_from(writer.in_file()).unwrap();
            let (offset, rest) = writer.rest();
            assert!(offset == in_file as u64 && rest == &all[in_file..]);
        }
        writer.write_out().unwrap();
        assert!(content(&file, all.len()) == all);
    }

    #[test]
    fn a_truncated_file_is_not_written() {
        let (file, mut writer) = writer(&[1; 100]);
        writer.append(&[&[2; 5000]]).unwrap();
        writer.write_out().unwrap();
        file.set_len(50).unwrap();
        writer.append(&[&[3; 10]]).unwrap();
        assert_eq!(writer.write_out(), Err(DirectError::Truncated));
        assert_eq!(file.metadata().unwrap().len(), 50);
    }
}
