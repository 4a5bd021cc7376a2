//! Sort keys: what of a sample decides which entry it belongs to.

use crate::detail::Detail;
use crate::ids::{DsoId, FrameId, StringId, SymbolId};
use crate::profile::{Profile, Row};

/// A sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SortKey {
    /// The thread's name.
    Comm,
    /// The thread's number, as `perf report` has it under the name `pid`.
    Tid,
    /// The process's number.
    Tgid,
    /// The file.
    Dso,
    /// The function, and its file.
    Symbol,
    /// The line of source.
    SrcLine,
    /// The file of source.
    SrcFile,
    /// The CPU.
    Cpu,
    /// The event.
    Event,
    /// The fields of a tracepoint.
    Trace,
    /// Something else of the sample.
    Detail(Detail),
}

/// A function where it has a name, else an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FunctionKey {
    /// By name.
    Named(SymbolId),
    /// By address, in the file where there is one.
    Address(Option<DsoId>, u64),
    /// Not recorded.
    Unknown,
}

impl FunctionKey {
    /// The function of a frame.
    #[must_use]
    pub fn at_frame(profile: &Profile, frame: Option<FrameId>) -> Self {
        let Some(frame) = frame.and_then(|frame| profile.frame(frame)) else {
            return Self::Unknown;
        };
        frame.function.map_or(Self::Address(frame.dso, frame.address), Self::Named)
    }
}

impl SortKey {
    /// Whether it looks at where in code a sample was.
    #[must_use]
    pub const fn is_of_frames(self) -> bool {
        matches!(self, Self::Dso | Self::Symbol | Self::SrcLine | Self::SrcFile)
    }

    /// Whether it looks at lines of source.
    #[must_use]
    pub const fn is_of_lines(self) -> bool {
        matches!(self, Self::SrcLine | Self::SrcFile)
    }
}

/// The short name of a frame's file.
#[must_use]
pub fn short_name(profile: &Profile, frame: Option<FrameId>) -> Option<StringId> {
    Some(profile.dso(profile.frame(frame?)?.dso?)?.short)
}

impl Profile {
    /// The frames of a sample, the innermost first: those of its call chain, and before them where
    /// the CPU was, if the chain doesn't begin there.
    pub fn frames_of_row(&self, row: &Row, frames: &mut Vec<FrameId>) {
        frames.clear();
        let chain = self.frames_of(row.stack);
        let function = |frame| FunctionKey::at_frame(self, frame);
        // Before the function that has the symbol are those that the compiler put into it.
        let is_inlined = |id: &&FrameId| self.frame(**id).is_some_and(|frame| frame.is_inlined);
        let first = chain.iter().find(|id| !is_inlined(id));
        let begins_at_leaf =
            first.is_some_and(|first| function(Some(*first)) == function(row.leaf));
        frames.extend(row.leaf.filter(|_| !begins_at_leaf));
        frames.extend_from_slice(chain);
    }
}
