//! Typed places in the tables of a profile.

use std::hash::Hash;

use indexmap::IndexSet;

/// What an id must be able to do to name places in a [`Set`].
pub(crate) trait Id: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A text, any bytes.
    StringId
    /// An event that was recorded.
    EventId
    /// A thread.
    ThreadId
    /// A file, or what stands for one.
    DsoId
    /// A function.
    SymbolId
    /// A place in code.
    FrameId
    /// A frame and what called it.
    StackId
    /// Samples that are alike.
    RowId
}

/// Values that are kept once each, in the order in which they first came. It has at most `u32::MAX`
/// of them; more are not told apart.
#[derive(Clone, Debug)]
pub(crate) struct Set<T> {
    values: IndexSet<T, foldhash::fast::RandomState>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { values: IndexSet::default() }
    }
}

impl<T: Hash + Eq> Set<T> {
    pub(crate) fn insert<I: Id>(&mut self, value: T) -> I {
        if self.values.len() >= u32::MAX as usize {
            return I::from_index(self.values.get_index_of(&value).unwrap_or(0));
        }
        I::from_index(self.values.insert_full(value).0)
    }

    pub(crate) fn get<I: Id>(&self, id: I) -> Option<&T> {
        self.values.get_index(id.index())
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }
}

impl Set<Box<[u8]>> {
    /// Finds a text without making a copy of it.
    pub(crate) fn find_bytes<I: Id>(&self, text: &[u8]) -> Option<I> {
        self.values.get_index_of(text).map(I::from_index)
    }
}
