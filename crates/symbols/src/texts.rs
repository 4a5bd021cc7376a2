//! Interned texts.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::limits;

/// Number of a text in [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextId(NonZeroU32);

impl TextId {
    /// The number, counted from 0 in the order of interning.
    pub(crate) fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// All texts after the first 2^32 - 1 share the last id.
    fn new(number: usize) -> Self {
        let next = u32::try_from(number).map_or(u32::MAX, |number| number.saturating_add(1));
        Self(NonZeroU32::new(next).unwrap_or(NonZeroU32::MAX))
    }
}

/// Names and paths, each stored once. Names of a damaged file may overlap: once the stored names
/// take more room than those of a real file could, further ones are cut short.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, TextId, foldhash::fast::RandomState>,
    bytes: usize,
    /// Bytes after which texts are cut short.
    max_bytes: usize,
}

impl Texts {
    /// Creates the texts of a file with `file_bytes` bytes of names.
    pub(crate) fn new(file_bytes: usize) -> Self {
        Self { max_bytes: file_bytes.saturating_mul(2).saturating_add(1 << 20), ..Self::default() }
    }

    /// Interns a text. Invalid UTF-8 is replaced, and a text over the limit is cut.
    pub(crate) fn add(&mut self, text: &[u8]) -> TextId {
        let longest =
            if self.bytes > self.max_bytes { limits::SHORT_NAME_BYTES } else { limits::NAME_BYTES };
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

    /// Interns all texts of another table. Returns their new ids by their old numbers.
    pub(crate) fn append(&mut self, other: &Self) -> Vec<TextId> {
        let add = |text: &Arc<str>| {
            let known = self.ids.get(text).copied();
            known.unwrap_or_else(|| self.add_new(Arc::clone(text)))
        };
        other.texts.iter().map(add).collect()
    }

    /// Returns a text; empty for an id that this table didn't give.
    pub(crate) fn get(&self, id: TextId) -> &str {
        self.texts.get(id.number() as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_a_text_once_and_cuts_long_ones() {
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
