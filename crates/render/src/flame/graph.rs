//! The call chains of one or two sides as one tree, and the weights on it.

use std::collections::HashMap;

use indexmap::IndexSet;
use tare_profile::{
    EventId, FrameId, Order, Profile, Space, StackId, StringId, Thread, ThreadId, Weight,
    source_name,
};

use super::FlameInput;
use super::collect::{StackKey, TimeSlices};
use super::renamed::RenamedThreads;
use super::roots::{FlameRoot, ProcessNames};
use super::tree::{self, ChainTable, GraphRow, MERGED, Node, Totals, Tree};
use crate::samples::{FrameKind, FrameText, RecordingSummary, Unit};

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
type Set<T> = IndexSet<T, foldhash::fast::RandomState>;

/// The properties that determine a sample's node: thread, its name, innermost frame, callers.
type FunctionChain = (Option<ThreadId>, Option<StringId>, Option<FrameId>, Option<StackId>);

/// Maximum number of distinguished threads; further threads are merged.
const MAX_THREADS: usize = 1 << 10;

/// A function of a graph. All addresses without a symbol in a file are one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GraphFunction {
    pub(super) name: String,
    pub(super) dso: String,
    pub(super) kind: FrameKind,
}

/// An event of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GraphEvent {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// The weight of all its samples, by side.
    pub(super) all: [Weight; 2],
}

/// A flame graph: a tree of call chains, and the samples on it.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(super) events: Vec<GraphEvent>,
    pub(super) threads: Vec<String>,
    pub(super) functions: Vec<GraphFunction>,
    /// The nodes; the first is the root, which isn't a function.
    pub(super) nodes: Vec<Node>,
    pub(super) rows: Vec<GraphRow>,
    pub(super) slices: TimeSlices,
    /// Number of nodes that were merged because they were too narrow.
    pub(super) merged: usize,
}

impl Graph {
    /// Builds the graph of one side, or of two to compare. `order` determines which end of call
    /// chains is the root, `root` what is next to it. Two sides are matched as
    /// [`Runs`](tare_profile::Runs) matches them: by the function's name in the source and its
    /// address space, because files and the names of compiled functions differ between builds.
    #[must_use]
    pub fn new(mut sides: Vec<Vec<FlameInput<'_>>>, order: Order, root: FlameRoot) -> Self {
        let width_ns = |input: &FlameInput<'_>| input.samples.slices.width_ns;
        let widest_ns = sides.iter().flatten().map(width_ns).max().unwrap_or(0);
        for recorded in sides.iter_mut().flatten() {
            while recorded.samples.slices.width_ns < widest_ns {
                recorded.samples.widen();
            }
        }
        let slices = sides.iter().flatten().map(|recorded| recorded.samples.slices);
        let slices = slices.reduce(|first, second| TimeSlices {
            count: first.count.max(second.count),
            first_ns: first.first_ns.or(second.first_ns),
            ..first
        });
        let special = |name: &str| GraphFunction {
            name: name.to_owned(),
            dso: String::new(),
            kind: FrameKind::Unresolved,
        };
        let is_compared = sides.len() > 1;
        let mut building = Building {
            order,
            root,
            matching: is_compared.then(|| Matching::new(&sides)),
            is_joined: is_compared || sides.iter().any(|side| side.len() > 1),
            functions: [special("all"), special("(too narrow to show)")].into_iter().collect(),
            threads: Set::default(),
            events: Vec::new(),
            chains: ChainTable::default(),
            rows: Vec::new(),
        };
        for (side, recordings) in sides.into_iter().enumerate().take(2) {
            recordings.into_iter().for_each(|recorded| building.add(side, recorded));
        }
        let none = TimeSlices { first_ns: None, width_ns: 1, count: 1 };
        building.finish(slices.unwrap_or(none))
    }

    /// Merges nodes with a share below `least`, and all nodes below them, into one node per parent.
    pub(super) fn merge_narrow(&mut self, least: f64) {
        let mut kept: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut nodes: Vec<Node> = Vec::new();
        let mut narrow: Map<usize, usize> = Map::default();
        for node in &self.nodes {
            let parent = kept.get(node.parent).copied().unwrap_or(0);
            let is_below = nodes.get(parent).is_some_and(|parent| parent.function == MERGED);
            if node.depth > 0 && node.function != MERGED && (is_below || node.share < least) {
                self.merged += 1;
                let at =
                    if is_below { parent } else { *narrow.entry(parent).or_insert(nodes.len()) };
                if at == nodes.len() {
                    nodes.push(Node { parent, function: MERGED, share: 0.0, ..*node });
                }
                if !is_below && let Some(merged) = nodes.get_mut(at) {
                    merged.share += node.share;
                }
                kept.push(at);
            } else {
                kept.push(nodes.len());
                nodes.push(Node { parent, ..*node });
            }
        }
        self.rows.iter_mut().for_each(|row| row.node = kept.get(row.node).copied().unwrap_or(0));
        self.nodes = nodes;
        self.sort_nodes();
        self.merge_rows();
    }

    /// Doubles the width of time slices, and merges each two.
    pub(super) fn widen(&mut self) {
        self.slices.width_ns = self.slices.width_ns.saturating_mul(2);
        self.slices.count = self.slices.count.div_ceil(2);
        self.rows.iter_mut().for_each(|row| row.slice /= 2);
        self.merge_rows();
    }

    /// Sorts rows, and merges those with the same properties.
    fn merge_rows(&mut self) {
        self.rows.sort_unstable();
        self.rows.dedup_by(|next, row| {
            let is_same = GraphRow { weight: row.weight, ..*next } == *row;
            if is_same {
                row.weight.add(next.weight);
            }
            is_same
        });
    }

    /// Sorts nodes: each after its parent and its heavier siblings.
    fn sort_nodes(&mut self) {
        // All children, those of one parent beside each other.
        let mut children: Vec<usize> = (1..self.nodes.len()).collect();
        let name = |at: usize| &self.functions[self.nodes[at].function].name;
        children.sort_unstable_by(|a, b| {
            let [left, right] = [*a, *b].map(|at| self.nodes[at]);
            // The heaviest last, because the last one pushed is the next one popped.
            let by_share = || left.share.total_cmp(&right.share);
            let siblings = left.parent.cmp(&right.parent).then_with(by_share);
            siblings.then_with(|| name(*b).cmp(name(*a)))
        });
        let children_of = |parent: usize| {
            let begin = children.partition_point(|at| self.nodes[*at].parent < parent);
            let rest = &children[begin..];
            &rest[..rest.partition_point(|at| self.nodes[*at].parent == parent)]
        };
        let mut moved = vec![0; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut pending = vec![0];
        while let Some(at) = pending.pop() {
            let node = self.nodes[at];
            moved[at] = nodes.len();
            let (parent, depth) = if at == 0 {
                (0, 0)
            } else {
                let parent = moved[node.parent];
                (parent, nodes[parent].depth + 1)
            };
            nodes.push(Node { parent, depth, ..node });
            pending.extend_from_slice(children_of(at));
        }
        self.rows.iter_mut().for_each(|row| row.node = moved[row.node]);
        self.nodes = nodes;
    }

    /// Returns the weight of each node with the nodes below it, for an event on one side.
    pub(super) fn totals(&self, side: usize, event: usize) -> Vec<Weight> {
        let mut totals = vec![Weight::default(); self.nodes.len()];
        for row in self.rows.iter().filter(|row| (row.side, row.event) == (side, event)) {
            totals[row.node].add(row.weight);
        }
        for at in (1..self.nodes.len()).rev() {
            let below = totals[at];
            totals[self.nodes[at].parent].add(below);
        }
        totals
    }
}

/// Matches functions and threads of two sides.
struct Matching {
    renamed: RenamedThreads,
    /// Functions by source name and address space.
    functions: Map<(String, Space), usize>,
}

impl Matching {
    fn new(sides: &[Vec<FlameInput<'_>>]) -> Self {
        Self { renamed: RenamedThreads::new(sides), functions: Map::default() }
    }
}

/// A graph while it is built.
struct Building {
    order: Order,
    root: FlameRoot,
    /// With two sides.
    matching: Option<Matching>,
    /// Threads of several recordings are matched by name, because their ids are unrelated.
    is_joined: bool,
    functions: Set<GraphFunction>,
    threads: Set<String>,
    events: Vec<GraphEvent>,
    chains: ChainTable,
    /// Their `node` is the index of a chain.
    rows: Vec<GraphRow>,
}

impl Building {
    fn add(&mut self, side: usize, recorded: FlameInput<'_>) {
        let FlameInput { whole, samples } = recorded;
        let profile = whole.profile;
        let by_thread = self.root != FlameRoot::Comm;
        let processes = by_thread.then(|| ProcessNames::new(profile, samples.rows.iter()));
        let mut events: Map<EventId, usize> = Map::default();
        let mut frames: Map<FrameId, usize> = Map::default();
        let mut chains: Map<FunctionChain, usize> = Map::default();
        for (key, weight) in samples.rows {
            let event = *events.entry(key.event).or_insert_with(|| self.event(&whole, key.event));
            self.events[event].all[side].add(weight);
            let chain = (key.thread.filter(|_| by_thread), key.comm, key.leaf, key.stack);
            let node = *chains.entry(chain).or_insert_with(|| {
                let roots = self.roots(profile, &key, processes.as_ref());
                self.chain(profile, &key, roots, &mut frames)
            });
            let thread = self.thread(profile, &key);
            let slice = key.slice;
            self.rows.push(GraphRow { side, event, thread, node, slice, weight });
        }
    }

    /// Returns the index of an event, by its name: event ids differ between recordings.
    fn event(&mut self, whole: &RecordingSummary<'_>, id: EventId) -> usize {
        let profile = whole.profile;
        let name = profile.event(id).map(|event| profile.string(event.name)).unwrap_or_default();
        let name = tare_format::printable(name).into_owned();
        let unit = whole.session.unit(profile, id);
        self.events.iter().position(|event| event.name == name).unwrap_or_else(|| {
            self.events.push(GraphEvent { name, unit, all: Default::default() });
            self.events.len() - 1
        })
    }

    fn thread(&mut self, profile: &Profile, key: &StackKey) -> usize {
        let comm = key.comm.map(|comm| self.thread_name(profile.string(comm)));
        let tid = key.thread.and_then(|thread| profile.thread(thread)).map(|thread| thread.tid);
        let tid = tid.filter(|_| !self.is_joined || comm.is_none());
        let label = match (comm, tid) {
            (Some(comm), Some(tid)) => format!("{comm} {tid}"),
            (Some(comm), None) => comm,
            (None, Some(tid)) => format!("{tid}"),
            (None, None) => "unknown".to_owned(),
        };
        let is_known = self.threads.len() < MAX_THREADS || self.threads.contains(&label);
        self.threads.insert_full(if is_known { label } else { "other threads".to_owned() }).0
    }

    /// Returns the printable name under which a thread is shown.
    fn thread_name(&self, comm: &[u8]) -> String {
        let renamed = self.matching.as_ref().and_then(|matching| matching.renamed.label(comm));
        renamed.map_or_else(|| tare_format::printable(comm).into_owned(), str::to_owned)
    }

    /// Returns the functions next to the root that a sample is below, the outermost last.
    fn roots(
        &mut self,
        profile: &Profile,
        key: &StackKey,
        processes: Option<&ProcessNames<'_>>,
    ) -> Vec<usize> {
        let comm = key.comm.map(|comm| profile.string(comm)).unwrap_or_default();
        let unknown = Thread { pid: -1, tid: -1 };
        let thread = key.thread.and_then(|thread| profile.thread(thread)).unwrap_or(&unknown);
        let names = match processes {
            None => vec![self.thread_name(comm)],
            Some(processes) => {
                let process = self.label(processes.get(thread.pid), thread.pid);
                let own = (self.root == FlameRoot::Thread).then(|| self.label(comm, thread.tid));
                own.into_iter().chain([process]).collect()
            }
        };
        let kind = FrameKind::Thread;
        let function = |name| GraphFunction { name, dso: String::new(), kind };
        names.into_iter().map(|name| self.functions.insert_full(function(name)).0).collect()
    }

    /// Returns a name with the id of its thread or process, unless ids can't be compared.
    fn label(&self, name: &[u8], id: i32) -> String {
        let name = self.thread_name(name);
        if self.is_joined { name } else { format!("{name} {id}") }
    }

    /// Adds the call chain of a sample, and returns its index.
    fn chain(
        &mut self,
        profile: &Profile,
        key: &StackKey,
        roots: Vec<usize>,
        known: &mut Map<FrameId, usize>,
    ) -> usize {
        let row = tare_profile::Row {
            leaf: key.leaf,
            stack: key.stack,
            ..tare_profile::Row::new(key.event)
        };
        let mut frames = Vec::new();
        profile.frames_of_row(&row, &mut frames);
        let mut functions: Vec<usize> =
            frames.iter().map(|frame| self.function(profile, *frame, known)).collect();
        // Broken chains have long runs of frames without symbols; one of each run is kept.
        let is_unresolved = |at: &usize| {
            let function = self.functions.get_index(*at);
            function.is_some_and(|function| function.kind == FrameKind::Unresolved)
        };
        functions.dedup_by(|next, before| next == before && is_unresolved(next));
        functions.extend(roots);
        if self.order == Order::Caller {
            functions.reverse();
        }
        let index = |function: usize| u32::try_from(function).unwrap_or(u32::MAX);
        self.chains.add(functions.into_iter().map(index))
    }

    fn function(
        &mut self,
        profile: &Profile,
        frame: FrameId,
        known: &mut Map<FrameId, usize>,
    ) -> usize {
        *known.entry(frame).or_insert_with(|| {
            let place = FrameText::new(profile, frame);
            let dso = tare_format::printable(place.dso.as_deref().unwrap_or_default()).into_owned();
            let Some(matching) = &mut self.matching else {
                let name = tare_format::printable(&*place.name).into_owned();
                return self.functions.insert_full(GraphFunction { name, dso, kind: place.kind }).0;
            };
            let name = source_name(place.name.as_bytes());
            let name = tare_format::printable(&*name).into_owned();
            let space = profile.frame(frame).map_or(Space::Unknown, |frame| frame.space);
            *matching.functions.entry((name.clone(), space)).or_insert_with(|| {
                self.functions.insert_full(GraphFunction { name, dso, kind: place.kind }).0
            })
        })
    }

    fn finish(self, slices: TimeSlices) -> Graph {
        let Self { functions, threads, events, chains, mut rows, .. } = self;
        let totals = Totals::new(events.iter().map(|event| event.all.map(|all| all.period)));
        let Tree { nodes, merged } = tree::build(&chains, &mut rows, &totals);
        drop(chains);
        let functions = functions.into_iter().collect();
        let threads = threads.into_iter().collect();
        let mut graph = Graph { events, threads, functions, nodes, rows, slices, merged };
        graph.sort_nodes();
        graph.merge_rows();
        graph
    }
}

#[cfg(test)]
mod tests {
    use tare_profile::{Dso, ProfileFrame, Row, Symbol};

    use super::*;
    use crate::flame::Collector;
    use crate::samples::{LocatedSample, RecordingOrigin, RecordingSummary, SampleSink};

    /// A function, its file, and its number of samples.
    type Sampled<'a> = (&'a [u8], &'a [u8], u64);

    fn collect(comm: &[u8], sampled: &[Sampled<'_>]) -> (Profile, Collector) {
        let mut profile = Profile::default();
        let mut collector = Collector::default();
        let name = profile.add_string(b"cpu-clock");
        let event = profile.name_event(0, name);
        let comm = Some(profile.add_string(comm));
        for (function, file, samples) in sampled {
            let path = profile.add_string(file);
            let dso = profile.add_dso(Dso { path, short: path });
            let name = profile.add_string(function);
            let symbol = profile.add_symbol(Symbol { dso, name, start: 64 });
            let frame = profile.add_frame(ProfileFrame {
                space: Space::User,
                dso: Some(dso),
                function: Ok(symbol),
                address: 64,
                is_inlined: false,
                line: None,
            });
            let row = Row { comm, leaf: Some(frame), ..Row::new(event) };
            let weight = Weight { period: *samples, samples: *samples };
            let sample = LocatedSample { row, weight, time_ns: None, switch: None };
            collector.sample(&profile, &sample).unwrap();
        }
        (profile, collector)
    }

    fn input<'a>(
        collected: &'a (Profile, Collector),
        session: &'a RecordingOrigin,
    ) -> FlameInput<'a> {
        let whole = RecordingSummary { profile: &collected.0, ledger: None, session };
        FlameInput { whole, samples: collected.1.clone() }
    }

    #[test]
    fn a_comparison_matches_functions_of_renamed_programs_as_a_diff_does() {
        let now = collect(b"new", &[(b"hot", b"new", 50), (b"grown.isra.0", b"libc.so.6", 50)]);
        let before = collect(b"old", &[(b"hot", b"old", 50), (b"grown", b"libc.so.5", 25)]);
        let session = RecordingOrigin::default();
        let sides = [&now, &before].map(|one| vec![input(one, &session)]);
        let graph = Graph::new(sides.into(), Order::Caller, FlameRoot::Comm);
        assert_eq!(graph.threads, ["old → new"]);
        let shown = graph.compared("cpu-clock", 0.0);
        let shares = |name: &str| {
            let node = shown.iter().find(|node| node.name == name);
            node.map(|node| (node.before * 75.0, node.now * 100.0))
        };
        assert_eq!(shares("old → new"), Some((75.0, 100.0)));
        assert_eq!(shares("hot"), Some((50.0, 50.0)));
        assert_eq!(shares("grown"), Some((25.0, 50.0)));
        assert_eq!(shown.len(), 4, "{shown:?}");
    }

    #[test]
    fn a_name_that_only_one_side_has_stays_if_the_other_side_has_no_such_name() {
        let now = collect(b"sh", &[(b"hot", b"sh", 50)]);
        let before = collect(b"sh", &[(b"hot", b"sh", 50)]);
        let gone = collect(b"make", &[(b"hot", b"make", 9)]);
        let session = RecordingOrigin::default();
        let before = vec![input(&before, &session), input(&gone, &session)];
        let graph =
            Graph::new(vec![vec![input(&now, &session)], before], Order::Caller, FlameRoot::Comm);
        assert_eq!(graph.threads, ["sh", "make"]);
    }

    #[test]
    fn processes_are_roots_with_their_threads_merged_or_below() {
        let session = RecordingOrigin::default();
        let (mut profile, mut samples) = collect(b"server", &[(b"idle", b"server", 1)]);
        let first = *samples.rows.keys().next().unwrap();
        samples.rows.clear();
        let mut add = |pid: i32, tid: i32, comm: &[u8]| {
            let thread = profile.add_thread(Thread { pid, tid });
            let comm = profile.add_string(comm);
            profile.name_thread(thread, comm);
            let key = StackKey { thread: Some(thread), comm: Some(comm), ..first };
            samples.rows.insert(key, Weight { period: 5, samples: 5 });
        };
        add(10, 10, b"server");
        add(10, 11, b"worker");
        add(20, 21, b"worker");
        let shown = |root| {
            let whole = RecordingSummary { profile: &profile, ledger: None, session: &session };
            let input = FlameInput { whole, samples: samples.clone() };
            let graph = Graph::new(vec![vec![input]], Order::Caller, root);
            let nodes = graph.compared("cpu-clock", 0.0).into_iter();
            let mut names: Vec<String> = nodes
                .filter(|node| node.depth > 0 && node.name != "idle")
                .map(|node| {
                    format!(
                        "{}{} {:.1}",
                        "-".repeat(node.depth as usize),
                        node.name,
                        node.now * 15.0
                    )
                })
                .collect();
            names.sort();
            names
        };
        assert_eq!(shown(FlameRoot::Comm), ["-server 5.0", "-worker 10.0"]);
        assert_eq!(shown(FlameRoot::Process), ["-server 10 10.0", "-worker 20 5.0"]);
        let threads = ["--server 10 5.0", "--worker 11 5.0", "--worker 21 5.0"];
        let processes = ["-server 10 10.0", "-worker 20 5.0"];
        assert_eq!(shown(FlameRoot::Thread), [&threads[..], &processes].concat());
    }
}
