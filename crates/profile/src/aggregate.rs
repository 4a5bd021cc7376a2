//! Rows put together by sort keys.

use indexmap::IndexMap;

use crate::call_tree::{CallTree, Chain, Order};
use crate::filter::Filter;
use crate::ids::{EventId, FrameId, Id, RowId, ThreadId};
use crate::key::{Group, Key};
use crate::profile::{Profile, Row, Weight};

/// How rows are put together.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What tells entries apart.
    pub keys: Vec<Key>,
    /// Also an entry for each frame that a sample's stack goes through.
    pub children: bool,
    /// Keep what call trees are made of, which run from here.
    pub trees: Option<Order>,
    /// What is shown.
    pub filter: Filter,
}

/// Samples that have the sort keys in common.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What they have in common.
    pub group: Group,
    /// A frame of theirs: with [`Key::Symbol`] or [`Key::Dso`], all of them have its function or
    /// file.
    pub frame: Option<FrameId>,
    /// The thread of the first.
    pub thread: Option<ThreadId>,
    /// What samples weigh that were in it.
    pub own: Weight,
    /// What samples weigh that were in it or in what it called; without [`Options::children`] the
    /// same.
    pub total: Weight,
    /// Frames of the longest chain below it, in the order of the trees: what stands nearer to the
    /// root comes first among equals.
    pub depth: u32,
    members: Vec<(RowId, u32)>,
    last: Option<RowId>,
}

/// The entries of one event, unordered.
#[derive(Clone, Debug)]
pub struct Table {
    /// One for each group.
    pub entries: Vec<Entry>,
    /// What all samples weigh, the hidden ones too: 100%.
    pub all: Weight,
    order: Option<Order>,
}

impl Table {
    /// The stacks of an entry as a tree.
    #[must_use]
    pub fn call_tree(&self, profile: &Profile, entry: &Entry) -> CallTree {
        let mut tree = CallTree::default();
        let Some(order) = self.order else { return tree };
        let mut chain = Chain::default();
        for (row, from) in &entry.members {
            let Some((row, weight)) = profile.row(*row) else { continue };
            chain.read(profile, row, order);
            tree.add(profile, chain.frames.get(*from as usize..).unwrap_or_default(), weight);
        }
        tree
    }
}

/// Puts the rows of an event together.
#[must_use]
pub fn table(profile: &Profile, event: EventId, options: &Options) -> Table {
    let by_frame = options.keys.iter().any(|key| matches!(key, Key::Dso | Key::Symbol));
    // Without a key that looks at frames, all frames of a stack are in the entry of its leaf.
    let mut filling = Filling {
        profile,
        options,
        children: options.children && by_frame,
        entries: IndexMap::default(),
    };
    let reads_chains = filling.children || options.trees.is_some();
    let mut all = Weight::default();
    let mut chain = Chain::default();
    for (index, (row, weight)) in
        profile.rows().enumerate().filter(|(_, (row, _))| row.event == event)
    {
        all.add(weight);
        if options.filter.takes_row(profile, row) {
            if reads_chains {
                chain.read(profile, row, options.trees.unwrap_or(Order::Caller));
            }
            filling.take(RowId::from_index(index), row, weight, &chain);
        }
    }
    Table { entries: filling.entries.into_values().collect(), all, order: options.trees }
}

struct Filling<'a> {
    profile: &'a Profile,
    options: &'a Options,
    children: bool,
    entries: IndexMap<Group, Entry, foldhash::fast::RandomState>,
}

impl Filling<'_> {
    /// Adds a row to the entry of its leaf, and with children to those of all frames of its chain.
    fn take(&mut self, id: RowId, row: &Row, weight: Weight, chain: &Chain) {
        let keeps = self.options.trees.is_some();
        if let Some(entry) = self.entry(row, row.leaf) {
            entry.own.add(weight);
            entry.add(id, weight, 0, chain.frames.len(), keeps);
        }
        let frames: &[FrameId] = if self.children { &chain.frames } else { &[] };
        for (from, frame) in frames.iter().enumerate() {
            // A function that calls itself is there once.
            if let Some(entry) =
                self.entry(row, Some(*frame)).filter(|entry| entry.last != Some(id))
            {
                entry.add(id, weight, from, frames.len() - from, keeps);
            }
        }
    }

    fn entry(&mut self, row: &Row, frame: Option<FrameId>) -> Option<&mut Entry> {
        if !self.options.filter.takes_frame(self.profile, frame) {
            return None;
        }
        let group = Group::of(self.profile, &self.options.keys, row, frame);
        let nothing = Weight::default();
        let new = || Entry {
            group,
            frame,
            thread: row.thread,
            own: nothing,
            total: nothing,
            depth: 0,
            members: Vec::new(),
            last: None,
        };
        Some(self.entries.entry(group).or_insert_with(new))
    }
}

impl Entry {
    /// Adds a row whose chain has `depth` frames from place `from` on.
    fn add(&mut self, row: RowId, weight: Weight, from: usize, depth: usize, keeps: bool) {
        self.total.add(weight);
        self.last = Some(row);
        self.depth = self.depth.max(u32::try_from(depth).unwrap_or(u32::MAX));
        if keeps && depth > 0 {
            self.members.push((row, u32::try_from(from).unwrap_or(u32::MAX)));
        }
    }
}

#[cfg(test)]
mod tests;
