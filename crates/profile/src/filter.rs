//! Which samples and entries are shown.

use crate::detail::{Detail, Value};
use crate::ids::{FrameId, StringId};
use crate::key::short_name;
use crate::profile::Profile;
use crate::rows::Row;
use crate::tables::Thread;

/// Conditions on shown samples and entries; an empty list accepts all. Hidden samples still count
/// in the totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names of threads.
    pub comms: Vec<Vec<u8>>,
    /// Short names of files, or whole paths.
    pub dsos: Vec<Vec<u8>>,
    /// Names of functions.
    pub symbols: Vec<Vec<u8>>,
    /// A part of the names of functions.
    pub symbol_part: Option<Vec<u8>>,
    /// Process ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// Accepts only samples that have a [`Detail::Parent`].
    pub has_parent: bool,
    /// Ranges of [`Detail::Parallelism`], with their ends.
    pub parallelism: Vec<(u64, u64)>,
}

impl Filter {
    /// Whether the filter accepts a row's thread and parent.
    #[must_use]
    pub fn takes_row(&self, profile: &Profile, row: &Row) -> bool {
        let thread = || row.thread.and_then(|thread| profile.thread(thread));
        let among = |list: &[i32], id: &dyn Fn(&Thread) -> i32| {
            list.is_empty() || thread().is_some_and(|thread| list.contains(&id(thread)))
        };
        is_among(profile, &self.comms, row.comm)
            && among(&self.pids, &|thread| thread.pid)
            && among(&self.tids, &|thread| thread.tid)
            && self.takes_parallelism(profile, row)
            && (!self.has_parent || profile.detail(row.details, Detail::Parent) != Value::None)
    }

    fn takes_parallelism(&self, profile: &Profile, row: &Row) -> bool {
        let running = profile.parallelism(row);
        self.parallelism.is_empty()
            || self.parallelism.iter().any(|(first, last)| (*first..=*last).contains(&running))
    }

    /// Whether the filter accepts all frames.
    #[must_use]
    pub fn takes_all_frames(&self) -> bool {
        self.dsos.is_empty() && self.symbols.is_empty() && self.symbol_part.is_none()
    }

    /// Whether the filter accepts a frame's file and function.
    #[must_use]
    pub fn takes_frame(&self, profile: &Profile, frame: Option<FrameId>) -> bool {
        if self.takes_all_frames() {
            return true;
        }
        let found = frame.and_then(|frame| profile.frame(frame));
        let path = found.and_then(|found| Some(profile.dso(found.dso?)?.path));
        let name = found.and_then(|found| Some(profile.symbol(found.function.ok()?)?.name));
        let dso = is_among(profile, &self.dsos, short_name(profile, frame))
            || is_among(profile, &self.dsos, path);
        let has_part = |part: &[u8]| {
            let is_in = |name: &[u8]| name.windows(part.len()).any(|at| at == part);
            name.is_some_and(|name| part.is_empty() || is_in(profile.string(name)))
        };
        dso && is_among(profile, &self.symbols, name)
            && self.symbol_part.as_deref().is_none_or(has_part)
    }
}

fn is_among(profile: &Profile, wanted: &[Vec<u8>], text: Option<StringId>) -> bool {
    wanted.is_empty()
        || text.is_some_and(|text| wanted.iter().any(|wanted| wanted == profile.string(text)))
}
