//! Functions and groups of frames as small numbers: comparing rows needs no look at frames.

use std::collections::HashMap;

use crate::filter::Filter;
use crate::ids::{DsoId, FrameId, Id, StringId, SymbolId};
use crate::key::{FunctionKey, SortKey, short_name};
use crate::profile::Profile;

/// The number of a frame that isn't known.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// The function of each frame: frames of one function have one number.
#[derive(Clone, Debug)]
pub(crate) struct FunctionNumbers(Vec<u32>);

impl FunctionNumbers {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut by_symbol: HashMap<SymbolId, u32, foldhash::fast::RandomState> = HashMap::default();
        let mut by_address: HashMap<(Option<DsoId>, u64), u32, foldhash::fast::RandomState> =
            HashMap::default();
        let number = |(at, frame)| match FunctionKey::at_frame(profile, Some(frame)) {
            FunctionKey::Named(symbol) => *by_symbol.entry(symbol).or_insert(at),
            FunctionKey::Address(dso, address) => *by_address.entry((dso, address)).or_insert(at),
            FunctionKey::Unknown => UNKNOWN,
        };
        Self((0..).zip(profile.frame_ids()).map(number).collect())
    }

    /// Numbers are below this, but for [`UNKNOWN`].
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn number(&self, frame: FrameId) -> u32 {
        self.0.get(frame.index()).copied().unwrap_or(UNKNOWN)
    }
}

/// Which frames sort keys tell apart, and which of them are shown.
pub(crate) struct FrameGroups<'a> {
    groups: Groups<'a>,
    /// By frame, and whether a sample without a frame is shown; `None`: all are.
    shown: Option<(Vec<bool>, bool)>,
}

enum Groups<'a> {
    One,
    /// By frame.
    Own(Vec<u32>),
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
            Groups::Own(by_line(profile, functions, keys))
        } else if keys.contains(&SortKey::Symbol) {
            Groups::FunctionNumbers(functions)
        } else if keys.contains(&SortKey::Dso) {
            Groups::Own(by_dso(profile))
        } else {
            Groups::One
        };
        let shown = (!filter.takes_all_frames()).then(|| {
            let takes = |frame| filter.takes_frame(profile, frame);
            (profile.frame_ids().map(|frame| takes(Some(frame))).collect(), takes(None))
        });
        Self { groups, shown }
    }

    /// The group of a frame; `None` where it is not shown.
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

/// What keys of lines, and those beside them, tell frames apart by, as a number.
fn by_line(profile: &Profile, functions: &FunctionNumbers, keys: &[SortKey]) -> Vec<u32> {
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

/// The short name of the file of each frame, as a number.
fn by_dso(profile: &Profile) -> Vec<u32> {
    let number = |name: StringId| u32::try_from(name.index()).unwrap_or(UNKNOWN);
    let of = |frame| short_name(profile, Some(frame)).map_or(UNKNOWN, number);
    profile.frame_ids().map(of).collect()
}
