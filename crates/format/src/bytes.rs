//! Reads numbers and text from bytes, in the byte order of the machine that wrote them.

/// The byte order of a recording, which is that of the recorded machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of this machine, and of records that come straight from its kernel.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// Decodes a number of two bytes.
    #[must_use]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Decodes a number of four bytes.
    #[must_use]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Decodes a number of eight bytes.
    #[must_use]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Consecutive numbers of eight bytes, such as a call chain, register values or ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    bytes: &'a [[u8; 8]],
    endian: Endian,
}

impl<'a> Words<'a> {
    /// Wraps the whole words in `bytes`. A remainder of fewer than eight bytes is ignored.
    #[must_use]
    pub fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes: bytes.as_chunks().0, endian }
    }

    /// Returns the number of words.
    #[must_use]
    pub fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no words.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the word at `index`, counted from 0; `None` past the end.
    #[must_use]
    pub fn get(self, index: usize) -> Option<u64> {
        self.bytes.get(index).map(|bytes| self.endian.u64(*bytes))
    }

    /// Iterates over the words in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + 'a {
        self.bytes.iter().map(move |bytes| self.endian.u64(*bytes))
    }
}

/// Takes values off the front of a slice. If too few bytes are left for one, the method returns
/// `None` and takes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { rest: bytes, endian }
    }

    /// Returns the bytes that aren't taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn endian(&self) -> Endian {
        self.endian
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| self.endian.u16(bytes))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| self.endian.u32(bytes))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| self.endian.u64(bytes))
    }

    /// Takes a signed number, such as a pid.
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    /// Takes the next `size` bytes. `size` may come unchecked from a file.
    pub(crate) fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(size).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// Takes the next `count` words of eight bytes. `count` may come unchecked from a file.
    pub(crate) fn words(&mut self, count: u64) -> Option<Words<'a>> {
        Some(Words::new(self.take(count.checked_mul(8)?)?, self.endian))
    }

    /// Returns the rest up to its first NUL, or all of it, without taking it.
    pub(crate) fn text(&self) -> &'a [u8] {
        until_nul(self.rest)
    }

    /// Takes a `struct perf_header_string`: a length in four bytes, then that many bytes, padded
    /// with NUL. Returns the bytes before the first NUL.
    pub(crate) fn header_string(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = ahead.u32()?;
        let text = ahead.take(len.into())?;
        *self = ahead;
        Some(until_nul(text))
    }
}

/// Returns the bytes before the first NUL; all bytes if there is no NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_numbers_in_both_byte_orders() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Cursor::new(&bytes, Endian::Little).u64(), Some(0x0807_0605_0403_0201));
        assert_eq!(Cursor::new(&bytes, Endian::Big).u64(), Some(0x0102_0304_0506_0708));
        assert_eq!(Cursor::new(&bytes, Endian::Big).u16(), Some(0x0102));
        assert_eq!(Cursor::new(&bytes, Endian::Big).u32(), Some(0x0102_0304));
    }

    #[test]
    fn takes_nothing_if_too_few_bytes_are_left() {
        let mut cursor = Cursor::new(&[1, 0, 0], Endian::Little);
        assert_eq!(cursor.u32(), None);
        assert_eq!(cursor.take(u64::MAX), None);
        assert_eq!(cursor.words(u64::MAX), None);
        assert_eq!(cursor.u16(), Some(1));
        assert_eq!(cursor.rest(), [0]);
    }

    #[test]
    fn a_header_string_ends_at_its_nul() {
        let mut cursor = Cursor::new(b"\x04\0\0\0ab\0\0\xff\0\0\0", Endian::Little);
        assert_eq!(cursor.header_string(), Some(&b"ab"[..]));
        assert_eq!(cursor.header_string(), None, "255 bytes are not there");
        assert_eq!(cursor.u32(), Some(255), "and nothing was taken");
    }

    #[test]
    fn words_ignore_a_remainder() {
        let words = Words::new(&[1, 0, 0, 0, 0, 0, 0, 0, 9], Endian::Little);
        assert_eq!(words.iter().collect::<Vec<_>>(), [1]);
        assert_eq!((words.len(), words.get(0), words.get(1)), (1, Some(1), None));
    }
}
