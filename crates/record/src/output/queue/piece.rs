//! The bytes that wait in a queue, piece by piece.

/// Bytes that wait together.
pub(super) const PIECE: usize = 1 << 20;
/// Bytes of a page, at whose boundary a piece begins, or as far behind one as its place in the file.
const PAGE: usize = 4096;

/// Bytes that wait together, in memory that is used again.
#[derive(Default)]
pub(super) struct QueuedBytes {
    memory: Vec<u8>,
    /// Where they begin in it.
    first: usize,
}

impl QueuedBytes {
    /// In spare memory, for bytes that belong to this place in the file: long ones can then be
    /// written to blocks of it from where they lie.
    pub(super) fn new(mut memory: Vec<u8>, place: u64) -> Self {
        memory.clear();
        memory.reserve_exact(PIECE + 2 * PAGE);
        let phase = usize::try_from(place % PAGE as u64).unwrap_or(0);
        let first = memory.as_ptr().align_offset(PAGE).min(PAGE) + phase;
        memory.resize(first, 0);
        Self { memory, first }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.first..]
    }

    /// Adds some behind them.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }

    /// The memory, to be used again.
    pub(super) fn into_memory(self) -> Vec<u8> {
        self.memory
    }
}
