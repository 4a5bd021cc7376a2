//! Merges call chains into a tree.

use std::cmp::Reverse;

use crate::ids::{FrameId, StackId};
use crate::key::FunctionKey;
use crate::numbers::FunctionNumbers;
use crate::profile::Profile;
use crate::tables::Weight;

/// The end of the call chains at which a tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The outermost caller: children are callees.
    Caller,
    /// The innermost function: children are callers.
    Callee,
}

/// A function in a [`CallTree`].
#[derive(Clone, Debug)]
pub struct Node {
    /// A frame of the function.
    pub frame: FrameId,
    /// The parent, as an index of [`CallTree::nodes`]; `None` for roots.
    pub parent: Option<usize>,
    /// The weight of chains through the node.
    pub total: Weight,
    /// The weight of chains that end at the node.
    pub own: Weight,
    /// The children, as indices of [`CallTree::nodes`], the heaviest first.
    pub children: Vec<usize>,
}

/// Merged call chains. In the list of nodes, a child follows its parent.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

impl CallTree {
    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes without a parent, the heaviest first.
    #[must_use]
    pub fn roots(&self) -> &[usize] {
        &self.roots
    }
}

/// The part of equal chains after the skipped frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainPart {
    pub(crate) stack: StackId,
    /// Frames to skip, counted from the root of the tree.
    pub(crate) skip: usize,
    pub(crate) weight: Weight,
}

/// Builds call trees from chains. Its buffers are reused from tree to tree.
///
/// A node is split into its children by the next function of its chains. Children below the minimum
/// period are dropped at once, so their descendants are never visited.
#[derive(Debug)]
pub struct CallTrees<'a> {
    profile: &'a Profile,
    functions: &'a FunctionNumbers,
    order: Order,
    /// Minimum period of a node.
    min_period: f64,
    /// By function: the index in `groups` or of the child, or [`NONE`].
    slots: Vec<u32>,
    groups: Vec<ChildGroup>,
}

/// The slot of a function without a group.
const NONE: u32 = u32::MAX;

/// The chains of a node that continue with the same function.
#[derive(Debug)]
struct ChildGroup {
    function: u32,
    frame: FrameId,
    weight: Weight,
    chains: u32,
}

/// A node that has not been split yet.
struct Pending {
    parent: Option<usize>,
    frame: FrameId,
    total: Weight,
    chains: Vec<ChainPart>,
}

impl<'a> CallTrees<'a> {
    pub(crate) fn new(
        profile: &'a Profile,
        functions: &'a FunctionNumbers,
        order: Order,
        min_period: f64,
    ) -> Self {
        let slots = vec![NONE; functions.len() + 1];
        Self { profile, functions, order, min_period, slots, groups: Vec::new() }
    }

    /// Returns the minimum period of a node.
    pub(crate) fn min_period(&self) -> f64 {
        self.min_period
    }

    /// Builds the tree of these chains.
    pub(crate) fn build(&mut self, chains: Vec<ChainPart>) -> CallTree {
        let mut tree = CallTree::default();
        let mut pending = Vec::new();
        self.split(None, chains, &mut pending);
        while let Some(Pending { parent, frame, total, chains }) = pending.pop() {
            let at = tree.nodes.len();
            match parent.and_then(|parent| tree.nodes.get_mut(parent)) {
                Some(parent) => parent.children.push(at),
                None => tree.roots.push(at),
            }
            let own = self.split(Some(at), chains, &mut pending);
            tree.nodes.push(Node { frame, parent, total, own, children: Vec::new() });
        }
        tree
    }

    /// Adds the children of a node to the pending nodes, the heaviest last. Returns the weight of
    /// chains that end at the node.
    fn split(
        &mut self,
        parent: Option<usize>,
        mut chains: Vec<ChainPart>,
        pending: &mut Vec<Pending>,
    ) -> Weight {
        let mut own = Weight::default();
        chains.retain(|chain| {
            let next = self.next_frame(chain);
            match next {
                Some(frame) => self.add_to_group(frame, chain.weight),
                None => own.add(chain.weight),
            }
            next.is_some()
        });
        let mut groups = std::mem::take(&mut self.groups);
        self.clear_slots(&groups);
        groups.retain(|group| group.weight.period as f64 >= self.min_period);
        groups.sort_by_cached_key(|group| {
            (group.weight.period, Reverse(FunctionKey::at_frame(self.profile, Some(group.frame))))
        });
        let first = pending.len();
        for (at, group) in (first..).zip(&groups) {
            let slot = self.slot(group.function);
            self.slots[slot] = u32::try_from(at - first).unwrap_or(NONE);
            let chains =
                Vec::with_capacity(if groups.len() > 1 { group.chains as usize } else { 0 });
            pending.push(Pending { parent, frame: group.frame, total: group.weight, chains });
        }
        self.distribute(chains, &mut pending[first..]);
        self.clear_slots(&groups);
        groups.clear();
        self.groups = groups;
        own
    }

    /// Moves each chain to the child in which it continues. Chains of dropped children are dropped.
    fn distribute(&self, mut chains: Vec<ChainPart>, children: &mut [Pending]) {
        let child_of = |chain: &ChainPart| {
            let slot = self.slot(self.functions.number(self.next_frame(chain)?));
            Some(self.slots[slot]).filter(|child| *child != NONE)
        };
        if let [only] = children {
            chains.retain_mut(|chain| {
                let stays = child_of(chain).is_some();
                chain.skip += 1;
                stays
            });
            only.chains = chains;
            return;
        }
        for chain in chains {
            if let Some(child) = child_of(&chain).and_then(|at| children.get_mut(at as usize)) {
                child.chains.push(ChainPart { skip: chain.skip + 1, ..chain });
            }
        }
    }

    /// Returns the frame with which a chain continues.
    fn next_frame(&self, chain: &ChainPart) -> Option<FrameId> {
        let frames = self.profile.frames_of(Some(chain.stack));
        let at = match self.order {
            Order::Callee => chain.skip,
            Order::Caller => frames.len().checked_sub(chain.skip + 1)?,
        };
        frames.get(at).copied()
    }

    fn add_to_group(&mut self, frame: FrameId, weight: Weight) {
        let function = self.functions.number(frame);
        let slot = self.slot(function);
        let at = self.slots[slot] as usize;
        if let Some(group) = self.groups.get_mut(at) {
            group.weight.add(weight);
            group.chains += 1;
        } else {
            self.slots[slot] = u32::try_from(self.groups.len()).unwrap_or(NONE);
            self.groups.push(ChildGroup { function, frame, weight, chains: 1 });
        }
    }

    fn clear_slots(&mut self, groups: &[ChildGroup]) {
        for group in groups {
            let slot = self.slot(group.function);
            self.slots[slot] = NONE;
        }
    }

    /// Returns the index of a function in `slots`. The last slot is for unknown functions.
    fn slot(&self, function: u32) -> usize {
        (function as usize).min(self.slots.len() - 1)
    }
}
