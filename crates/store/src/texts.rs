//! Interned texts.

use std::num::NonZeroU32;

use bytes::Bytes;
use foldhash::fast::RandomState;
use indexmap::IndexSet;

/// Longest text in bytes. A longer one is cut.
pub const MAX_TEXT_BYTES: usize = 1 << 10;

/// A text of one [`SegmentBuilder`](crate::SegmentBuilder).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(NonZeroU32);

impl TextId {
    /// Returns the number that stands for the text in a column.
    pub(crate) fn code(self) -> u32 {
        self.0.get()
    }
}

/// Returns the number that stands for a text or, as 0, for NULL.
pub(crate) fn code(id: Option<TextId>) -> u32 {
    id.map_or(0, TextId::code)
}

/// Distinct texts, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    texts: IndexSet<Bytes, RandomState>,
    bytes: usize,
}

impl TextTable {
    /// Returns the id of a text.
    pub(crate) fn intern(&mut self, text: &str) -> TextId {
        let text = text.as_bytes();
        let at = self.texts.get_index_of(text).unwrap_or_else(|| {
            self.bytes += text.len();
            self.texts.insert_full(Bytes::copy_from_slice(text)).0
        });
        id(at)
    }

    /// Returns the id of a text that a file has.
    pub(crate) fn intern_bytes(&mut self, text: &Bytes) -> TextId {
        let at = self.texts.get_index_of(text).unwrap_or_else(|| {
            self.bytes += text.len();
            self.texts.insert_full(Bytes::copy_from_slice(text)).0
        });
        id(at)
    }

    /// Returns the text of a column's number; `None` for NULL.
    pub(crate) fn get(&self, code: u32) -> Option<&Bytes> {
        self.texts.get_index((code as usize).checked_sub(1)?)
    }

    /// Returns whether the table has the text.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.texts.contains(text.as_bytes())
    }

    /// Returns the length of all texts together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the memory that the texts take, about, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.texts.len() * 64
    }

    /// Returns, for each number, its text's place in the order of texts; NULL comes first.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..=count(self.texts.len())).collect();
        order.sort_unstable_by_key(|code| self.get(*code));
        let mut ranks = vec![0; order.len()];
        for (rank, code) in order.iter().enumerate() {
            ranks[*code as usize] = count(rank);
        }
        ranks
    }

    /// Forgets all texts.
    pub(crate) fn clear(&mut self) {
        self.texts.clear();
        self.bytes = 0;
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn id(at: usize) -> TextId {
    TextId(NonZeroU32::MIN.saturating_add(count(at)))
}

/// Cuts a text to at most `limit` bytes, at the end of a character.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}
