//! Sort keys: what of a sample decides which entry it belongs to.

use crate::ids::{DsoId, FrameId, StringId, SymbolId};
use crate::profile::Profile;

/// A sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
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
    /// The CPU.
    Cpu,
    /// The event.
    Event,
    /// The fields of a tracepoint.
    Trace,
}

/// A function where it has a name, else an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// By name.
    Named(SymbolId),
    /// By address, in the file where there is one.
    Address(Option<DsoId>, u64),
    /// Not recorded.
    Unknown,
}

impl Function {
    /// The function of a frame.
    #[must_use]
    pub fn of(profile: &Profile, frame: Option<FrameId>) -> Self {
        let Some(frame) = frame.and_then(|frame| profile.frame(frame)) else {
            return Self::Unknown;
        };
        frame.function.map_or(Self::Address(frame.dso, frame.address), Self::Named)
    }
}

/// The short name of a frame's file.
#[must_use]
pub fn short_name(profile: &Profile, frame: Option<FrameId>) -> Option<StringId> {
    Some(profile.dso(profile.frame(frame?)?.dso?)?.short)
}
