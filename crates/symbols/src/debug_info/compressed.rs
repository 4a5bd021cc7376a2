//! Sections that are compressed: with zlib or zstd, as ELF has it (`SHF_COMPRESSED`), or with zlib
//! behind a header of GNU's own (`.zdebug_*`).

use std::borrow::Cow;
use std::io::Read;

use object::Endianness;
use object::elf;
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader};

use crate::elf::Sections;
use crate::limits;

/// Bytes of a section that one compressed byte can make, at most. Debug info takes a third to a
/// tenth of its size.
const MOST_RATIO: u64 = 256;

/// A section's bytes, decompressed where they have to be; `None` where they can't be had.
pub(super) fn decompress<'d, H: FileHeader<Endian = Endianness>>(
    reader: &Sections<'d, H, &'d [u8]>,
    header: &'d H::SectionHeader,
    is_old: bool,
) -> Option<Cow<'d, [u8]>> {
    if header.sh_type(reader.endian) == elf::SHT_NOBITS {
        return None;
    }
    let raw = reader.mapped(header)?;
    if is_old {
        // "ZLIB", and the size in eight bytes, the highest first.
        let (size, packed) = raw.strip_prefix(b"ZLIB")?.split_first_chunk()?;
        return zlib(packed, u64::from_be_bytes(*size)).map(Cow::Owned);
    }
    let Some((compression, offset, _)) = header.compression(reader.endian, reader.data).ok()?
    else {
        return Some(Cow::Borrowed(raw));
    };
    let front =
        usize::try_from(offset.checked_sub(header.sh_offset(reader.endian).into())?).ok()?;
    let packed = raw.get(front..)?;
    let size: u64 = compression.ch_size(reader.endian).into();
    match compression.ch_type(reader.endian) {
        elf::ELFCOMPRESS_ZLIB => zlib(packed, size),
        elf::ELFCOMPRESS_ZSTD => zstd(packed, size),
        _ => None,
    }
    .map(Cow::Owned)
}

/// The size that a header claims, if so many bytes can come from so few.
fn believed(packed: &[u8], size: u64) -> Option<usize> {
    let most = (packed.len() as u64).saturating_mul(MOST_RATIO).min(limits::DECOMPRESSED_BYTES);
    usize::try_from(size).ok().filter(|_| size <= most)
}

fn zlib(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let size = believed(packed, size)?;
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, size).ok()?;
    (bytes.len() == size).then_some(bytes)
}

fn zstd(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let size = believed(packed, size)?;
    let mut bytes = Vec::with_capacity(size);
    let reader = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
    reader.take(size as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() == size).then_some(bytes)
}
