//! Texts, each kept once.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::limits;

/// A text's number in [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextId(NonZeroU32);

impl TextId {
    /// Counted from 0, in the order in which texts came.
    pub(crate) fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// An id of nothing where there are too many texts for a number.
    fn new(number: usize) -> Self {
        let behind = u32::try_from(number).map_or(u32::MAX, |number| number.saturating_add(1));
        Self(NonZeroU32::new(behind).unwrap_or(NonZeroU32::MAX))
    }
}

/// Names and paths. A file can have many names that overlap: when those that were kept take more
/// room than names of a real file do, further ones are cut short.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, TextId, foldhash::fast::RandomState>,
    bytes: usize,
    /// Bytes from which on texts are cut short.
    most: usize,
}

impl Texts {
    /// Texts of a file with so many bytes of names.
    pub(crate) fn new(file_bytes: usize) -> Self {
        Self { most: file_bytes.saturating_mul(2).saturating_add(1 << 20), ..Self::default() }
    }

    /// Keeps a text. What is no UTF-8 is replaced; what is longer than a reader's limit is cut.
    pub(crate) fn add(&mut self, text: &[u8]) -> TextId {
        let longest =
            if self.bytes > self.most { limits::SHORT_NAME_BYTES } else { limits::NAME_BYTES };
        self.add_text(&String::from_utf8_lossy(&text[..text.len().min(longest)]))
    }

    fn add_text(&mut self, text: &str) -> TextId {
        self.ids.get(text).copied().unwrap_or_else(|| self.add_new(text.into()))
    }

    fn add_new(&mut self, text: Arc<str>) -> TextId {
        let id = TextId::new(self.texts.len());
        self.bytes += text.len();
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// Takes over all texts of another; the result has their numbers here, by their numbers there.
    pub(crate) fn append(&mut self, other: &Self) -> Vec<TextId> {
        let add = |text: &Arc<str>| {
            let known = self.ids.get(text).copied();
            known.unwrap_or_else(|| self.add_new(Arc::clone(text)))
        };
        other.texts.iter().map(add).collect()
    }

    /// A text; empty for an id of others.
    pub(crate) fn get(&self, id: TextId) -> &str {
        self.texts.get(id.number() as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_long_ones_do_not_fill_memory() {
        let mut texts = Texts::new(0);
        let id = texts.add(b"main");
        assert_eq!((texts.add(b"main"), texts.get(id)), (id, "main"));
        let long = vec![b'x'; 1 << 20];
        for at in 0..10_000 {
            texts.add(&long[at..]);
            texts.add(&[&at.to_string().into_bytes(), &long[..]].concat());
        }
        assert!(texts.bytes < 4 << 20, "{}", texts.bytes);
        let other = {
            let mut other = Texts::new(0);
            other.add(b"b");
            other.add(b"main");
            other
        };
        assert_eq!(texts.append(&other)[1], id);
    }
}
