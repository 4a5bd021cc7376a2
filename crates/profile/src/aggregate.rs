//! Rows put together by sort keys.

use std::collections::HashMap;

use indexmap::IndexSet;

use crate::call_tree::{CallTree, CallTrees, ChainPart, Order};
use crate::filter::Filter;
use crate::ids::{DetailsId, EventId, FrameId, StackId, StringId, ThreadId};
use crate::key::{FunctionKey, SortKey};
use crate::numbers::{FrameGroups, FunctionNumbers};
use crate::profile::{Profile, Row};
use crate::tables::{Space, Weight};

/// How rows are put together.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// What tells entries apart.
    pub keys: Vec<SortKey>,
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
    /// The frame: with [`SortKey::Symbol`], [`SortKey::Dso`] or a key of lines all samples have its.
    pub frame: Option<FrameId>,
    /// What samples weigh that were in it.
    pub own: Weight,
    /// With [`TableOptions::by_space`] its parts in the kernel, in programs, in guests' kernels and in
    /// guests' programs, where samples' places in code are known.
    pub own_by_space: Option<Box<[u64; 4]>>,
    /// What samples weigh that were in it or in what it called; without [`TableOptions::children`] the
    /// same.
    pub total: Weight,
    /// Frames of the longest chain below it, in the order of the trees: what stands nearer to the
    /// root comes first among equals.
    pub depth: u32,
    /// The merged row that was added last.
    last: u32,
    /// The last of its chains in [`ProfileTable::chains`].
    chain: u32,
}

impl Entry {
    /// The function.
    #[must_use]
    pub fn function(&self, profile: &Profile) -> FunctionKey {
        FunctionKey::at_frame(profile, self.frame)
    }
}

/// The entries of one event, unordered.
#[derive(Clone, Debug)]
pub struct ProfileTable {
    /// One for each combination of sort keys.
    pub entries: Vec<Entry>,
    /// What all samples weigh, the hidden ones too: 100%.
    pub all: Weight,
    /// The event.
    pub event: EventId,
    /// What tells entries apart.
    pub keys: Vec<SortKey>,
    order: Option<Order>,
    functions: FunctionNumbers,
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
    fn new(profile: &Profile, keys: &[SortKey], row: &Row) -> Self {
        let mut group = Self::default();
        let thread = || row.thread.and_then(|thread| profile.thread(thread));
        for key in keys {
            match key {
                SortKey::Comm => group.comm = row.comm,
                SortKey::Tid => group.tid = thread().map(|thread| thread.tid),
                SortKey::Tgid => group.tgid = thread().map(|thread| thread.pid),
                SortKey::Cpu => group.cpu = row.cpu,
                SortKey::Trace => group.trace = row.trace,
                // A profile has those details that are sort keys.
                SortKey::Detail(_) => group.details = row.details,
                // Frames have groups of their own, and a table is of one event.
                SortKey::Dso
                | SortKey::Symbol
                | SortKey::SrcLine
                | SortKey::SrcFile
                | SortKey::Event => {}
            }
        }
        group
    }
}

impl ProfileTable {
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
                chains.push(ChainPart { stack, skip: *skip as usize, weight: *weight });
            }
            at = *before;
        }
        chains.reverse();
        trees.tree(chains)
    }
}

/// Puts the rows of an event together.
#[must_use]
pub fn table(profile: &Profile, event: EventId, options: &TableOptions) -> ProfileTable {
    let by_frame = options.keys.iter().any(|key| key.is_of_frames());
    // Without a key that looks at frames, all frames of a stack are in the entry of its leaf.
    let children = options.children && by_frame;
    let functions = FunctionNumbers::new(profile);
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
    ProfileTable { entries, all, event, keys, order: options.trees, functions, merged, chains }
}

/// Rows that are shown, merged; and what all rows weigh.
fn merge(
    profile: &Profile,
    event: EventId,
    options: &TableOptions,
    with_stacks: bool,
) -> (Vec<MergedRow>, Weight) {
    type MergeKey = (u32, Option<FrameId>, Option<StackId>);
    let mut all = Weight::default();
    let mut merged: Vec<MergedRow> = Vec::new();
    let mut by_key: HashMap<MergeKey, u32, foldhash::fast::RandomState> = HashMap::default();
    let mut groups: IndexSet<RowGroup, foldhash::fast::RandomState> = IndexSet::default();
    for (row, weight) in profile.rows().filter(|(row, _)| row.event == event) {
        all.add(weight);
        if !options.filter.takes_row(profile, row) {
            continue;
        }
        let row_group = RowGroup::new(profile, &options.keys, row);
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
        let key = u64::from(row.group) << 32 | u64::from(self.groups.group(frame)?);
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
mod tests {
    use super::*;
    use crate::call_tree::Node;
    use crate::tables::{Dso, ProfileFrame, Space, Symbol, Thread};

    /// A profile of stacks of functions in one file, the outermost first, with periods.
    fn profile(stacks: &[(&str, &[&str], u64)]) -> (Profile, EventId) {
        let mut profile = Profile::default();
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        let file = profile.add_string(b"/bin/prog");
        let short = profile.add_string(b"prog");
        let dso = profile.add_dso(Dso { path: file, short });
        let thread = profile.add_thread(Thread { pid: 7, tid: 8 });
        for (comm, functions, period) in stacks {
            let comm = profile.add_string(comm.as_bytes());
            let mut frames = Vec::new();
            for name in *functions {
                let start = u64::from(name.as_bytes()[0]);
                let name = profile.add_string(name.as_bytes());
                let symbol = profile.add_symbol(Symbol { dso, name, start });
                let frame = profile.add_frame(ProfileFrame {
                    space: Space::User,
                    dso: Some(dso),
                    function: Ok(symbol),
                    address: start,
                    is_inlined: false,
                    line: None,
                });
                frames.insert(0, frame);
            }
            let leaf = frames.first().copied();
            let stack = profile.add_stack(&frames);
            let row = Row {
                event,
                thread: Some(thread),
                comm: Some(comm),
                cpu: None,
                leaf,
                stack,
                trace: None,
                details: None,
            };
            profile.add_samples(row, Weight { period: *period, samples: 1 });
        }
        (profile, event)
    }

    fn name(profile: &Profile, frame: FrameId) -> String {
        let symbol = profile.symbol(profile.frame(frame).unwrap().function.unwrap()).unwrap();
        String::from_utf8(profile.string(symbol.name).to_vec()).unwrap()
    }

    fn sums(profile: &Profile, table: &ProfileTable) -> Vec<(String, u64, u64)> {
        let mut sums: Vec<_> = table
            .entries
            .iter()
            .map(|e| (name(profile, e.frame.unwrap()), e.own.period, e.total.period))
            .collect();
        sums.sort();
        sums
    }

    #[test]
    fn a_function_weighs_what_it_did_itself_and_what_it_called() {
        let (profile, event) = profile(&[
            ("x", &["a", "b", "c"], 5),
            ("x", &["a", "c"], 2),
            ("x", &["a", "b", "a"], 1),
        ]);
        let options =
            TableOptions { keys: vec![SortKey::Symbol], children: true, ..TableOptions::default() };
        let table = table(&profile, event, &options);
        let expected = [("a", 1, 8), ("b", 0, 6), ("c", 7, 7)]
            .map(|(name, own, total)| (name.to_owned(), own, total));
        assert_eq!(sums(&profile, &table), expected, "a that calls itself counts once");
        assert_eq!(table.all, Weight { period: 8, samples: 3 });
    }

    #[test]
    fn without_children_only_leaves_have_entries() {
        let (profile, event) = profile(&[("x", &["a", "b"], 5), ("y", &["a", "b"], 2)]);
        let by_symbol = table(
            &profile,
            event,
            &TableOptions { keys: vec![SortKey::Symbol], ..TableOptions::default() },
        );
        assert_eq!(sums(&profile, &by_symbol), [("b".to_owned(), 7, 7)]);
        let by_both = table(
            &profile,
            event,
            &TableOptions { keys: vec![SortKey::Comm, SortKey::Symbol], ..TableOptions::default() },
        );
        assert_eq!(by_both.entries.len(), 2);
    }

    #[test]
    fn what_a_filter_hides_stays_in_the_total() {
        let (profile, event) = profile(&[("x", &["a", "b"], 5), ("y", &["a", "b"], 2)]);
        let filter = Filter { comms: vec![b"y".to_vec()], ..Filter::default() };
        let table = table(
            &profile,
            event,
            &TableOptions { keys: vec![SortKey::Comm], filter, ..TableOptions::default() },
        );
        assert_eq!((table.entries.len(), table.entries[0].own.period, table.all.period), (1, 2, 7));
    }

    #[test]
    fn trees_run_from_either_end() {
        let (profile, event) = profile(&[("x", &["a", "b", "c"], 5), ("x", &["a", "c"], 2)]);
        let tree = |order| {
            let options = TableOptions {
                keys: vec![SortKey::Comm],
                trees: Some(order),
                ..TableOptions::default()
            };
            let table = table(&profile, event, &options);
            let mut trees = table.call_trees(&profile, 0.0).unwrap();
            let tree = table.call_tree(&mut trees, &table.entries[0]);
            let line = |node: &Node| {
                (
                    name(&profile, node.frame),
                    node.total.period,
                    node.own.period,
                    node.children.len(),
                )
            };
            tree.nodes().iter().map(line).collect::<Vec<_>>()
        };
        let expected = |nodes: [(&str, u64, u64, usize); 4]| {
            nodes.map(|(name, total, own, children)| (name.to_owned(), total, own, children))
        };
        assert_eq!(
            tree(Order::Caller),
            expected([("a", 7, 0, 2), ("b", 5, 0, 1), ("c", 5, 5, 0), ("c", 2, 2, 0)])
        );
        assert_eq!(tree(Order::Callee)[0], ("c".to_owned(), 7, 0, 2));
        assert_eq!(tree(Order::Callee).len(), 4);
    }
}
