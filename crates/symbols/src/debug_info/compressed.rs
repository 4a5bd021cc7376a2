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

/// Bytes that the sections of a file may take together.
pub(super) fn most_bytes(file_bytes: usize) -> u64 {
    const EACH: u64 = 16;
    const FIXED: u64 = 1 << 26;
    let most = (file_bytes as u64).saturating_mul(EACH).saturating_add(FIXED);
    most.min(limits::DECOMPRESSED_BYTES)
}

/// A section's bytes, decompressed where they have to be: at most `left`, which gets less. `None`
/// where they can't be had.
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
        // "ZLIB", and the size in eight bytes, the highest first.
        let (size, packed) = raw.strip_prefix(b"ZLIB")?.split_first_chunk()?;
        return zlib(packed, u64::from_be_bytes(*size), left).map(Cow::Owned);
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
        elf::ELFCOMPRESS_ZLIB => zlib(packed, size, left),
        elf::ELFCOMPRESS_ZSTD => zstd(packed, size, left),
        _ => None,
    }
    .map(Cow::Owned)
}

/// The size that a header claims, if so many bytes can come from so few, and are left.
fn believed(packed: &[u8], size: u64, left: &mut u64) -> Option<usize> {
    let most = (packed.len() as u64).saturating_mul(MOST_RATIO);
    *left = left.checked_sub(size).filter(|_| size <= most)?;
    usize::try_from(size).ok()
}

fn zlib(packed: &[u8], size: u64, left: &mut u64) -> Option<Vec<u8>> {
    let size = believed(packed, size, left)?;
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, size).ok()?;
    (bytes.len() == size).then_some(bytes)
}

fn zstd(packed: &[u8], size: u64, left: &mut u64) -> Option<Vec<u8>> {
    // What a frame may have its reader hold, as a power of two: no more than the bytes themselves.
    const WINDOWS: (u32, u32) = (23, 27);
    let size = believed(packed, size, left)?;
    let mut bytes = Vec::with_capacity(size);
    let mut reader = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
    let window = usize::BITS - size.leading_zeros();
    reader.window_log_max(window.clamp(WINDOWS.0, WINDOWS.1)).ok()?;
    reader.take(size as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() == size).then_some(bytes)
}
