//! Typed indices of a profile's tables. An id takes 4 bytes, and so does an `Option` of an id.

use std::num::NonZeroU32;

/// An index of a table.
pub(crate) trait Id: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// Packs two ids into a number for hashing. Derived code would hash each id and each discriminant
/// separately.
pub(crate) fn pair(first: Option<impl Id>, second: Option<impl Id>) -> u64 {
    number(first) << 32 | number(second)
}

fn number(id: Option<impl Id>) -> u64 {
    id.map_or(0, |id| id.index() as u64 + 1)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                let number = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
                Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX))
            }

            fn index(self) -> usize {
                self.0.get() as usize - 1
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
    /// A file, or a name in place of one, like `[vdso]`.
    DsoId
    /// A function.
    SymbolId
    /// A frame.
    FrameId
    /// A call chain.
    StackId
    /// The values of a row's details.
    DetailsId
    /// A row: samples that are alike.
    RowId
    /// A sampled task.
    TaskId
    /// The location of samples.
    LocationId
    /// A name by which recordings are compared.
    NameId
}

/// Maximum number of values in a set. Further values share the first id.
pub(crate) const MOST: usize = u32::MAX as usize - 1;
