//! Numbers functions and groups of frames, so that rows are compared without looking frames up.

use std::collections::HashMap;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::filter::Filter;
use crate::ids::{FrameId, Id, StringId, SymbolId};
use crate::key::{FunctionKey, SortKey, short_name};
use crate::profile::Profile;

/// The number of an unknown frame.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// The number of each frame's function. Frames of the same function have the same number.
#[derive(Clone, Debug)]
pub(crate) struct FunctionNumbers(Vec<u32>);

impl FunctionNumbers {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut by_symbol: HashMap<SymbolId, u32, foldhash::fast::RandomState> = HashMap::default();
        let mut by_address = AddressNumbers::default();
        let number = |(at, frame)| match FunctionKey::at_frame(profile, Some(frame)) {
            FunctionKey::Named(symbol) => *by_symbol.entry(symbol).or_insert(at),
            FunctionKey::Address(..) => by_address.find_or_add(profile, at),
            FunctionKey::Unknown => UNKNOWN,
        };
        Self((0..).zip(profile.frame_ids()).map(number).collect())
    }

    /// All numbers except [`UNKNOWN`] are below this.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn number(&self, frame: FrameId) -> u32 {
        self.0.get(frame.index()).copied().unwrap_or(UNKNOWN)
    }
}

/// Frames without a function, by file and address. A recording may have millions, so the table has
/// only their indices.
#[derive(Default)]
struct AddressNumbers {
    frames: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
}

impl AddressNumbers {
    /// Returns the index of the first frame with the same address as the frame with index `at`.
    fn find_or_add(&mut self, profile: &Profile, at: u32) -> u32 {
        let Self { frames, hasher } = self;
        let key = |at: u32| {
            let frame = profile.frame(FrameId::from_index(at as usize));
            frame.map(|frame| (frame.dso, frame.address))
        };
        let own = key(at);
        let hash = hasher.hash_one(own);
        let found = frames.entry(hash, |at| key(*at) == own, |at| hasher.hash_one(key(*at)));
        *found.or_insert(at).get()
    }
}

/// Groups of frames with the same sort keys, without the frames that a filter hides.
pub(crate) struct FrameGroups<'a> {
    groups: Groups<'a>,
    /// Whether each frame is shown, and whether a sample without a frame is. `None` if all are.
    shown: Option<(Vec<bool>, bool)>,
}

enum Groups<'a> {
    /// All frames are in one group.
    One,
    /// The group of each frame.
    Own(Vec<u32>),
    /// A group for each function.
    FunctionNumbers(&'a FunctionNumbers),
}

impl<'a> FrameGroups<'a> {
    pub(crate) fn new(
        profile: &Profile,
        functions: &'a FunctionNumbers,
        keys: &[SortKey],
        filter: &Filter,
    ) -> Self {
        let groups = if keys.iter().any(|key| key.is_of_lines()) {
            Groups::Own(group_by_line(profile, functions, keys))
        } else if keys.contains(&SortKey::Symbol) {
            Groups::FunctionNumbers(functions)
        } else if keys.contains(&SortKey::Dso) {
            Groups::Own(group_by_dso(profile))
        } else {
            Groups::One
        };
        let shown = (!filter.takes_all_frames()).then(|| {
            let takes = |frame| filter.takes_frame(profile, frame);
            (profile.frame_ids().map(|frame| takes(Some(frame))).collect(), takes(None))
        });
        Self { groups, shown }
    }

    /// Returns the group of a frame; `None` if the filter hides it.
    pub(crate) fn group(&self, frame: Option<FrameId>) -> Option<u32> {
        let is_shown = self.shown.as_ref().is_none_or(|(frames, without)| match frame {
            Some(frame) => frames.get(frame.index()).copied().unwrap_or(false),
            None => *without,
        });
        is_shown.then(|| match (&self.groups, frame) {
            (Groups::One, _) => 0,
            (_, None) => UNKNOWN,
            (Groups::Own(groups), Some(frame)) => {
                groups.get(frame.index()).copied().unwrap_or(UNKNOWN)
            }
            (Groups::FunctionNumbers(functions), Some(frame)) => functions.number(frame),
        })
    }
}

/// Groups frames by source line or file, and by function and dso if these are sort keys.
fn group_by_line(profile: &Profile, functions: &FunctionNumbers, keys: &[SortKey]) -> Vec<u32> {
    let has = |key| keys.contains(&key);
    let mut groups: HashMap<_, u32, foldhash::fast::RandomState> = HashMap::default();
    let number = |(at, frame): (u32, FrameId)| {
        let line = profile.frame(frame).and_then(|frame| frame.line);
        let function = has(SortKey::Symbol).then(|| functions.number(frame));
        let dso = short_name(profile, Some(frame)).filter(|_| has(SortKey::Dso));
        let number = line.filter(|_| has(SortKey::SrcLine)).map(|line| line.line);
        let key = (function, dso, line.map(|line| line.file), number);
        *groups.entry(key).or_insert(at)
    };
    (0..).zip(profile.frame_ids()).map(number).collect()
}

/// Groups frames by the short name of their file.
fn group_by_dso(profile: &Profile) -> Vec<u32> {
    let number = |name: StringId| u32::try_from(name.index()).unwrap_or(UNKNOWN);
    let group = |frame| short_name(profile, Some(frame)).map_or(UNKNOWN, number);
    profile.frame_ids().map(group).collect()
}
