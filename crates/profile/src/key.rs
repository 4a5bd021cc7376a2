//! Sort keys: the properties of a sample that select its entry.

use crate::detail::Detail;
use crate::ids::{DsoId, FrameId, StringId, SymbolId};
use crate::profile::Profile;
use crate::rows::Row;

/// A sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SortKey {
    /// The thread's name.
    Comm,
    /// The thread id; `perf report` calls this key `pid`.
    Tid,
    /// The process id.
    Tgid,
    /// The file.
    Dso,
    /// The function, and its file.
    Symbol,
    /// The source line.
    SrcLine,
    /// The source file.
    SrcFile,
    /// The CPU.
    Cpu,
    /// The event.
    Event,
    /// The fields of a tracepoint.
    Trace,
    /// Another property of the sample.
    Detail(Detail),
}

/// Identifies a function: by its symbol, or else by an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FunctionKey {
    /// A function with a symbol.
    Named(SymbolId),
    /// An address in a file, or in the address space if there is no file.
    Address(Option<DsoId>, u64),
    /// The frame wasn't recorded.
    Unknown,
}

impl FunctionKey {
    /// Returns the function of a frame.
    #[must_use]
    pub fn at_frame(profile: &Profile, frame: Option<FrameId>) -> Self {
        let Some(frame) = frame.and_then(|frame| profile.frame(frame)) else {
            return Self::Unknown;
        };
        frame.function.map_or(Self::Address(frame.dso, frame.address), Self::Named)
    }
}

impl SortKey {
    /// Whether its value is a property of a frame.
    #[must_use]
    pub const fn is_of_frames(self) -> bool {
        matches!(self, Self::Dso | Self::Symbol | Self::SrcLine | Self::SrcFile)
    }

    /// Whether its value is a source line or file.
    #[must_use]
    pub const fn is_of_lines(self) -> bool {
        matches!(self, Self::SrcLine | Self::SrcFile)
    }
}

/// Returns the short name of a frame's file.
#[must_use]
pub fn short_name(profile: &Profile, frame: Option<FrameId>) -> Option<StringId> {
    Some(profile.dso(profile.frame(frame?)?.dso?)?.short)
}

impl Profile {
    /// Lists the frames of a row, the innermost first: its leaf, unless the call chain begins in
    /// the same function, then the call chain. `frames` is cleared first.
    pub fn frames_of_row(&self, row: &Row, frames: &mut Vec<FrameId>) {
        let (leaf, chain) = self.chain_of_row(row);
        frames.clear();
        frames.extend(leaf);
        frames.extend_from_slice(chain);
    }

    /// Returns the frames of [`Self::frames_of_row`] in two parts: the frame in which the sample
    /// was taken, unless the call chain begins with it, and the call chain.
    #[must_use]
    pub fn chain_of_row(&self, row: &Row) -> (Option<FrameId>, &[FrameId]) {
        let chain = self.frames_of(row.stack);
        let function = |frame| FunctionKey::at_frame(self, frame);
        // Functions inlined into the first function with a symbol precede it.
        let is_inlined = |id: &&FrameId| self.frame(**id).is_some_and(|frame| frame.is_inlined);
        let first = chain.iter().find(|id| !is_inlined(id));
        let begins_at_leaf =
            first.is_some_and(|first| function(Some(*first)) == function(row.leaf));
        (row.leaf.filter(|_| !begins_at_leaf), chain)
    }
}
