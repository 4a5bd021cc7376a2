//! Merged call chains: all of them, or a function's callers and callees.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tare_profile::{FrameId, FunctionKey, Profile};
use tare_render::percent;

use super::{Subject, node_name, space};
use crate::list::{Item, LineKind, List, Mark, Nodes, key};
use crate::model::Tree;
use crate::paint::{Pen, Theme, below_title, has, skip_cells};

/// Trees below each other, each with a heading.
#[derive(Default)]
pub(crate) struct TreesView {
    pub(crate) list: List,
    pub(crate) verbose: bool,
    /// Cells of names scrolled off to the left.
    pub(crate) shift: usize,
    parts: Vec<TreePart>,
}

/// A tree and its heading.
pub(crate) struct TreePart {
    /// The heading; may be empty.
    pub(crate) title: String,
    pub(crate) tree: Tree,
    /// The function that the heading names.
    pub(crate) function: Option<FrameId>,
    /// Show each function's own weight. In a tree of callers only the root has one.
    pub(crate) has_own: bool,
    /// The roots are outermost functions, so a path through the tree is a call chain.
    pub(crate) starts_at_root: bool,
}

impl TreePart {
    /// Returns the part that shows whole call chains, without a heading.
    pub(crate) fn whole(tree: Tree) -> Self {
        Self { title: String::new(), tree, function: None, has_own: true, starts_at_root: true }
    }
}

impl TreesView {
    /// Shows other trees. Functions that were expanded stay expanded, by name.
    pub(crate) fn replace(&mut self, profile: &Profile, parts: Vec<TreePart>) {
        let is_first = self.parts.is_empty();
        self.parts = parts;
        if is_first {
            for nodes in nodes(&self.parts, profile) {
                nodes.open_roots(&mut self.list, false);
            }
        }
        self.lay_out(profile);
    }

    fn lay_out(&mut self, profile: &Profile) {
        let mut items = Vec::new();
        for (at, (part, nodes)) in self.parts.iter().zip(nodes(&self.parts, profile)).enumerate() {
            if !part.title.is_empty() {
                let kind = LineKind::Heading(at);
                items.push(Item { key: nodes.parent, kind, depth: 0, mark: Mark::Leaf });
            }
            nodes.add(&self.list, &mut items, 0);
        }
        self.list.replace(items);
    }

    /// Expands or collapses the selected line; returns `false` if nothing is below it.
    pub(crate) fn toggle(&mut self, profile: &Profile) -> bool {
        let Some(item) = self.list.current() else { return false };
        match item.mark {
            Mark::Leaf => return false,
            Mark::Closed => self.expand(profile, false),
            Mark::Open => self.close(profile),
        }
        true
    }

    /// Expands one level; with `all`, expands or collapses everything below.
    pub(crate) fn expand(&mut self, profile: &Profile, all: bool) {
        let Some(item) = self.list.current().copied() else { return };
        if all && item.mark == Mark::Open {
            return self.close(profile);
        }
        if let LineKind::Node(tree, _) = item.kind
            && let Some(nodes) = nodes(&self.parts, profile).get(tree)
        {
            nodes.open(&mut self.list, &item, all);
        }
        self.lay_out(profile);
    }

    /// Collapses the selected line or, if it isn't expanded, its parent.
    pub(crate) fn close(&mut self, profile: &Profile) {
        self.list.close();
        self.lay_out(profile);
    }

    /// Expands or collapses everything.
    pub(crate) fn open_all(&mut self, profile: &Profile, open: bool) {
        self.list.open_all(open);
        self.lay_out(profile);
    }

    /// Returns what is under the cursor.
    pub(crate) fn subject(&self, profile: &Profile) -> Subject {
        let found = self.list.current().and_then(|item| match item.kind {
            LineKind::Node(tree, at) => Some((self.parts.get(tree)?, Some(at))),
            LineKind::Heading(tree) => Some((self.parts.get(tree)?, None)),
            LineKind::Row(_) => None,
        });
        let Some((part, at)) = found else { return Subject::default() };
        let Some(at) = at else { return Subject { frame: part.function, ..Subject::default() } };
        let nodes = part.tree.tree.nodes();
        let mut stack = Vec::new();
        let mut next = Some(at).filter(|_| part.starts_at_root);
        while let Some(node) = next.and_then(|at| nodes.get(at)) {
            stack.push(FunctionKey::at_frame(profile, Some(node.frame)));
            next = node.parent;
        }
        stack.reverse();
        Subject { frame: nodes.get(at).map(|node| node.frame), stack, ..Subject::default() }
    }

    /// Returns a line's text, for the search.
    pub(crate) fn text(&self, profile: &Profile, item: &Item) -> String {
        match item.kind {
            LineKind::Node(tree, at) => {
                let node = self.parts.get(tree).and_then(|part| part.tree.tree.nodes().get(at));
                node.map_or_else(String::new, |node| node_name(profile, node.frame, self.verbose))
            }
            _ => String::new(),
        }
    }

    pub(crate) fn draw(
        &mut self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        profile: &Profile,
        search: &str,
    ) {
        Pen::new(buffer, area, 0)
            .right("Total", 8, theme.title())
            .right("Self", 9, theme.title())
            .text("    Function", theme.title());
        let below = below_title(area);
        for (line, (at, item)) in (0..).zip(self.list.window(below.height.into())) {
            let mut pen = Pen::new(buffer, below, line);
            self.draw_line(&mut pen, &item, theme, profile);
            let is_found = has(&self.text(profile, &item), search);
            pen.mark(below, theme, is_found, at == self.list.cursor);
        }
    }

    fn draw_line(&self, pen: &mut Pen<'_>, item: &Item, theme: Theme, profile: &Profile) {
        match item.kind {
            LineKind::Heading(at) => {
                if let Some(part) = self.parts.get(at) {
                    pen.text(&part.title, theme.title());
                }
            }
            LineKind::Node(tree, at) => {
                let Some(part) = self.parts.get(tree) else { return };
                let Some(node) = part.tree.tree.nodes().get(at) else { return };
                let total = percent(node.total, part.tree.all);
                let own = percent(node.own, part.tree.all);
                pen.right(&format!("{total:.2}%"), 8, theme.percent(total));
                let own_text = if part.has_own { format!("{own:.2}%") } else { String::new() };
                pen.right(&own_text, 9, theme.percent(own));
                let indent = (item.depth * 2 + 2).min(pen.room() / 2);
                pen.text(&" ".repeat(indent), Default::default());
                pen.text(item.mark.sign(), Default::default()).text(" ", Default::default());
                let name = node_name(profile, node.frame, self.verbose);
                let style = theme.space(space(profile, Some(node.frame)));
                pen.text(skip_cells(&name, self.shift), style);
            }
            LineKind::Row(_) => {}
        }
    }
}

fn nodes<'a>(parts: &'a [TreePart], profile: &'a Profile) -> Vec<Nodes<'a>> {
    let nodes = |(number, part): (usize, &'a TreePart)| Nodes {
        profile,
        tree: &part.tree.tree,
        number,
        parent: key(2, number),
    };
    parts.iter().enumerate().map(nodes).collect()
}
