//! Sort keys: what of a sample decides which entry it belongs to.

use crate::ids::{DsoId, EventId, FrameId, StringId, SymbolId};
use crate::profile::{Profile, Row};

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

/// What the samples of an entry have in common. What is no sort key is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The thread's name.
    pub comm: Option<StringId>,
    /// The thread's number.
    pub tid: Option<i32>,
    /// The process's number.
    pub tgid: Option<i32>,
    /// The file's short name; `Some(None)` where there is no file.
    pub dso: Option<Option<StringId>>,
    /// The function.
    pub function: Option<Function>,
    /// The CPU; `Some(None)` where the recording doesn't say.
    pub cpu: Option<Option<u32>>,
    /// The event.
    pub event: Option<EventId>,
}

impl Group {
    /// The group of a row when `frame` is what counts of its stack.
    #[must_use]
    pub fn of(profile: &Profile, keys: &[Key], row: &Row, frame: Option<FrameId>) -> Self {
        let mut group = Self::default();
        let thread = || row.thread.and_then(|thread| profile.thread(thread));
        for key in keys {
            match key {
                Key::Comm => group.comm = row.comm,
                Key::Tid => group.tid = thread().map(|thread| thread.tid),
                Key::Tgid => group.tgid = thread().map(|thread| thread.pid),
                Key::Dso => group.dso = Some(short_name(profile, frame)),
                Key::Symbol => group.function = Some(Function::of(profile, frame)),
                Key::Cpu => group.cpu = Some(row.cpu),
                Key::Event => group.event = Some(row.event),
            }
        }
        group
    }
}

/// The short name of a frame's file.
pub(crate) fn short_name(profile: &Profile, frame: Option<FrameId>) -> Option<StringId> {
    Some(profile.dso(profile.frame(frame?)?.dso?)?.short)
}
