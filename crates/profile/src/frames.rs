//! Stores frames, each once, in 24 bytes: a recording may have millions of distinct addresses.

use std::hash::{Hash, Hasher};

use crate::ids::{DsoId, FrameId, Id, StringId, SymbolId, pair};
use crate::sets::Set;
use crate::tables::{ProfileFrame, SourceLine, Space};

/// Distinct frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameTable {
    frames: Set<PackedFrame>,
    lines: Set<SourceLine>,
}

/// A source line of a [`FrameTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineIndex(u32);

impl Id for LineIndex {
    fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(NO_LINE))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of an unknown line.
const NO_LINE: u32 = u32::MAX;

/// A [`ProfileFrame`] in less memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedFrame {
    address: u64,
    dso: Option<DsoId>,
    /// Index of the function's symbol, or of the reason's text.
    function: u32,
    line: LineIndex,
    space: Space,
    is_named: bool,
    is_inlined: bool,
}

impl Hash for PackedFrame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(pair(self.dso, None::<SymbolId>) | u64::from(self.function));
        state.write_u64(self.address ^ u64::from(self.line.0) << 32);
    }
}

impl FrameTable {
    pub(crate) fn insert(&mut self, frame: ProfileFrame) -> FrameId {
        let line = frame.line.map_or(LineIndex(NO_LINE), |line| self.lines.insert(line));
        let function = match frame.function {
            Ok(symbol) => symbol.index(),
            Err(reason) => reason.index(),
        };
        self.frames.insert(PackedFrame {
            address: frame.address,
            dso: frame.dso,
            function: u32::try_from(function).unwrap_or(u32::MAX),
            line,
            space: frame.space,
            is_named: frame.function.is_ok(),
            is_inlined: frame.is_inlined,
        })
    }

    pub(crate) fn get(&self, id: FrameId) -> Option<ProfileFrame> {
        let packed = self.frames.get(id)?;
        let function = packed.function as usize;
        Some(ProfileFrame {
            space: packed.space,
            dso: packed.dso,
            function: match packed.is_named {
                true => Ok(SymbolId::from_index(function)),
                false => Err(StringId::from_index(function)),
            },
            address: packed.address,
            is_inlined: packed.is_inlined,
            line: self.lines.get(packed.line).copied(),
        })
    }

    /// See [`Set::drop_index`].
    pub(crate) fn drop_index(&mut self) {
        self.frames.drop_index();
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_and_equal_ones_are_one() {
        assert_eq!(size_of::<PackedFrame>(), 24);
        let line = SourceLine { file: StringId::from_index(7), line: 3, column: 9, first_line: 1 };
        let named = ProfileFrame {
            space: Space::User,
            dso: Some(DsoId::from_index(5)),
            function: Ok(SymbolId::from_index(4)),
            address: u64::MAX,
            is_inlined: true,
            line: Some(line),
        };
        let frames = [
            named,
            ProfileFrame { line: None, ..named },
            ProfileFrame { line: Some(SourceLine { column: 8, ..line }), ..named },
            ProfileFrame { is_inlined: false, ..named },
            ProfileFrame { space: Space::Kernel, ..named },
            ProfileFrame { dso: None, ..named },
            ProfileFrame { function: Err(StringId::from_index(4)), ..named },
        ];
        let mut table = FrameTable::default();
        let ids = frames.map(|frame| table.insert(frame));
        assert_eq!(ids.map(|id| table.get(id).unwrap()), frames);
        assert_eq!((frames.map(|frame| table.insert(frame)), table.len()), (ids, frames.len()));
    }
}
