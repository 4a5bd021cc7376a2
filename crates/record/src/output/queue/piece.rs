//! The bytes that wait in a queue, in pieces.

use rustix::io::Errno;
use tare_kernel::page_buffer::PageBuffer;

/// Bytes of a piece's memory: one large page.
pub(super) const PIECE: usize = 2 << 20;
/// Bytes of a page. A piece begins at the same offset from a page boundary as its place in the
/// file.
const PAGE: u64 = 4096;

/// Returns an empty piece, from spare memory if there is some. Its alignment matches the offset
/// `place` in the file, so that it can be written to blocks from where it lies. `is_large`: use
/// large pages, because many bytes will come.
pub(super) fn empty(
    spare: Option<PageBuffer>,
    place: u64,
    is_large: bool,
) -> Result<PageBuffer, Errno> {
    let mut piece = spare.map_or_else(|| PageBuffer::new(PIECE, is_large), Ok)?;
    piece.clear(usize::try_from(place % PAGE).unwrap_or(0));
    Ok(piece)
}
