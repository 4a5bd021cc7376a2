//! Decompresses sections: ELF's format (`SHF_COMPRESSED`) with zlib or zstd, and GNU's older one
//! with zlib (`.zdebug_*`).

use std::borrow::Cow;

use object::Endianness;
use object::elf;
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader};

use crate::elf::Sections;
use crate::{limits, packed};

/// Limit on the bytes of a section per compressed byte. Debug info compresses to a third to a
/// tenth.
const MOST_RATIO: u64 = 256;

/// Returns the limit on the decompressed bytes of all sections of a file.
pub(super) fn most_bytes(file_bytes: usize) -> u64 {
    const EACH: u64 = 16;
    const FIXED: u64 = 1 << 26;
    let most = (file_bytes as u64).saturating_mul(EACH).saturating_add(FIXED);
    most.min(limits::DECOMPRESSED_BYTES)
}

/// Returns a section's bytes, decompressed if necessary. Decompressed bytes count against `left`.
/// `None` if the section is damaged, exceeds the limit, or has no bytes in the file.
pub(super) fn decompress<'d, H: FileHeader<Endian = Endianness>>(
    reader: &Sections<'d, H, &'d [u8]>,
    header: &'d H::SectionHeader,
    is_old: bool,
    left: &mut u64,
) -> Option<Cow<'d, [u8]>> {
    if header.sh_type(reader.endian) == elf::SHT_NOBITS {
        return None;
    }
    let raw = reader.mapped(header)?;
    if is_old {
        // "ZLIB", then the size in eight bytes, big-endian.
        let (size, packed) = raw.strip_prefix(b"ZLIB")?.split_first_chunk()?;
        let size = check_claimed_size(packed, u64::from_be_bytes(*size), left)?;
        return packed::zlib_section(packed, size).map(Cow::Owned);
    }
    let Some((compression, offset, _)) = header.compression(reader.endian, reader.data).ok()?
    else {
        return Some(Cow::Borrowed(raw));
    };
    let front =
        usize::try_from(offset.checked_sub(header.sh_offset(reader.endian).into())?).ok()?;
    let packed = raw.get(front..)?;
    let size = check_claimed_size(packed, compression.ch_size(reader.endian).into(), left)?;
    match compression.ch_type(reader.endian) {
        elf::ELFCOMPRESS_ZLIB => packed::zlib_section(packed, size),
        elf::ELFCOMPRESS_ZSTD => packed::zstd_section(packed, size),
        _ => None,
    }
    .map(Cow::Owned)
}

/// Returns the size that a header claims, if the compressed data can expand to it and the budget
/// allows it.
fn check_claimed_size(packed: &[u8], size: u64, left: &mut u64) -> Option<usize> {
    let most = (packed.len() as u64).saturating_mul(MOST_RATIO);
    *left = left.checked_sub(size).filter(|_| size <= most)?;
    usize::try_from(size).ok()
}
