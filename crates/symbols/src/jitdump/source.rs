//! Reads bytes and numbers of a dump at any offset, through a buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes per read.
const WINDOW: usize = 1 << 16;

/// A source of bytes that can be read at any offset: a file, or memory.
pub trait ReadAt {
    /// Fills a buffer from an offset. Returns the number of bytes, fewer than the buffer's only at
    /// the end of the source.
    ///
    /// # Errors
    /// Fails if the system can't read the file.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(offset..).unwrap_or_default();
        let read = rest.len().min(into.len());
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}

/// The byte order of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Endian {
    #[default]
    Little,
    Big,
}

impl Endian {
    /// Returns the byte order in which the first word is the magic number.
    pub(super) fn of_magic(bytes: &[u8], magic: u32) -> Option<Self> {
        [Self::Little, Self::Big].into_iter().find(|endian| endian.u32(bytes, 0) == magic)
    }

    /// Returns the number at an offset; 0 beyond the end.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let number = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
        let number = number.unwrap_or_default();
        if self == Self::Little { u32::from_le_bytes(number) } else { u32::from_be_bytes(number) }
    }

    /// Returns the number at an offset; 0 beyond the end.
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let number = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
        let number = number.unwrap_or_default();
        if self == Self::Little { u64::from_le_bytes(number) } else { u64::from_be_bytes(number) }
    }
}

/// A buffer that moves through a source.
pub(super) struct Window<'a, S> {
    source: &'a S,
    at: u64,
    bytes: Vec<u8>,
}

impl<'a, S: ReadAt> Window<'a, S> {
    pub(super) fn new(source: &'a S) -> Self {
        Self { source, at: 0, bytes: Vec::new() }
    }

    /// Reads this many bytes, at most a window's; `None` if the source has fewer.
    pub(super) fn bytes(&mut self, at: u64, size: u64) -> io::Result<Option<&[u8]>> {
        let Ok(size) = usize::try_from(size) else { return Ok(None) };
        let begins = |window: &Self| usize::try_from(at.checked_sub(window.at)?).ok();
        let lies_in = |window: &Self| {
            let begin = begins(window)?;
            (begin.checked_add(size)? <= window.bytes.len()).then_some(begin)
        };
        if lies_in(self).is_none() {
            self.bytes.resize(WINDOW, 0);
            let read = self.source.read_at(&mut self.bytes, at)?;
            self.bytes.truncate(read);
            self.at = at;
        }
        Ok(lies_in(self).map(|begin| &self.bytes[begin..begin + size]))
    }

    /// Whether the source has all bytes up to this offset.
    pub(super) fn has(&mut self, end: u64) -> io::Result<bool> {
        let is_seen = end <= self.at.saturating_add(self.bytes.len() as u64);
        Ok(is_seen || self.source.read_at(&mut [0], end - 1)? == 1)
    }

    /// Whether the source ends at this offset.
    pub(super) fn is_end(&self, at: u64) -> io::Result<bool> {
        Ok(self.source.read_at(&mut [0], at)? == 0)
    }
}
