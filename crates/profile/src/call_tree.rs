//! Stacks put together as a tree.

use std::collections::HashMap;

use crate::ids::FrameId;
use crate::key::Function;
use crate::profile::{Profile, Row, Weight};

/// Which end of the stacks is the root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The outermost caller: children are what was called.
    Caller,
    /// The innermost function: children are what called it.
    Callee,
}

/// The frames of a row's call chain, in the order of a tree. Without a recorded chain there are
/// none.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) frames: Vec<FrameId>,
}

impl Chain {
    pub(crate) fn read(&mut self, profile: &Profile, row: &Row, order: Order) {
        self.frames.clear();
        self.frames.extend(profile.frames_of(row.stack));
        if order == Order::Caller {
            self.frames.reverse();
        }
    }
}

/// A place in a [`CallTree`].
#[derive(Clone, Debug)]
pub struct Node {
    /// The frame: one of those with this function.
    pub frame: FrameId,
    /// What chains weigh that go through it.
    pub total: Weight,
    /// What chains weigh that end here.
    pub own: Weight,
    /// The nodes below: places in [`CallTree::nodes`].
    pub children: Vec<usize>,
}

/// Stacks that have been put together. A child stands behind its parent in the list.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    places: HashMap<(usize, Function), usize, foldhash::fast::RandomState>,
}

/// Stands for the node above the roots.
const ABOVE: usize = usize::MAX;

impl CallTree {
    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes that no node is above of.
    #[must_use]
    pub fn roots(&self) -> &[usize] {
        &self.roots
    }

    /// Adds a chain, the root first. Functions of one name at one address are one node.
    pub(crate) fn add(&mut self, profile: &Profile, chain: &[FrameId], weight: Weight) {
        let mut at = ABOVE;
        for frame in chain {
            at = self.child(at, Function::of(profile, Some(*frame)), *frame);
            if let Some(node) = self.nodes.get_mut(at) {
                node.total.add(weight);
            }
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.own.add(weight);
        }
    }

    fn child(&mut self, parent: usize, function: Function, frame: FrameId) -> usize {
        let Self { nodes, roots, places } = self;
        *places.entry((parent, function)).or_insert_with(|| {
            let at = nodes.len();
            nodes.push(Node {
                frame,
                total: Weight::default(),
                own: Weight::default(),
                children: Vec::new(),
            });
            nodes.get_mut(parent).map_or(roots, |node| &mut node.children).push(at);
            at
        })
    }
}
