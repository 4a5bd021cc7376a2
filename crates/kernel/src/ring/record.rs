//! A record in a ring, decoded by its header alone.

use std::ops::Deref;

use tare_format::Endian;
use tare_format::record::RecordHeader;

use crate::mapping::{Mapping, RingSpan};

/// A record's bytes, including the header.
#[derive(Debug)]
pub struct RecordBytes<'a> {
    header: RecordHeader,
    span: RingSpan<'a>,
}

impl<'a> RecordBytes<'a> {
    /// Returns the first record of `span`. If its header's size is impossible or exceeds the span,
    /// the record's end is unknown: then all of the span counts as one record, so that the reader
    /// proceeds, and [`RecordBytes::is_whole`] returns false.
    pub(super) fn first_of(span: RingSpan<'a>) -> Option<Self> {
        if span.len() == 0 {
            return None;
        }
        let header = RecordHeader::decode(span.array().unwrap_or_default(), Endian::NATIVE);
        let fits = header.is_possible() && header.record_size() <= span.len();
        let end = if fits { header.record_size() } else { span.len() };
        Some(Self { header, span: span.split_at(end).0 })
    }

    /// `PERF_RECORD_*`.
    #[must_use]
    pub fn kind(&self) -> u32 {
        self.header.kind
    }

    /// `PERF_RECORD_MISC_*`.
    #[must_use]
    pub fn misc(&self) -> u16 {
        self.header.misc
    }

    /// Returns the record's size including its 8-byte header.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a record is never empty")]
    pub fn len(&self) -> usize {
        self.span.len()
    }

    /// Whether the header's size is the record's. The kernel writes no other; a partly overwritten
    /// record may look different.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.header.record_size() == self.span.len()
    }

    /// Returns the bytes in order; the second slice is empty unless the record wraps around the
    /// ring's end.
    #[must_use]
    pub fn slices(&self) -> [&'a [u8]; 2] {
        self.span.slices()
    }
}

/// A record whose place the kernel gets back when it is dropped. It can't be cloned and borrows the
/// ring, so only one is out at a time.
#[derive(Debug)]
pub struct RingRecord<'ring> {
    bytes: RecordBytes<'ring>,
    tail: &'ring mut u64,
    pub(super) mapping: &'ring Mapping,
}

impl<'ring> RingRecord<'ring> {
    pub(super) fn new(
        bytes: RecordBytes<'ring>,
        tail: &'ring mut u64,
        mapping: &'ring Mapping,
    ) -> Self {
        Self { bytes, tail, mapping }
    }
}

impl<'ring> Deref for RingRecord<'ring> {
    type Target = RecordBytes<'ring>;

    fn deref(&self) -> &Self::Target {
        &self.bytes
    }
}

impl Drop for RingRecord<'_> {
    fn drop(&mut self) {
        *self.tail = self.tail.wrapping_add(self.bytes.len() as u64);
        self.mapping.set_tail(*self.tail);
    }
}

/// The records in a run of bytes, in its order.
#[derive(Debug)]
pub struct Records<'a> {
    rest: RingSpan<'a>,
}

impl<'a> Records<'a> {
    pub(super) fn new(rest: RingSpan<'a>) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordBytes<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = RecordBytes::first_of(self.rest)?;
        self.rest = self.rest.split_at(record.len()).1;
        Some(record)
    }
}
