//! The part of a source that is in memory.

use std::io::{self, Read};

use crate::limits;

/// A buffer of [`limits::READ_BUFFER`] bytes that moves along a source.
///
/// ```text
///           start          filled          end (where it is known)
/// source ...|-- bytes() ---|...............|
///           ^ offset()
/// ```
#[derive(Debug)]
pub(super) struct Window<R> {
    source: R,
    buffer: Box<[u8]>,
    start: usize,
    filled: usize,
    /// Position of `buffer[start]`, in bytes from the start of the recording.
    offset: u64,
    /// Offset at which reading ends, if known.
    end: Option<u64>,
    at_end: bool,
}

impl<R: Read> Window<R> {
    /// Creates a window on a source that is positioned at `offset`.
    pub(super) fn new(source: R, offset: u64, end: Option<u64>) -> Self {
        let buffer = vec![0; limits::READ_BUFFER].into_boxed_slice();
        Self { source, buffer, start: 0, filled: 0, offset, end, at_end: false }
    }

    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.filled]
    }

    /// Reads until the window has `wanted` bytes. Returns `false` if the data ends first.
    pub(super) fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.filled - self.start >= wanted {
            return Ok(true);
        }
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        while self.filled < wanted {
            let read = self.read_once()?;
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads once from the source. Returns the number of bytes; 0 at the end.
    fn read_once(&mut self) -> io::Result<usize> {
        if self.at_end {
            return Ok(0);
        }
        let left = self.unread().and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
        let room = (self.buffer.len() - self.filled).min(left);
        let read = loop {
            match self.source.read(&mut self.buffer[self.filled..self.filled + room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.filled += read;
        self.at_end = read == 0;
        Ok(read)
    }

    /// Returns the number of bytes up to `end` that haven't been read from the source; `None`
    /// without an `end`.
    fn unread(&self) -> Option<u64> {
        Some(
            self.end?.saturating_sub(self.offset.saturating_add((self.filled - self.start) as u64)),
        )
    }

    /// Returns the next `size` bytes, or as many as the window holds, and moves past them.
    #[inline]
    pub(super) fn advance(&mut self, size: usize) -> &[u8] {
        let size = size.min(self.filled - self.start);
        let from = self.start;
        self.start += size;
        self.offset += size as u64;
        &self.buffer[from..from + size]
    }

    /// Skips up to `size` bytes. Returns the number of skipped bytes.
    pub(super) fn skip(&mut self, size: u64) -> io::Result<u64> {
        let mut left = size;
        while left > 0 && self.fill(1)? {
            let here = usize::try_from(left).unwrap_or(usize::MAX);
            left -= self.advance(here).len() as u64;
        }
        Ok(size - left)
    }

    /// Returns the next `size` bytes, or as many as there are. Memory grows with what is read, not
    /// with `size`.
    pub(super) fn read_vec(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size && self.fill(1)? {
            let left = usize::try_from(size - bytes.len() as u64).unwrap_or(usize::MAX);
            bytes.extend_from_slice(self.advance(left));
        }
        Ok(bytes)
    }

    /// Returns the number of bytes that the header promises and the source lacks, once the source
    /// has ended; `None` if the data is complete or its end isn't known.
    pub(super) fn missing(&self) -> Option<u64> {
        self.unread().filter(|left| *left > 0)
    }

    /// Ends reading at the current offset.
    pub(super) fn close(&mut self) {
        self.at_end = true;
        self.end = Some(self.offset);
    }
}
