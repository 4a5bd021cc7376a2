//! The bytes that wait in a queue, piece by piece.

use rustix::io::Errno;
use tare_kernel::page_buffer::PageBuffer;

/// Bytes of the memory of a piece: those of a large page.
pub(super) const PIECE: usize = 2 << 20;
/// Bytes of a page, at whose boundary a piece begins, or as far behind one as its place in the file.
const PAGE: u64 = 4096;

/// An empty piece, in spare memory where there is some, for bytes that belong to this place in the
/// file: they can then be written to blocks of it from where they lie. `is_large`: many will come.
pub(super) fn empty(
    spare: Option<PageBuffer>,
    place: u64,
    is_large: bool,
) -> Result<PageBuffer, Errno> {
    let mut piece = spare.map_or_else(|| PageBuffer::new(PIECE, is_large), Ok)?;
    piece.clear(usize::try_from(place % PAGE).unwrap_or(0));
    Ok(piece)
}
