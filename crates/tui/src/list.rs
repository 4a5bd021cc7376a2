//! A scrollable list whose lines can expand.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use tare_profile::{CallTree, FunctionKey, Profile};

/// What a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A heading, by number.
    Heading(usize),
    /// A table row, by index.
    Row(usize),
    /// A tree node: the tree's number, and the index in it.
    Node(usize, usize),
}

/// Whether a line has lines below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It has none.
    Leaf,
    /// They are hidden.
    Closed,
    /// They are displayed.
    Open,
}

impl Mark {
    pub(super) fn for_row(has_children: bool, is_open: bool) -> Self {
        match (has_children, is_open) {
            (false, _) => Self::Leaf,
            (true, false) => Self::Closed,
            (true, true) => Self::Open,
        }
    }

    /// Returns perf's sign for it.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Leaf => " ",
            Self::Closed => "+",
            Self::Open => "-",
        }
    }
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Identifies the content, however the list changes.
    pub(super) key: u64,
    pub(super) kind: LineKind,
    pub(super) depth: usize,
    pub(super) mark: Mark,
}

/// The lines, the cursor, and which lines are expanded.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    pub(super) items: Vec<Item>,
    pub(super) cursor: usize,
    top: usize,
    /// Keys of lines whose state is the opposite of `all_open`.
    flipped: HashSet<u64>,
    /// Lines are expanded unless they are in `flipped`.
    all_open: bool,
}

/// Returns the key of a line below the line with key `parent`.
pub(super) fn key(parent: u64, content: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, content).hash(&mut hasher);
    hasher.finish()
}

impl List {
    /// Replaces the lines. The cursor stays on its line if that still exists.
    pub(super) fn replace(&mut self, items: Vec<Item>) {
        let on = self.items.get(self.cursor).map(|item| item.key);
        let above = self.cursor.saturating_sub(self.top);
        self.items = items;
        // A cursor on the first line stays there: rows change places while a recording loads.
        if let Some(on) = on.filter(|_| self.cursor > 0)
            && let Some(at) = self.items.iter().position(|item| item.key == on)
        {
            self.cursor = at;
            self.top = at.saturating_sub(above);
        }
        self.cursor = self.cursor.min(self.items.len().saturating_sub(1));
    }

    /// Returns the line under the cursor.
    pub(super) fn current(&self) -> Option<&Item> {
        self.items.get(self.cursor)
    }

    /// Moves the cursor by a number of lines.
    pub(super) fn move_cursor(&mut self, lines: isize) {
        let last = self.items.len().saturating_sub(1);
        self.cursor = self.cursor.saturating_add_signed(lines).min(last);
    }

    /// Returns the lines in a window of this height, scrolled so that the cursor is visible.
    pub(super) fn window(&mut self, height: usize) -> Vec<(usize, Item)> {
        let height = height.max(1);
        self.top = self.top.min(self.cursor).max((self.cursor + 1).saturating_sub(height));
        self.top = self.top.min(self.items.len().saturating_sub(height));
        self.items.iter().copied().enumerate().skip(self.top).take(height).collect()
    }

    /// Returns the line in a row of the window.
    pub(super) fn at(&self, row: usize) -> Option<usize> {
        Some(self.top + row).filter(|at| *at < self.items.len())
    }

    pub(super) fn is_open(&self, key: u64) -> bool {
        self.all_open != self.flipped.contains(&key)
    }

    pub(super) fn open(&mut self, key: u64, open: bool) {
        if open == self.all_open {
            self.flipped.remove(&key);
        } else {
            self.flipped.insert(key);
        }
    }

    /// Collapses the line under the cursor or, if it isn't expanded, its parent, which gets the
    /// cursor. The caller lays out the items again.
    pub(super) fn close(&mut self) {
        let Some(item) = self.current().copied() else { return };
        if item.mark != Mark::Open {
            while self.cursor > 0 && self.items[self.cursor].depth >= item.depth {
                self.cursor -= 1;
            }
        }
        if let Some(item) = self.current().filter(|item| item.mark == Mark::Open).copied() {
            self.open(item.key, false);
        }
    }

    /// Expands or collapses everything.
    pub(super) fn open_all(&mut self, open: bool) {
        self.all_open = open;
        self.flipped.clear();
    }

    /// Moves the cursor to the next or previous line that matches, wrapping around; returns `false`
    /// if no line does.
    pub(super) fn find(&mut self, forward: bool, is_match: impl Fn(&Item) -> bool) -> bool {
        let count = self.items.len();
        let at = |step: usize| match forward {
            true => (self.cursor + step) % count,
            false => (self.cursor + count - step) % count,
        };
        let found = (1..=count).map(at).find(|at| self.items.get(*at).is_some_and(&is_match));
        if let Some(at) = found {
            self.cursor = at;
        }
        found.is_some()
    }
}

/// A call tree whose nodes become lines.
pub(super) struct Nodes<'a> {
    pub(super) profile: &'a Profile,
    pub(super) tree: &'a CallTree,
    /// The tree's number in its view.
    pub(super) number: usize,
    /// The key of the line above the tree.
    pub(super) parent: u64,
}

impl Nodes<'_> {
    /// Adds the displayed nodes. A callee through which all of a node's chains go has the node's
    /// indentation.
    pub(super) fn add(&self, list: &List, items: &mut Vec<Item>, depth: usize) {
        let mut pending: Vec<_> =
            self.tree.roots().iter().rev().map(|at| (*at, self.parent, depth)).collect();
        while let Some((at, parent, depth)) = pending.pop() {
            let Some(node) = self.tree.nodes().get(at) else { continue };
            let key = self.key(parent, at);
            let mark = Mark::for_row(!node.children.is_empty(), list.is_open(key));
            items.push(Item { key, kind: LineKind::Node(self.number, at), depth, mark });
            if mark == Mark::Open {
                let below = depth + usize::from(self.trunk(at).is_none());
                pending.extend(node.children.iter().rev().map(|child| (*child, key, below)));
            }
        }
    }

    /// Returns a node's key.
    fn key(&self, parent: u64, at: usize) -> u64 {
        let frame = self.tree.nodes().get(at).map(|node| node.frame);
        key(parent, FunctionKey::at_frame(self.profile, frame))
    }

    /// Returns the only child of a node through which all its chains go.
    fn trunk(&self, at: usize) -> Option<usize> {
        let node = self.tree.nodes().get(at)?;
        let [child] = node.children[..] else { return None };
        (self.tree.nodes().get(child)?.total == node.total).then_some(child)
    }

    /// Expands a node, and the nodes below it until chains branch; with `all`, everything below.
    pub(super) fn open(&self, list: &mut List, item: &Item, all: bool) {
        let LineKind::Node(_, at) = item.kind else { return };
        list.open(item.key, true);
        let mut pending = self.below(at, item.key, all);
        while let Some((at, key)) = pending.pop() {
            list.open(key, true);
            pending.extend(self.below(at, key, all));
        }
    }

    /// Expands a single root like [`Self::open`]; with `all`, everything below all roots.
    pub(super) fn open_roots(&self, list: &mut List, all: bool) {
        let roots = self.tree.roots();
        let mut pending: Vec<_> = if all || roots.len() == 1 {
            roots.iter().map(|at| (*at, self.key(self.parent, *at))).collect()
        } else {
            Vec::new()
        };
        while let Some((at, key)) = pending.pop() {
            list.open(key, true);
            pending.extend(self.below(at, key, all));
        }
    }

    fn below(&self, at: usize, key: u64, all: bool) -> Vec<(usize, u64)> {
        let children = match self.tree.nodes().get(at) {
            Some(node) if all => node.children.clone(),
            _ => self.trunk(at).into_iter().collect(),
        };
        children.into_iter().map(|child| (child, self.key(key, child))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Item> {
        let item =
            |at| Item { key: key(0, at), kind: LineKind::Row(at), depth: 0, mark: Mark::Leaf };
        (0..count).map(item).collect()
    }

    #[test]
    fn keeps_the_cursor_in_the_window_and_on_its_line() {
        let mut list = List::default();
        list.move_cursor(5);
        assert_eq!((list.cursor, list.window(3).len()), (0, 0));
        list.replace(rows(10));
        list.move_cursor(7);
        let shown: Vec<_> = list.window(3).into_iter().map(|(at, _)| at).collect();
        assert_eq!((shown, list.at(2)), (vec![5, 6, 7], Some(7)));
        let mut other = rows(10);
        other.rotate_right(2);
        list.replace(other);
        assert_eq!(list.cursor, 9);
        list.move_cursor(-100);
        assert_eq!((list.cursor, list.window(3).first().map(|(at, _)| *at)), (0, Some(0)));
    }

    #[test]
    fn search_wraps_around() {
        let mut list = List::default();
        assert!(!list.find(true, |_| true));
        list.replace(rows(5));
        let is = |wanted| move |item: &Item| item.kind == LineKind::Row(wanted);
        assert!(list.find(true, is(3)) && list.find(true, is(1)));
        assert_eq!(list.cursor, 1);
        assert!(list.find(false, is(4)) && !list.find(true, is(9)));
        assert_eq!(list.cursor, 4);
    }

    #[test]
    fn expands_and_collapses_single_lines_and_all() {
        let mut list = List::default();
        list.open(7, true);
        assert!(list.is_open(7) && !list.is_open(8));
        list.open_all(true);
        list.open(8, false);
        assert!(list.is_open(7) && !list.is_open(8));
        list.open_all(false);
        assert!(!list.is_open(7));
    }
}
