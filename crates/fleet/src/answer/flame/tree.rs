//! Call chains as a tree.

use crate::answer::flame::{FlameGraph, StackSum, index};

/// What a node stands for. Numbers are those of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// All samples of an event.
    Event(u32),
    /// Those with a label.
    Label(u32),
    /// Those with a call chain.
    Frame(u32),
    /// Those that waited, for a reason.
    Reason(u32),
}

/// A node and the sums of what is below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallNode {
    pub(super) kind: NodeKind,
    pub(super) total: i64,
    pub(super) own: i64,
    pub(super) samples: i64,
    pub(super) own_samples: i64,
    /// Index after the last node below.
    end: u32,
}

/// A tree for each event. A node is followed by those below it.
pub(super) struct CallTree {
    nodes: Vec<CallNode>,
    /// Place of each frame in the order of names.
    ranks: Vec<u32>,
}

/// A node's place.
#[derive(Clone, Copy)]
pub(super) struct TreePlace {
    pub(super) node: CallNode,
    /// 0 for an event.
    pub(super) depth: usize,
}

impl CallTree {
    pub(super) fn new(graph: &FlameGraph) -> Self {
        let mut tree = Self { nodes: Vec::new(), ranks: ranks(graph) };
        let ranks = &tree.ranks;
        let key = |sum: &StackSum| {
            let [event, name, reason] =
                [sum.event, sum.name, sum.reason].map(|number| order(graph.text(number)));
            (event, name, reason)
        };
        let mut sums: Vec<&StackSum> = graph.sums.iter().collect();
        sums.sort_by(|a, b| {
            let [left, right] = [a, b].map(|sum| key(sum));
            let chain =
                |sum: &StackSum| graph.chain(sum.stack).iter().rev().map(|f| ranks[*f as usize]);
            let order = (left.0, left.1).cmp(&(right.0, right.1));
            order.then_with(|| chain(a).cmp(chain(b))).then(left.2.cmp(&right.2))
        });
        let mut open: Vec<u32> = Vec::new();
        let mut path = Vec::new();
        for sum in sums {
            path.clear();
            path.extend([NodeKind::Event(sum.event), NodeKind::Label(sum.name)]);
            path.extend(graph.chain(sum.stack).iter().rev().map(|frame| NodeKind::Frame(*frame)));
            path.extend((sum.reason != 0).then_some(NodeKind::Reason(sum.reason)));
            let is_equal =
                |(node, kind): &(&u32, &NodeKind)| tree.nodes[**node as usize].kind == **kind;
            let common = open.iter().zip(&path).take_while(is_equal).count();
            tree.close(&mut open, common);
            for kind in &path[common..] {
                open.push(index(tree.nodes.len()));
                let [total, own, samples, own_samples] = [0; 4];
                tree.nodes.push(CallNode { kind: *kind, total, own, samples, own_samples, end: 0 });
            }
            tree.add(&open, sum);
        }
        tree.close(&mut open, 0);
        tree
    }

    fn add(&mut self, open: &[u32], sum: &StackSum) {
        for at in open {
            let node = &mut self.nodes[*at as usize];
            node.total = node.total.saturating_add(sum.weight);
            node.samples = node.samples.saturating_add(sum.samples);
        }
        if let Some(at) = open.last() {
            let node = &mut self.nodes[*at as usize];
            node.own = node.own.saturating_add(sum.weight);
            node.own_samples = node.own_samples.saturating_add(sum.samples);
        }
    }

    /// Ends the open nodes below a depth.
    fn close(&mut self, open: &mut Vec<u32>, depth: usize) {
        let end = index(self.nodes.len());
        open.drain(depth..).for_each(|at| self.nodes[at as usize].end = end);
    }

    /// Calls `each` with the nodes that it wants, from the root; of siblings, those with more weight
    /// come first. It returns whether it wants the nodes below.
    pub(super) fn visit<E>(
        &self,
        mut each: impl FnMut(TreePlace) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut waiting: Vec<(u32, usize)> = Vec::new();
        self.push_siblings(0, index(self.nodes.len()), 0, &mut waiting);
        while let Some((at, depth)) = waiting.pop() {
            let node = self.nodes[at as usize];
            if each(TreePlace { node, depth })? {
                self.push_siblings(at + 1, node.end, depth + 1, &mut waiting);
            }
        }
        Ok(())
    }

    fn push_siblings(&self, begin: u32, end: u32, depth: usize, waiting: &mut Vec<(u32, usize)>) {
        let first = waiting.len();
        let mut at = begin;
        while at < end {
            waiting.push((at, depth));
            at = self.nodes[at as usize].end;
        }
        // Events stay in the order of their names. Nodes of equal weight are in that order too.
        let weight = |at: u32| if depth == 0 { 0 } else { self.nodes[at as usize].total };
        waiting[first..].sort_by_key(|(at, _)| (weight(*at), std::cmp::Reverse(*at)));
    }
}

/// Orders texts by their bytes, NULL last.
fn order(text: Option<&str>) -> (bool, Option<&str>) {
    (text.is_none(), text)
}

/// Returns the place of each frame in the order of names.
fn ranks(graph: &FlameGraph) -> Vec<u32> {
    let mut frames: Vec<u32> = (0..index(graph.frames.len())).collect();
    frames.sort_by_key(|frame| graph.frame(*frame).map(order));
    let mut ranks = vec![0; frames.len()];
    for (rank, frame) in (0..).zip(frames) {
        ranks[frame as usize] = rank;
    }
    ranks
}
