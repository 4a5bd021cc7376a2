//! The header at the front of a recording.

use crate::bytes::{Cursor, Endian};

/// Bytes of a pipe's header, and of the fields that both headers share.
pub(super) const PIPE_HEADER_SIZE: usize = 16;
/// Bytes of a file's header before its first field about features.
pub(super) const HEADER_SIZE_WITHOUT_FEATURES: usize = 72;
/// Bytes of a file's header.
pub(super) const FILE_HEADER_SIZE: usize = 104;

/// A range of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Offset in bytes from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub size: u64,
}

impl Section {
    pub(super) fn decode(fields: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { offset: fields.u64()?, size: fields.u64()? })
    }

    /// Returns the end offset; `None` if it overflows.
    #[must_use]
    pub fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// The layout of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A file, whose header locates its sections.
    File(FileHeader),
    /// A stream, written without seeking.
    Pipe,
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Bytes of one entry of the attribute section.
    pub attr_size: u64,
    /// The attribute section.
    pub attrs: Section,
    /// The records. The size is 0 if the recorder was killed before it wrote the size.
    pub data: Section,
    /// A bit is set for each feature section that the file has.
    pub features: [u64; 4],
}

impl FileHeader {
    /// Decodes the header from its third field on: the caller has read the magic number and the
    /// size.
    pub(super) fn decode(bytes: &[u8], endian: Endian) -> Option<Self> {
        let mut fields = Cursor::new(bytes, endian);
        let attr_size = fields.u64()?;
        let attrs = Section::decode(&mut fields)?;
        let data = Section::decode(&mut fields)?;
        let _event_types = Section::decode(&mut fields)?;
        let features = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        Some(Self { attr_size, attrs, data, features })
    }

    /// Iterates over the bits of the feature sections in ascending order, which is the order of
    /// their table.
    pub fn feature_bits(&self) -> impl Iterator<Item = u32> {
        let features = self.features;
        (0..256_u32).filter(move |bit| features[*bit as usize / 64] >> (bit % 64) & 1 == 1)
    }
}
