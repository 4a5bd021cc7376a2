//! The way into a file past the page cache: bytes are gathered in one aligned buffer and written
//! with `O_DIRECT`, whole blocks at a time.
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

/// Bytes that are written at a time.
const CAPACITY: usize = 4 << 20;
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

/// What was used, for the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectUse {
    /// Bytes in the file that were written past the page cache.
    pub(super) bytes: u64,
    /// System calls.
    pub(super) calls: u64,
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
    in_file: u64,
    /// Space is allocated up to here.
    allocated: u64,
    /// For so many bytes it is allocated next; 0 where it can't be.
    allocation: u64,
    used: DirectUse,
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
            in_file: end,
            allocated: end,
            allocation: FIRST_ALLOCATION,
            used: DirectUse::default(),
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

    /// What was used so far.
    pub(super) fn used(&self) -> DirectUse {
        self.used
    }

    /// Takes all the pieces. Where that fails, [`DirectWriter::end`] tells how much was taken.
    pub(super) fn append(&mut self, pieces: &[&[u8]]) -> Result<(), DirectError> {
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                if self.len == CAPACITY {
                    self.write_out()?;
                }
                let (now, later) = rest.split_at(rest.len().min(CAPACITY - self.len));
                self.buffer.bytes()[self.len..][..now.len()].copy_from_slice(now);
                self.len += now.len();
                rest = later;
            }
        }
        Ok(())
    }

    /// Has everything that was appended in the file, with zeros up to the end of a block.
    pub(super) fn write_out(&mut self) -> Result<(), DirectError> {
        if self.clean == self.len {
            return Ok(());
        }
        let is_truncated = self.file.state().map_err(DirectError::Failed)?.bytes < self.in_file;
        self.used.calls += 1;
        if is_truncated {
            return Err(DirectError::Truncated);
        }
        let block = self.direct.block;
        let first = self.clean / block * block;
        let padded = self.len.next_multiple_of(block);
        self.buffer.bytes()[self.len..padded].fill(0);
        self.allocate(self.base + padded as u64);
        let mut at = first;
        while at < padded {
            let bytes = IoSlice::new(&self.buffer.bytes()[at..padded]);
            let written = self.direct.file.write_at(&[bytes], self.base + at as u64);
            self.used.calls += 1;
            match written.map_err(DirectError::Failed)? {
                // Less than a block: somebody else has to find out why.
                written if written < block => return Err(DirectError::Failed(Errno::INVAL)),
                written => at += written / block * block,
            }
            self.clean = at.min(self.len);
            self.in_file = self.base + at as u64;
        }
        self.used.bytes += (self.len - first) as u64;
        let whole = self.len / block * block;
        self.buffer.bytes().copy_within(whole..self.len, 0);
        self.base += whole as u64;
        self.len -= whole;
        self.clean = self.len;
        Ok(())
    }

    /// Has space allocated ahead. Where there is none, a write finds out.
    fn allocate(&mut self, end: u64) {
        if self.allocation == 0 || end <= self.allocated {
            return;
        }
        let ahead = end + self.allocation;
        self.used.calls += 1;
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
