//! The way into a file past the page cache: bytes are gathered in one aligned buffer and written
//! with `O_DIRECT`, whole blocks at a time. Long pieces that lie in memory as they will in the file
//! are written from there.
//!
//! ```text
//! file    | written ............. | buffer: whole blocks, then a part of one |
//! flush                           | written, the part with zeros behind it   |   the part stays in the buffer
//! ```
//! The block that the data end in is written at each flush that has something new, and again when
//! it has grown. Other writes to the file go through the page cache, to blocks that lie before.

use std::io::IoSlice;
use std::sync::Arc;

use rustix::io::Errno;

use super::disk::{DirectFile, DiskFile};

/// Bytes of the buffer.
const CAPACITY: usize = 1 << 20;
/// A piece of so many bytes is worth a write of its own.
const THROUGH: usize = 64 << 10;
/// Space is allocated for so many bytes at first, and each time for twice as many.
const FIRST_ALLOCATION: u64 = 16 << 20;
/// The most bytes for which space is allocated ahead.
const LARGEST_ALLOCATION: u64 = 256 << 20;

/// Why bytes can't be written past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectError {
    /// Somebody made the file shorter.
    Truncated,
    /// The kernel's own.
    Failed(Errno),
}

/// Writes to a file past the page cache.
#[derive(Debug)]
pub(super) struct DirectWriter {
    /// Through the page cache.
    file: Arc<dyn DiskFile>,
    direct: DirectFile,
    buffer: AlignedBuffer,
    /// Where the buffer belongs in the file: the beginning of a block.
    base: u64,
    /// Bytes in the buffer.
    len: usize,
    /// Of them, those that are in the file already.
    clean: usize,
    /// The file is at least so long, unless somebody truncates it.
    least_size: u64,
    /// Space is allocated up to here.
    allocated: u64,
    /// For so many bytes it is allocated next; 0 where it can't be.
    allocation: u64,
    calls: u64,
}

impl DirectWriter {
    /// The next byte belongs at `end`, to which the file was written.
    ///
    /// # Errors
    /// The block that `end` lies in can't be read.
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

    /// Where the next byte belongs.
    pub(super) fn end(&self) -> u64 {
        self.base + self.len as u64
    }

    /// So many bytes are in the file.
    pub(super) fn in_file(&self) -> u64 {
        self.base + self.clean as u64
    }

    /// System calls that this took.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Takes all the pieces. Where that fails, [`DirectWriter::end`] tells how much was taken.
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

    /// Copies bytes that find room in the buffer.
    fn take(&mut self, bytes: &[u8]) {
        self.buffer.bytes()[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Writes the whole blocks of a long piece from where it lies, if that is as far from a block's
    /// beginning as its place in the file. Returns how many bytes were taken.
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

    /// Has everything that was appended in the file, with zeros up to the end of a block.
    pub(super) fn write_out(&mut self) -> Result<(), DirectError> {
        if self.clean == self.len { Ok(()) } else { self.write(&[]) }
    }

    /// Writes the buffer, from the first block on that has something new, and whole blocks behind it:
    /// where there are some, the buffer holds whole ones too.
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
                // Less than a block: somebody else has to find out why.
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

    /// So many bytes of the buffer are in the file, and so many that lie behind it. What is left in
    /// the buffer is the block that the data end in.
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

    /// Has space allocated ahead. Where there is none, a write finds out.
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

    /// What is in no file as yet, and where it belongs.
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
    /// `align`: a power of two.
    fn new(len: usize, align: usize) -> Self {
        let memory = vec![0; len + align];
        let first = memory.as_ptr().align_offset(align).min(align);
        Self { memory, first, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.first..][..self.len]
    }
}
