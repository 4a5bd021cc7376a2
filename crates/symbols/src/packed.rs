//! Decompression of kernel modules, kernel images and ELF sections.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::limits;

/// First bytes of compressed files (xz: section 2.1.1.1 of its format; zstd: RFC 8878; gzip: RFC
/// 1952).
const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const GZIP: &[u8] = b"\x1f\x8b";

/// Limit on the memory of a decompressor. `modules_install` makes dictionaries of at most 2 MiB;
/// the zstd program's limit is 128 MiB.
const DICTIONARY_BYTES: usize = 1 << 27;
const WINDOW_LOG: u32 = 27;

/// Returns the content of a compressed file, in memory, and any other file unchanged.
///
/// # Errors
/// Fails if the file can't be read or decompressed, and with `FileTooLarge` if the content is
/// larger than [`limits::UNPACKED_BYTES`] or than [`limits::UNPACKED_TIMES`] times the compressed
/// size.
pub(crate) fn unpacked(file: File) -> io::Result<File> {
    let mut begin = [0; 6];
    if file.read_at(&mut begin, 0)? < begin.len() {
        return Ok(file);
    }
    let most = file.metadata()?.len().saturating_mul(limits::UNPACKED_TIMES);
    let most = most.min(limits::UNPACKED_BYTES);
    if begin.starts_with(XZ) {
        in_memory(xz(file), most)
    } else if begin.starts_with(ZSTD) {
        let mut decoder = zstd::Decoder::new(file)?;
        decoder.window_log_max(WINDOW_LOG)?;
        in_memory(decoder, most)
    } else if begin.starts_with(GZIP) {
        in_memory(flate2::read::MultiGzDecoder::new(file), most)
    } else {
        Ok(file)
    }
}

/// Returns a reader that decompresses xz in bounded memory.
pub(crate) fn xz<R: Read + 'static>(packed: R) -> impl Read {
    const BUFFER: NonZeroUsize = NonZeroUsize::new(1 << 16).unwrap();
    let decoder = xz4rust::XzDecoder::in_heap_with_alloc_dict_size(1 << 20, DICTIONARY_BYTES);
    xz4rust::XzReader::new_with_buffer_size_and_decoder(packed, BUFFER, decoder)
}

/// Decompresses a section of `size` bytes with zlib.
pub(crate) fn zlib_section(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, size).ok()?;
    (bytes.len() == size).then_some(bytes)
}

/// Decompresses a section of `size` bytes with zstd.
pub(crate) fn zstd_section(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    // The window of a frame is limited to the size of the section, rounded up to a power of two,
    // but never to less than 8 MiB.
    const MIN_WINDOW_LOG: u32 = 23;
    let mut bytes = Vec::with_capacity(size);
    let mut reader = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
    let window = usize::BITS - size.leading_zeros();
    reader.window_log_max(window.clamp(MIN_WINDOW_LOG, WINDOW_LOG)).ok()?;
    reader.take(size as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() == size).then_some(bytes)
}

fn in_memory(content: impl Read, most: u64) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"unpacked", MemfdFlags::CLOEXEC)?);
    let copied = io::copy(&mut content.take(most.saturating_add(1)), &mut file)?;
    if copied > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    file.flush()?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn refuses_content_over_the_ratio_limit() {
        let zeros = vec![0_u8; 1 << 22];
        let packed = zstd::encode_all(&zeros[..], 1).unwrap();
        assert!((packed.len() as u64) * limits::UNPACKED_TIMES < zeros.len() as u64);
        let refused = unpacked(stored(&packed)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn returns_uncompressed_files_unchanged() {
        for content in [&b"\x7fELF and more"[..], b"", b"\xfd7z"] {
            let mut text = Vec::new();
            unpacked(stored(content)).unwrap().read_to_end(&mut text).unwrap();
            assert_eq!(text, content);
        }
        assert!(unpacked(stored(b"\xfd7zXZ\0 and damaged")).is_err());
    }
}
