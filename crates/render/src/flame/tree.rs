//! Builds the tree of a flame graph from sorted call chains.
//!
//! ```text
//! chains, sorted --walk--> nodes, each opened before and closed after the nodes below it
//!                            |-- first walk: how many nodes have which share
//!                            \-- second walk: the nodes; narrow ones are merged as they close
//! ```
//! Memory therefore depends on the chains and on [`MAX_NODES`], not on the number of different
//! paths through the program.

use tare_profile::Weight;

/// Limit on the nodes of a graph. The narrowest nodes above it are merged. A page or a picture has
/// room for fewer.
const MAX_NODES: usize = 1 << 19;

/// Number of classes of shares; each is 2^(1/4) times narrower than the one before.
const CLASSES: usize = 256;

/// Index of the root's function.
pub(super) const ROOT: usize = 0;

/// Index of the function that stands for merged nodes.
pub(super) const MERGED: usize = 1;

/// A node of the tree. Its parent, and heavier siblings with their subtrees, precede it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) parent: usize,
    pub(super) depth: u32,
    /// Index in the graph's functions.
    pub(super) function: usize,
    /// Its largest share of an event's weight on either side, 0 to 1; of a merged node, the sum of
    /// these shares of its parts.
    pub(super) share: f64,
}

/// Summed samples with the same properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GraphRow {
    /// 0, or 1 for the side to compare with.
    pub(super) side: usize,
    pub(super) event: usize,
    /// Index in the graph's threads.
    pub(super) thread: usize,
    /// Index in the graph's nodes.
    pub(super) node: usize,
    pub(super) slice: u32,
    pub(super) weight: Weight,
}

/// Call chains as indexes of functions, from the root of the graph.
#[derive(Debug, Default)]
pub(super) struct ChainTable {
    functions: Vec<u32>,
    ends: Vec<usize>,
}

impl ChainTable {
    /// Adds a chain and returns its index.
    pub(super) fn add(&mut self, functions: impl Iterator<Item = u32>) -> usize {
        self.functions.extend(functions);
        self.ends.push(self.functions.len());
        self.ends.len() - 1
    }

    fn get(&self, at: usize) -> &[u32] {
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.functions.get(begin.unwrap_or(0)..end).unwrap_or_default()
    }

    /// Sorts rows by their chains, which their `node` refers to.
    fn sort_rows(&self, rows: &mut [GraphRow]) {
        let mut order: Vec<usize> = (0..self.ends.len()).collect();
        order.sort_unstable_by_key(|at| self.get(*at));
        let mut ranks = vec![0; order.len()];
        for (rank, at) in order.into_iter().enumerate() {
            ranks[at] = rank;
        }
        rows.sort_unstable_by_key(|row| ranks[row.node]);
    }
}

/// The weight of all samples of each event on each side, to which shares refer.
#[derive(Clone, Debug)]
pub(super) struct Totals(Vec<u64>);

impl Totals {
    /// Creates them from the weights of each event on both sides.
    pub(super) fn new(all: impl Iterator<Item = [u64; 2]>) -> Self {
        Self(all.flatten().collect())
    }

    /// Returns the largest share of a node with these weights.
    fn largest_share(&self, sums: &[u64]) -> f64 {
        let shares = sums.iter().zip(&self.0).map(|(sum, all)| *sum as f64 / (*all).max(1) as f64);
        shares.fold(0.0, f64::max)
    }
}

/// Follows a walk through the nodes.
trait TreeVisitor {
    /// A node below the last open one.
    fn open(&mut self, function: u32);
    /// The next row, which is at the last open node.
    fn row(&mut self);
    /// The last open node is complete.
    fn close(&mut self, share: f64);
}

/// Walks through the nodes of sorted rows.
fn walk(chains: &ChainTable, rows: &[GraphRow], totals: &Totals, visitor: &mut impl TreeVisitor) {
    let columns = totals.0.len();
    let mut path: Vec<u32> = Vec::new();
    // The weights of each open node.
    let mut sums: Vec<u64> = Vec::new();
    let close = |path: &mut Vec<u32>, sums: &mut Vec<u64>, visitor: &mut _| {
        path.pop();
        let own = sums.split_off(path.len() * columns);
        TreeVisitor::close(visitor, totals.largest_share(&own));
        let outer = path.len().saturating_sub(1) * columns;
        for (sum, own) in sums.iter_mut().skip(outer).zip(own) {
            *sum = sum.saturating_add(own);
        }
    };
    for row in rows {
        let chain = chains.get(row.node);
        let shared = path.iter().zip(chain).take_while(|(open, next)| open == next).count();
        while path.len() > shared {
            close(&mut path, &mut sums, visitor);
        }
        for function in &chain[shared..] {
            path.push(*function);
            sums.resize(path.len() * columns, 0);
            visitor.open(*function);
        }
        let own = path.len().saturating_sub(1) * columns + 2 * row.event + row.side;
        if let Some(sum) = sums.get_mut(own) {
            *sum = sum.saturating_add(row.weight.period);
        }
        visitor.row();
    }
    while !path.is_empty() {
        close(&mut path, &mut sums, visitor);
    }
}

/// Counts nodes by their share.
struct ShareCounts([usize; CLASSES]);

impl ShareCounts {
    /// Returns the share below which nodes are merged; 0 if there are few nodes.
    fn least_share(&self, most: usize) -> f64 {
        let mut nodes = 0;
        for (class, count) in self.0.iter().enumerate() {
            nodes += count;
            if nodes > most {
                return (-(class as f64) / 4.0).exp2();
            }
        }
        0.0
    }
}

impl TreeVisitor for ShareCounts {
    fn open(&mut self, _function: u32) {}

    fn row(&mut self) {}

    fn close(&mut self, share: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "limited below"
        )]
        let class = (-4.0 * share.log2()).floor().clamp(0.0, (CLASSES - 1) as f64) as usize;
        self.0[class] += 1;
    }
}

/// A node that isn't complete.
#[derive(Clone, Copy, Debug)]
struct OpenNode {
    node: usize,
    /// Index of its first row.
    first_row: usize,
    /// The node of its narrow children.
    merged: Option<usize>,
    /// Number of kept nodes, itself included.
    kept: usize,
}

/// Makes the nodes, and merges those with a share below `least` into one per parent.
struct TreeBuilder {
    least: f64,
    nodes: Vec<Node>,
    open: Vec<OpenNode>,
    /// The node of each row.
    row_nodes: Vec<usize>,
    merged: usize,
}

impl TreeBuilder {
    fn new(least: f64) -> Self {
        let root = Node { parent: 0, depth: 0, function: ROOT, share: 1.0 };
        let open = OpenNode { node: 0, first_row: 0, merged: None, kept: 1 };
        let row_nodes = Vec::new();
        Self { least, nodes: vec![root], open: vec![open], row_nodes, merged: 0 }
    }

    fn add_node(&mut self, function: usize) -> usize {
        let parent = self.open.last().map_or(0, |open| open.node);
        let depth = self.nodes[parent].depth + 1;
        self.nodes.push(Node { parent, depth, function, share: 0.0 });
        self.nodes.len() - 1
    }
}

impl TreeVisitor for TreeBuilder {
    fn open(&mut self, function: u32) {
        let node = self.add_node(function as usize);
        let first_row = self.row_nodes.len();
        self.open.push(OpenNode { node, first_row, merged: None, kept: 1 });
    }

    fn row(&mut self) {
        self.row_nodes.push(self.open.last().map_or(0, |open| open.node));
    }

    fn close(&mut self, share: f64) {
        let Some(done) = self.open.pop() else { return };
        if share >= self.least {
            self.nodes[done.node].share = share;
            self.open.iter_mut().rev().take(1).for_each(|parent| parent.kept += done.kept);
            return;
        }
        // The nodes below it are the last ones.
        self.nodes.truncate(done.node);
        self.merged += done.kept;
        let known = self.open.last().and_then(|parent| parent.merged);
        let merged = known.unwrap_or_else(|| self.add_node(MERGED));
        self.nodes[merged].share += share;
        self.row_nodes[done.first_row..].fill(merged);
        self.open.iter_mut().rev().take(1).for_each(|parent| parent.merged = Some(merged));
    }
}

/// The nodes of a graph, and how many were merged.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) merged: usize,
}

/// Builds the tree of the rows, whose `node` is the index of their chain, and then that of their
/// node.
pub(super) fn build(chains: &ChainTable, rows: &mut [GraphRow], totals: &Totals) -> Tree {
    build_limited(chains, rows, totals, MAX_NODES)
}

fn build_limited(chains: &ChainTable, rows: &mut [GraphRow], totals: &Totals, most: usize) -> Tree {
    chains.sort_rows(rows);
    let mut counts = ShareCounts([0; CLASSES]);
    walk(chains, rows, totals, &mut counts);
    let mut builder = TreeBuilder::new(counts.least_share(most));
    walk(chains, rows, totals, &mut builder);
    for (row, node) in rows.iter_mut().zip(&builder.row_nodes) {
        row.node = *node;
    }
    Tree { nodes: builder.nodes, merged: builder.merged }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(chain: usize, period: u64) -> GraphRow {
        let weight = Weight { period, samples: 1 };
        GraphRow { side: 0, event: 0, thread: 0, node: chain, slice: 0, weight }
    }

    /// Builds a tree of chains with these periods. Returns each node's parent, function and share
    /// in percent, the number of merged nodes, and the period of each node's own rows.
    fn built(all: &[(&[u32], u64)], most: usize) -> (Vec<(usize, usize, u64)>, usize, Vec<u64>) {
        let mut chains = ChainTable::default();
        let mut rows: Vec<GraphRow> = all
            .iter()
            .map(|(chain, period)| row(chains.add(chain.iter().copied()), *period))
            .collect();
        let totals = Totals::new([[100, 0]].into_iter());
        let tree = build_limited(&chains, &mut rows, &totals, most);
        let mut own = vec![0; tree.nodes.len()];
        rows.iter().for_each(|row| own[row.node] += row.weight.period);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 100")]
        let percent = |share: f64| (share * 100.0).round() as u64;
        let nodes = tree.nodes.iter();
        let nodes = nodes.map(|node| (node.parent, node.function, percent(node.share)));
        (nodes.collect(), tree.merged, own)
    }

    const CHAINS: [(&[u32], u64); 5] =
        [(&[2, 4], 10), (&[2], 60), (&[2, 3, 5], 5), (&[2, 4], 5), (&[6], 20)];

    #[test]
    fn chains_share_the_nodes_of_their_common_beginning() {
        let (nodes, merged, own) = built(&CHAINS, 100);
        let expected = [(0, 0, 100), (0, 2, 80), (1, 3, 5), (2, 5, 5), (1, 4, 15), (0, 6, 20)];
        assert_eq!((nodes, merged), (expected.to_vec(), 0));
        assert_eq!(own, [0, 60, 0, 5, 15, 20]);
    }

    #[test]
    fn the_narrowest_nodes_above_the_limit_become_one_per_parent() {
        let (nodes, merged, own) = built(&CHAINS, 2);
        let expected = [(0, 0, 100), (0, 2, 80), (1, MERGED, 20), (0, 6, 20)];
        assert_eq!((nodes, merged), (expected.to_vec(), 3));
        assert_eq!(own, [0, 60, 20, 20]);
    }
}
