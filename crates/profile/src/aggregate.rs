//! Merges rows with the same sort keys into entries.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexSet;

use crate::call_tree::{CallTree, CallTrees, ChainPart, Order};
use crate::detail::{Detail, Value};
use crate::filter::Filter;
use crate::ids::{DetailsId, EventId, FrameId, StackId, StringId, ThreadId};
use crate::key::{FunctionKey, SortKey};
use crate::numbers::{FrameGroups, FunctionNumbers};
use crate::profile::Profile;
use crate::rows::Row;
use crate::tables::{Space, Weight};

/// How rows are merged into entries.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// The sort keys. Rows that agree in all of them share an entry.
    pub keys: Vec<SortKey>,
    /// If a sort key is a property of frames, adds each sample to the entries of all frames of its
    /// call chain, not only to that of the sampled one.
    pub children: bool,
    /// Keeps the call chains for call trees that begin at this end.
    pub trees: Option<Order>,
    /// With `children`, the tree of an entry has only the part of each chain that begins at the
    /// entry. Without this option, samples in the entry itself have their whole chain there, as in
    /// perf.
    pub from_entries: bool,
    /// Splits the own period of each entry by address space: kernel, programs and guests.
    pub by_space: bool,
    /// Sums latencies ([`Profile::latency`]).
    pub latency: bool,
    /// Which samples and frames are shown.
    pub filter: Filter,
}

/// Samples with the same sort keys. Properties that aren't sort keys are those of its first sample.
/// There may be millions.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The properties that aren't of frames.
    pub task: Arc<EntryTask>,
    /// The frame. All samples of the entry share its function, file or line if that is a sort key.
    pub frame: Option<FrameId>,
    /// Sums that are 0 for most entries; `None` if all are.
    pub parts: Option<Box<EntryParts>>,
    /// The weight of samples in the entry and in its callees; without [`TableOptions::children`]
    /// equal to [`Entry::own`].
    pub total: Weight,
    /// Frames of the entry's longest chain, from the entry on in the order of the trees. Among
    /// equal entries, the one with the most is shown first: it is nearest to the root.
    pub depth: u32,
    /// Index of the merged row added last, so that a recursive function counts a row once.
    last: u32,
    /// Index in [`ProfileTable::chains`] of the chain added last.
    chain: u32,
}

/// The properties of an entry that aren't of frames. Entries share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTask {
    /// The thread's name.
    pub comm: Option<StringId>,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The CPU; `None` if it wasn't recorded or requested.
    pub cpu: Option<u32>,
    /// The fields of a tracepoint, as text.
    pub trace: Option<StringId>,
    /// The values of further sort keys.
    pub details: Option<DetailsId>,
}

/// Sums that are 0 for most entries: an entry without samples of its own, in a table without
/// further columns, has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryParts {
    /// The weight of samples in the entry itself.
    pub own: Weight,
    /// With [`TableOptions::by_space`], the own period in the kernel, in programs, in guest kernels
    /// and in guest programs.
    pub own_by_space: [u64; 4],
    /// With [`TableOptions::latency`], the latency of samples in the entry itself.
    pub own_latency: u64,
    /// With [`TableOptions::latency`], the latency of samples in the entry and in its callees.
    pub total_latency: u64,
}

impl Entry {
    /// Returns the weight of samples in the entry itself.
    #[must_use]
    pub fn own(&self) -> Weight {
        self.parts.as_ref().map_or_else(Weight::default, |parts| parts.own)
    }

    /// Returns the sums that are 0 for most entries.
    #[must_use]
    pub fn parts(&self) -> EntryParts {
        self.parts.as_deref().copied().unwrap_or_default()
    }

    /// Returns the entry's function.
    #[must_use]
    pub fn function(&self, profile: &Profile) -> FunctionKey {
        FunctionKey::at_frame(profile, self.frame)
    }
}

/// The entries of one event. [`table`] returns them unordered.
#[derive(Clone, Debug)]
pub struct ProfileTable {
    /// An entry for each combination of sort keys.
    pub entries: Vec<Entry>,
    /// The weight that counts as 100%. [`table`] sets it to that of all samples of the event,
    /// including those that the filter hides.
    pub all: Weight,
    /// The latency that counts as 100%, with [`TableOptions::latency`].
    pub all_latency: u64,
    /// The event.
    pub event: EventId,
    /// The sort keys.
    pub keys: Vec<SortKey>,
    order: Option<Order>,
    functions: FunctionNumbers,
    merged: Vec<MergedRow>,
    chains: Vec<EntryChain>,
}

/// The index that means none.
const NONE: u32 = u32::MAX;

/// A chain of an entry; the chains of an entry are a linked list.
#[derive(Clone, Copy, Debug)]
struct EntryChain {
    /// Index of the merged row.
    merged: u32,
    /// Frames to skip, counted from the root of the trees.
    skip: u32,
    /// Index of the entry's preceding chain, or [`NONE`].
    before: u32,
}

/// Rows with the same sort keys and leaf, and the same call chain if the table needs chains.
#[derive(Clone, Copy, Debug)]
struct MergedRow {
    /// The first of the rows.
    row: Row,
    /// The number of their [`RowGroup`].
    group: u32,
    weight: Weight,
    latency: u64,
}

/// The values of a row's sort keys, except those of frames. A field that isn't a sort key is
/// `None`.
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
                // A row has the details of all sort keys and no others.
                SortKey::Detail(_) => group.details = row.details,
                // `FrameGroups` compares frames, and a table has one event.
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
    /// Creates a builder of call trees, which leaves out nodes below a period. Returns `None` if
    /// the table was built without trees.
    #[must_use]
    pub fn call_trees<'a>(
        &'a self,
        profile: &'a Profile,
        min_period: f64,
    ) -> Option<CallTrees<'a>> {
        Some(CallTrees::new(profile, &self.functions, self.order?, min_period))
    }

    /// Builds the call tree of an entry.
    #[must_use]
    pub fn call_tree(&self, trees: &mut CallTrees<'_>, entry: &Entry) -> CallTree {
        // No node weighs more than the entry.
        if (entry.total.period as f64) < trees.min_period() {
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
        trees.build(chains)
    }
}

/// Merges the rows of an event into entries.
#[must_use]
pub fn table(profile: &Profile, event: EventId, options: &TableOptions) -> ProfileTable {
    let by_frame = options.keys.iter().any(|key| key.is_of_frames());
    // Without a sort key of frames, all frames of a chain belong to the entry of its leaf.
    let children = options.children && by_frame;
    let functions = FunctionNumbers::new(profile);
    let (merged, all) = merge(profile, event, options, children || options.trees.is_some());
    let all_latency = all.latency;
    let all = all.weight;
    let builder = TableBuilder {
        profile,
        groups: FrameGroups::new(profile, &functions, &options.keys, &options.filter),
        trees: options.trees,
        from_entries: options.from_entries && children,
        by_space: options.by_space,
        latency: options.latency,
        entries: Vec::new(),
        numbers: EntryNumbers::default(),
        chains: Vec::new(),
        last_task: None,
    };
    let (entries, chains) = builder.build(&merged, children);
    let keys = options.keys.clone();
    ProfileTable {
        entries,
        all,
        all_latency,
        event,
        keys,
        order: options.trees,
        functions,
        merged,
        chains,
    }
}

/// The weight and the latency of all rows of an event.
#[derive(Clone, Copy, Debug, Default)]
struct EventTotal {
    weight: Weight,
    latency: u64,
}

/// Finds rows that differ in [`Detail::Parallelism`] alone, if that isn't a sort key.
struct KeyDetails<'a> {
    profile: &'a Profile,
    /// The index of the parallelism among the details.
    ignored: Option<usize>,
    first: HashMap<Vec<Value>, DetailsId>,
}

impl<'a> KeyDetails<'a> {
    fn new(profile: &'a Profile, keys: &[SortKey]) -> Self {
        let parallelism = Detail::Parallelism;
        let is_key = keys.contains(&SortKey::Detail(parallelism));
        let at = profile.details.keys().iter().position(|detail| *detail == parallelism);
        Self { profile, ignored: at.filter(|_| !is_key), first: HashMap::new() }
    }

    /// Returns the first details whose values of sort keys are the same.
    fn get(&mut self, id: DetailsId) -> DetailsId {
        let Some(ignored) = self.ignored else { return id };
        let mut values = self.profile.details.values(id).to_vec();
        values.get_mut(ignored).into_iter().for_each(|value| *value = Value::None);
        *self.first.entry(values).or_insert(id)
    }
}

/// Merges the rows that pass the filter. Returns them with the sums of all rows.
fn merge(
    profile: &Profile,
    event: EventId,
    options: &TableOptions,
    with_stacks: bool,
) -> (Vec<MergedRow>, EventTotal) {
    type MergeKey = (u32, Option<FrameId>, Option<StackId>);
    let mut all = EventTotal::default();
    let mut details = KeyDetails::new(profile, &options.keys);
    let mut merged: Vec<MergedRow> = Vec::new();
    let mut by_key: HashMap<MergeKey, u32, foldhash::fast::RandomState> = HashMap::default();
    let mut groups: IndexSet<RowGroup, foldhash::fast::RandomState> = IndexSet::default();
    for (row, weight) in profile.rows().filter(|(row, _)| row.event == event) {
        let latency = if options.latency { profile.latency(row, weight) } else { 0 };
        all.weight.add(weight);
        all.latency = all.latency.saturating_add(latency);
        if !options.filter.takes_row(profile, row) {
            continue;
        }
        let row = Row { details: row.details.map(|id| details.get(id)), ..*row };
        let row_group = RowGroup::new(profile, &options.keys, &row);
        let group = u32::try_from(groups.insert_full(row_group).0).unwrap_or(NONE);
        let stack = row.stack.filter(|_| with_stacks);
        let next = u32::try_from(merged.len()).unwrap_or(NONE);
        let at = *by_key.entry((group, row.leaf, stack)).or_insert(next);
        match merged.get_mut(at as usize) {
            Some(merged) => {
                merged.weight.add(weight);
                merged.latency = merged.latency.saturating_add(latency);
            }
            None => merged.push(MergedRow { row: Row { stack, ..row }, group, weight, latency }),
        }
    }
    (merged, all)
}

/// A table while it is built.
struct TableBuilder<'a> {
    profile: &'a Profile,
    groups: FrameGroups<'a>,
    trees: Option<Order>,
    from_entries: bool,
    by_space: bool,
    latency: bool,
    entries: Vec<Entry>,
    numbers: EntryNumbers,
    chains: Vec<EntryChain>,
    /// That of the entry added last.
    last_task: Option<Arc<EntryTask>>,
}

/// The entry of each group of frames, among the rows of one [`RowGroup`] at a time.
#[derive(Default)]
struct EntryNumbers {
    /// By group, with the unknown frame's first. A number below `first` is one of other rows.
    numbers: Vec<u32>,
    row_group: Option<u32>,
    first: usize,
}

impl EntryNumbers {
    /// Begins with the rows of a group, whose entries have the numbers from `first` on.
    fn begin_group(&mut self, row_group: u32, first: usize) {
        if self.row_group.replace(row_group) != Some(row_group) {
            self.first = first;
        }
    }

    /// Returns the number of a group's entry; `next` if it had none.
    fn find_or_set(&mut self, group: u32, next: usize) -> usize {
        let slot = group.wrapping_add(1) as usize;
        if slot >= self.numbers.len() {
            self.numbers.resize(slot + 1, NONE);
        }
        let number = &mut self.numbers[slot];
        if *number == NONE || (*number as usize) < self.first {
            *number = u32::try_from(next).unwrap_or(NONE);
        }
        *number as usize
    }
}

impl TableBuilder<'_> {
    /// Adds each row to the entry of its leaf, and with `children` to the entries of all frames of
    /// its chain.
    fn build(mut self, merged: &[MergedRow], children: bool) -> (Vec<Entry>, Vec<EntryChain>) {
        let is_callee = self.trees == Some(Order::Callee);
        let mut by_group: Vec<(u32, &MergedRow)> = (0..).zip(merged).collect();
        by_group.sort_by_key(|(_, row)| row.group);
        for (id, row) in by_group {
            self.numbers.begin_group(row.group, self.entries.len());
            let frames = self.profile.frames_of(row.row.stack);
            if let Some(entry) = self.find_or_add_entry(row, row.row.leaf) {
                self.entries[entry].parts.get_or_insert_default().own.add(row.weight);
                self.add_to_space(entry, row);
                self.add_latency(entry, row, |parts| &mut parts.own_latency);
                if !self.from_entries || frames.is_empty() {
                    self.add_to_total(entry, id, row.weight, 0, frames.len());
                    self.add_latency(entry, row, |parts| &mut parts.total_latency);
                }
            }
            let frames = if children { frames } else { &[] };
            for skip in 0..frames.len() {
                let at = if is_callee { skip } else { frames.len() - 1 - skip };
                // A recursive function counts a row once.
                if let Some(entry) = self.find_or_add_entry(row, frames.get(at).copied())
                    && self.entries[entry].last != id
                {
                    self.add_to_total(entry, id, row.weight, skip, frames.len() - skip);
                    self.add_latency(entry, row, |parts| &mut parts.total_latency);
                }
            }
        }
        (self.entries, self.chains)
    }

    /// Returns the index of the entry for a row and one of its frames, which is added if it is new.
    /// Returns `None` if the filter hides the frame.
    fn find_or_add_entry(&mut self, row: &MergedRow, frame: Option<FrameId>) -> Option<usize> {
        let group = self.groups.group(frame)?;
        let at = self.numbers.find_or_set(group, self.entries.len());
        if at == self.entries.len() {
            let Row { comm, thread, cpu, trace, details, .. } = row.row;
            let task = EntryTask { comm, thread, cpu, trace, details };
            let last = self.last_task.take().filter(|last| **last == task);
            let task = last.unwrap_or_else(|| Arc::new(task));
            self.last_task = Some(Arc::clone(&task));
            self.entries.push(Entry {
                task,
                frame,
                parts: None,
                total: Weight::default(),
                depth: 0,
                last: NONE,
                chain: NONE,
            });
        }
        Some(at)
    }

    /// Adds a row's period to the entry's part for the address space of the row's leaf.
    fn add_to_space(&mut self, entry: usize, row: &MergedRow) {
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
        let parts = self.entries[entry].parts.get_or_insert_default();
        let sum = &mut parts.own_by_space[place];
        *sum = sum.saturating_add(row.weight.period);
    }

    /// Adds a row's latency to one of the entry's sums.
    fn add_latency(
        &mut self,
        entry: usize,
        row: &MergedRow,
        sum: impl FnOnce(&mut EntryParts) -> &mut u64,
    ) {
        if self.latency {
            let sum = sum(self.entries[entry].parts.get_or_insert_default());
            *sum = sum.saturating_add(row.latency);
        }
    }

    /// Adds a merged row to an entry's total, and its chain, which has `depth` frames after the
    /// skipped ones.
    fn add_to_total(&mut self, entry: usize, id: u32, weight: Weight, skip: usize, depth: usize) {
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

    /// Creates a profile from rows of thread name, functions of one file (the outermost first) and
    /// period.
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
            let row =
                Row { thread: Some(thread), comm: Some(comm), leaf, stack, ..Row::new(event) };
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
            .map(|e| (name(profile, e.frame.unwrap()), e.own().period, e.total.period))
            .collect();
        sums.sort();
        sums
    }

    #[test]
    fn totals_include_callees_and_count_recursion_once() {
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
        assert_eq!(sums(&profile, &table), expected, "the recursive a counts once");
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

    /// A function that runs alone for 9 of 10 seconds, and another that runs in 128 threads.
    #[test]
    fn latency_is_weight_by_the_number_of_running_threads() {
        let (mut profile, event) = profile(&[]);
        profile.set_details(&[Detail::Socket, Detail::Parallelism]);
        let name = profile.add_string(b"x");
        let mut add = |socket, running, period| {
            let values = [Value::Number(socket), Value::Number(running)];
            let details = Some(profile.add_details(&values));
            let row = Row { comm: Some(name), details, ..Row::new(event) };
            profile.add_samples(row, Weight { period, samples: 1 });
        };
        add(0, 1, 9);
        add(0, 128, 64);
        add(1, 128, 64);
        let sums = |keys: &[SortKey], parallelism: &[(u64, u64)]| {
            let filter = Filter { parallelism: parallelism.to_vec(), ..Filter::default() };
            let keys = keys.to_vec();
            let options = TableOptions { keys, latency: true, filter, ..TableOptions::default() };
            let table = table(&profile, event, &options);
            assert_eq!(table.all_latency, 10_000);
            let sums = table.entries.iter().map(|entry| {
                let parts = entry.parts();
                (parts.own.period, parts.own_latency, parts.total_latency)
            });
            sums.collect::<Vec<_>>()
        };
        let by = SortKey::Detail;
        assert_eq!(sums(&[SortKey::Comm], &[]), [(137, 10_000, 10_000)]);
        let by_socket = [(73, 9500, 9500), (64, 500, 500)];
        assert_eq!(sums(&[by(Detail::Socket)], &[]), by_socket);
        assert_eq!(sums(&[by(Detail::Parallelism), by(Detail::Socket)], &[]).len(), 3);
        assert_eq!(sums(&[SortKey::Comm], &[(2, 127), (128, 128)]), [(128, 1000, 1000)]);
    }

    #[test]
    fn hidden_samples_stay_in_the_total() {
        let (profile, event) = profile(&[("x", &["a", "b"], 5), ("y", &["a", "b"], 2)]);
        let filter = Filter { comms: vec![b"y".to_vec()], ..Filter::default() };
        let table = table(
            &profile,
            event,
            &TableOptions { keys: vec![SortKey::Comm], filter, ..TableOptions::default() },
        );
        assert_eq!(
            (table.entries.len(), table.entries[0].own().period, table.all.period),
            (1, 2, 7)
        );
    }

    #[test]
    fn trees_begin_at_either_end() {
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
