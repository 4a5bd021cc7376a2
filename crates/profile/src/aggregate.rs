//! Rows put together by sort keys.

use std::collections::HashMap;

use indexmap::IndexSet;

use crate::call_tree::{CallTree, CallTrees, Chain, Order};
use crate::filter::Filter;
use crate::ids::{DetailsId, EventId, FrameId, StackId, StringId, ThreadId};
use crate::key::{Function, Key};
use crate::numbers::{FrameGroups, Functions};
use crate::profile::{Profile, Row};
use crate::tables::{Space, Weight};

/// How rows are put together.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What tells entries apart.
    pub keys: Vec<Key>,
    /// Also an entry for each frame that a sample's stack goes through.
    pub children: bool,
    /// Keep what call trees are made of, which run from here.
    pub trees: Option<Order>,
    /// With children, trees hold what begins at their entry: else samples in the entry itself have
    /// their whole chain there, as in perf.
    pub from_entries: bool,
    /// Keep what of an entry was in the kernel, in programs and in guests.
    pub by_space: bool,
    /// What is shown.
    pub filter: Filter,
}

/// Samples that have the sort keys in common. Of what is no sort key it has that of its first
/// sample.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The thread's name.
    pub comm: Option<StringId>,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The CPU; `None` where the recording doesn't say.
    pub cpu: Option<u32>,
    /// The fields of a tracepoint, as text.
    pub trace: Option<StringId>,
    /// What else tells it apart.
    pub details: Option<DetailsId>,
    /// The frame: with [`Key::Symbol`], [`Key::Dso`] or a key of lines all samples have its.
    pub frame: Option<FrameId>,
    /// What samples weigh that were in it.
    pub own: Weight,
    /// With [`Options::by_space`] its parts in the kernel, in programs, in guests' kernels and in
    /// guests' programs, where samples' places in code are known.
    pub own_by_space: Option<Box<[u64; 4]>>,
    /// What samples weigh that were in it or in what it called; without [`Options::children`] the
    /// same.
    pub total: Weight,
    /// Frames of the longest chain below it, in the order of the trees: what stands nearer to the
    /// root comes first among equals.
    pub depth: u32,
    /// The merged row that was added last.
    last: u32,
    /// The last of its chains in [`Table::chains`].
    chain: u32,
}

impl Entry {
    /// The function.
    #[must_use]
    pub fn function(&self, profile: &Profile) -> Function {
        Function::of(profile, self.frame)
    }
}

/// The entries of one event, unordered.
#[derive(Clone, Debug)]
pub struct Table {
    /// One for each combination of sort keys.
    pub entries: Vec<Entry>,
    /// What all samples weigh, the hidden ones too: 100%.
    pub all: Weight,
    /// The event.
    pub event: EventId,
    /// What tells entries apart.
    pub keys: Vec<Key>,
    order: Option<Order>,
    functions: Functions,
    merged: Vec<MergedRow>,
    chains: Vec<EntryChain>,
}

/// Stands for no index.
const NONE: u32 = u32::MAX;

/// A chain of an entry.
#[derive(Clone, Copy, Debug)]
struct EntryChain {
    merged: u32,
    /// Frames to skip, counted from the root of the trees.
    skip: u32,
    /// The one before of the same entry, or [`NONE`].
    before: u32,
}

/// Rows that the sort keys, the leaf and the call chain don't tell apart.
#[derive(Clone, Copy, Debug)]
struct MergedRow {
    /// The first of them.
    row: Row,
    /// Their [`RowGroup`].
    group: u32,
    weight: Weight,
}

/// What sort keys tell rows apart by, but for frames. What is no sort key is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct RowGroup {
    comm: Option<StringId>,
    tid: Option<i32>,
    tgid: Option<i32>,
    cpu: Option<u32>,
    trace: Option<StringId>,
    details: Option<DetailsId>,
}

impl RowGroup {
    fn of(profile: &Profile, keys: &[Key], row: &Row) -> Self {
        let mut group = Self::default();
        let thread = || row.thread.and_then(|thread| profile.thread(thread));
        for key in keys {
            match key {
                Key::Comm => group.comm = row.comm,
                Key::Tid => group.tid = thread().map(|thread| thread.tid),
                Key::Tgid => group.tgid = thread().map(|thread| thread.pid),
                Key::Cpu => group.cpu = row.cpu,
                Key::Trace => group.trace = row.trace,
                // A profile has those details that are sort keys.
                Key::Detail(_) => group.details = row.details,
                // Frames have groups of their own, and a table is of one event.
                Key::Dso | Key::Symbol | Key::SrcLine | Key::SrcFile | Key::Event => {}
            }
        }
        group
    }
}

impl Table {
    /// What builds the call trees of entries, without nodes of a smaller period; `None` where trees
    /// were not asked for.
    #[must_use]
    pub fn call_trees<'a>(&'a self, profile: &'a Profile, least: f64) -> Option<CallTrees<'a>> {
        Some(CallTrees::new(profile, &self.functions, self.order?, least))
    }

    /// The call chains of an entry as a tree.
    #[must_use]
    pub fn call_tree(&self, trees: &mut CallTrees<'_>, entry: &Entry) -> CallTree {
        // Nothing of a tree weighs more than its entry.
        if (entry.total.period as f64) < trees.least() {
            return CallTree::default();
        }
        let mut chains = Vec::new();
        let mut at = entry.chain;
        while let Some(EntryChain { merged, skip, before }) = self.chains.get(at as usize) {
            if let Some(MergedRow { row, weight, .. }) = self.merged.get(*merged as usize)
                && let Some(stack) = row.stack
            {
                chains.push(Chain { stack, skip: *skip as usize, weight: *weight });
            }
            at = *before;
        }
        chains.reverse();
        trees.tree(chains)
    }
}

/// Puts the rows of an event together.
#[must_use]
pub fn table(profile: &Profile, event: EventId, options: &Options) -> Table {
    let by_frame = options.keys.iter().any(|key| key.is_of_frames());
    // Without a key that looks at frames, all frames of a stack are in the entry of its leaf.
    let children = options.children && by_frame;
    let functions = Functions::of(profile);
    let (merged, all) = merge(profile, event, options, children || options.trees.is_some());
    let filling = Filling {
        profile,
        groups: FrameGroups::new(profile, &functions, &options.keys, &options.filter),
        trees: options.trees,
        from_entries: options.from_entries && children,
        by_space: options.by_space,
        entries: Vec::new(),
        by_key: HashMap::default(),
        chains: Vec::new(),
    };
    let (entries, chains) = filling.fill(&merged, children);
    let keys = options.keys.clone();
    Table { entries, all, event, keys, order: options.trees, functions, merged, chains }
}

/// Rows that are shown, merged; and what all rows weigh.
fn merge(
    profile: &Profile,
    event: EventId,
    options: &Options,
    with_stacks: bool,
) -> (Vec<MergedRow>, Weight) {
    type Key = (u32, Option<FrameId>, Option<StackId>);
    let mut all = Weight::default();
    let mut merged: Vec<MergedRow> = Vec::new();
    let mut by_key: HashMap<Key, u32, foldhash::fast::RandomState> = HashMap::default();
    let mut groups: IndexSet<RowGroup, foldhash::fast::RandomState> = IndexSet::default();
    for (row, weight) in profile.rows().filter(|(row, _)| row.event == event) {
        all.add(weight);
        if !options.filter.takes_row(profile, row) {
            continue;
        }
        let row_group = RowGroup::of(profile, &options.keys, row);
        let group = u32::try_from(groups.insert_full(row_group).0).unwrap_or(NONE);
        let stack = row.stack.filter(|_| with_stacks);
        let next = u32::try_from(merged.len()).unwrap_or(NONE);
        let at = *by_key.entry((group, row.leaf, stack)).or_insert(next);
        match merged.get_mut(at as usize) {
            Some(merged) => merged.weight.add(weight),
            None => merged.push(MergedRow { row: Row { stack, ..*row }, group, weight }),
        }
    }
    (merged, all)
}

struct Filling<'a> {
    profile: &'a Profile,
    groups: FrameGroups<'a>,
    trees: Option<Order>,
    from_entries: bool,
    by_space: bool,
    entries: Vec<Entry>,
    /// By the groups of row and frame.
    by_key: HashMap<u64, u32, foldhash::fast::RandomState>,
    chains: Vec<EntryChain>,
}

impl Filling<'_> {
    /// Adds each row to the entry of its leaf, and with children to those of all frames of its
    /// chain.
    fn fill(mut self, merged: &[MergedRow], children: bool) -> (Vec<Entry>, Vec<EntryChain>) {
        let is_callee = self.trees == Some(Order::Callee);
        for (id, row) in (0..).zip(merged) {
            let frames = self.profile.frames_of(row.row.stack);
            if let Some(entry) = self.entry(row, row.row.leaf) {
                self.entries[entry].own.add(row.weight);
                self.add_space(entry, row);
                if !self.from_entries || frames.is_empty() {
                    self.add(entry, id, row.weight, 0, frames.len());
                }
            }
            let frames = if children { frames } else { &[] };
            for skip in 0..frames.len() {
                let at = if is_callee { skip } else { frames.len() - 1 - skip };
                // A function that calls itself is there once.
                if let Some(entry) = self.entry(row, frames.get(at).copied())
                    && self.entries[entry].last != id
                {
                    self.add(entry, id, row.weight, skip, frames.len() - skip);
                }
            }
        }
        (self.entries, self.chains)
    }

    /// The index of the entry of a row when `frame` is what counts of its stack; `None` where that
    /// is not shown.
    fn entry(&mut self, row: &MergedRow, frame: Option<FrameId>) -> Option<usize> {
        let key = u64::from(row.group) << 32 | u64::from(self.groups.of(frame)?);
        let next = u32::try_from(self.entries.len()).unwrap_or(NONE);
        let at = *self.by_key.entry(key).or_insert(next) as usize;
        if at == self.entries.len() {
            let Row { comm, thread, cpu, trace, details, .. } = row.row;
            let (own, own_by_space, total) = Default::default();
            let depth = 0;
            let last = NONE;
            let chain = NONE;
            let new = Entry {
                comm,
                thread,
                cpu,
                trace,
                details,
                frame,
                own,
                own_by_space,
                total,
                depth,
                last,
                chain,
            };
            self.entries.push(new);
        }
        Some(at)
    }

    /// Adds to the part of an entry that its row is of.
    fn add_space(&mut self, entry: usize, row: &MergedRow) {
        if !self.by_space {
            return;
        }
        let leaf = row.row.leaf.and_then(|leaf| self.profile.frame(leaf));
        let place = match leaf.map(|leaf| leaf.space) {
            Some(Space::Kernel) => 0,
            Some(Space::User) => 1,
            Some(Space::GuestKernel) => 2,
            Some(Space::GuestUser) => 3,
            _ => return,
        };
        let parts = self.entries[entry].own_by_space.get_or_insert_default();
        let sum = &mut parts[place];
        *sum = sum.saturating_add(row.weight.period);
    }

    /// Adds a merged row whose chain has `depth` frames behind those to skip.
    fn add(&mut self, entry: usize, id: u32, weight: Weight, skip: usize, depth: usize) {
        let entry = &mut self.entries[entry];
        entry.total.add(weight);
        entry.last = id;
        entry.depth = entry.depth.max(u32::try_from(depth).unwrap_or(u32::MAX));
        if self.trees.is_some() && depth > 0 {
            let before = entry.chain;
            entry.chain = u32::try_from(self.chains.len()).unwrap_or(NONE);
            let skip = u32::try_from(skip).unwrap_or(u32::MAX);
            self.chains.push(EntryChain { merged: id, skip, before });
        }
    }
}

#[cfg(test)]
mod tests;
