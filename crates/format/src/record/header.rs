//! The header of a record: `struct perf_event_header` of `include/uapi/linux/perf_event.h`.

use perf_event_open_sys::bindings::{PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_KERNEL};

use crate::bytes::Endian;

/// A record would exceed the 65535 bytes that its header can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {size} bytes is too long: it can have at most 65535")]
pub struct TooLong {
    /// The size of the record in bytes.
    pub size: usize,
}

/// Bit in [`RecordHeader::misc`] of a sample whose call chain tare's recorder unwound: the chain
/// lacks its outermost callers. Kernels use bits 0 to 2 and 12 to 15, and perf ignores the others.
pub const MISC_TRUNCATED_CHAIN: u16 = 1 << 11;

/// The first 8 bytes of every record (`struct perf_event_header`), decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// The kind of record: see [`super::kind`].
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`; the meaning depends on the kind.
    pub misc: u16,
    /// Length of header and body together, in bytes.
    pub size: u16,
}

impl RecordHeader {
    /// Bytes of a header, and the smallest size of a record.
    pub const SIZE: usize = 8;

    /// Creates the header of a record with a body of `body` bytes.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn new(kind: u32, misc: u16, body: usize) -> Result<Self, TooLong> {
        let size = Self::SIZE.saturating_add(body);
        u16::try_from(size).map(|size| Self { kind, misc, size }).map_err(|_| TooLong { size })
    }

    /// Decodes a header. Its size may be less than 8: see [`RecordHeader::is_possible`].
    #[inline]
    #[must_use]
    pub fn decode(bytes: [u8; Self::SIZE], endian: Endian) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { kind: endian.u32([a, b, c, d]), misc: endian.u16([e, f]), size: endian.u16([g, h]) }
    }

    /// Decodes the header at the front of `bytes`; `None` if they are fewer than 8.
    #[inline]
    #[must_use]
    pub fn first(bytes: &[u8], endian: Endian) -> Option<Self> {
        bytes.first_chunk().map(|header| Self::decode(*header, endian))
    }

    /// Encodes the header in the byte order of this machine.
    #[inline]
    #[must_use]
    pub const fn encode(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = self.kind.to_ne_bytes();
        let [e, f] = self.misc.to_ne_bytes();
        let [g, h] = self.size.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Returns the size of the record in bytes.
    #[inline]
    #[must_use]
    pub const fn record_size(self) -> usize {
        self.size as usize
    }

    /// Whether the record's size is at least that of a header.
    #[inline]
    #[must_use]
    pub const fn is_possible(self) -> bool {
        self.record_size() >= Self::SIZE
    }

    /// Whether the CPU mode in `misc` is the kernel; for a sample: whether it interrupted the
    /// kernel.
    #[inline]
    #[must_use]
    pub const fn is_in_kernel(self) -> bool {
        self.misc as u32 & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_it_encoded() {
        let header = RecordHeader { kind: 0x0102_0304, misc: 0x0506, size: 0x0708 };
        assert_eq!(RecordHeader::decode(header.encode(), Endian::NATIVE), header);
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(RecordHeader::first(&bytes, Endian::Big), Some(header));
        let little = RecordHeader { kind: 0x0403_0201, misc: 0x0605, size: 0x0807 };
        assert_eq!(RecordHeader::first(&bytes, Endian::Little), Some(little));
        assert_eq!(RecordHeader::first(&bytes[..7], Endian::Big), None);
    }

    #[test]
    fn accepts_sizes_from_8_to_65535_bytes() {
        assert_eq!(RecordHeader::new(9, 2, 65_527).map(RecordHeader::record_size), Ok(65_535));
        assert_eq!(RecordHeader::new(9, 2, 65_528), Err(TooLong { size: 65_536 }));
        assert!(RecordHeader::new(9, 2, usize::MAX).is_err());
        assert!(RecordHeader { size: 8, ..RecordHeader::default() }.is_possible());
        assert!(!RecordHeader { size: 7, ..RecordHeader::default() }.is_possible());
    }

    #[test]
    fn the_mode_is_in_the_lowest_bits_of_misc() {
        let of = |misc| RecordHeader { misc, ..RecordHeader::default() };
        assert!(of(1).is_in_kernel() && of(0x4001).is_in_kernel());
        assert!(!of(2).is_in_kernel() && !of(5).is_in_kernel());
    }
}
