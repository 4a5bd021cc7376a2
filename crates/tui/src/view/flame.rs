//! All call chains as a flame graph: callers above their callees, as wide as their share.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use tare_profile::{FunctionKey, NewIds, Node, Profile, Space};
use tare_render::percent;

use super::{Subject, node_name, space};
use crate::keys::Action;
use crate::model::Tree;
use crate::paint::{Pen, Theme, below_title, has};

/// The flame graph.
#[derive(Default)]
pub(crate) struct FlameView {
    tree: Tree,
    /// The functions from the outermost to the selected one.
    path: Vec<FunctionKey>,
    /// The functions from the outermost to the one at full width.
    zoomed: Vec<FunctionKey>,
    /// The outermost functions are at the bottom.
    is_flame: bool,
    /// The drawn nodes, with their areas.
    cells: Vec<(Rect, usize)>,
}

impl FlameView {
    /// Shows another tree. The cursor and the zoom stay on the same call chains, or on their
    /// deepest callers in the new tree.
    pub(crate) fn replace(&mut self, profile: &Profile, tree: Tree) {
        self.tree = tree;
        for path in [&mut self.path, &mut self.zoomed] {
            let found = nodes_along(&self.tree, profile, path).len();
            path.truncate(found);
        }
        if self.path.is_empty() {
            self.path.extend(self.function(profile, self.tree.tree.roots().first().copied()));
        }
    }

    /// Maps ids to the profile's new ones; the caller replaces the tree.
    pub(crate) fn renumber(&mut self, now: &NewIds) {
        for path in [&mut self.path, &mut self.zoomed] {
            *path = path.iter().map_while(|function| now.function(*function)).collect();
        }
        self.tree = Tree::default();
    }

    fn function(&self, profile: &Profile, at: Option<usize>) -> Option<FunctionKey> {
        let node = self.tree.tree.nodes().get(at?)?;
        Some(FunctionKey::at_frame(profile, Some(node.frame)))
    }

    fn node(&self, at: usize) -> Option<&Node> {
        self.tree.tree.nodes().get(at)
    }

    /// Returns the selected node.
    fn current(&self, profile: &Profile) -> Option<usize> {
        nodes_along(&self.tree, profile, &self.path).last().copied()
    }

    /// Returns a node's siblings, including itself.
    fn siblings(&self, at: usize) -> &[usize] {
        match self.node(at).and_then(|node| self.node(node.parent?)) {
            Some(parent) => &parent.children,
            None => self.tree.tree.roots(),
        }
    }

    /// Moves the cursor.
    pub(crate) fn move_cursor(&mut self, profile: &Profile, action: Action) {
        let Some(at) = self.current(profile) else { return };
        let outwards = if self.is_flame { Action::Down } else { Action::Up };
        let beside = |step: isize| {
            let siblings = self.siblings(at);
            let place = siblings.iter().position(|one| *one == at)?;
            siblings.get(place.checked_add_signed(step)?).copied()
        };
        match action {
            Action::Left | Action::Right => {
                let step = if action == Action::Left { -1 } else { 1 };
                if let Some(function) = self.function(profile, beside(step)) {
                    self.path.pop();
                    self.path.push(function);
                }
            }
            Action::Up | Action::Down if action == outwards => {
                if self.path.len() > 1 {
                    self.path.pop();
                }
            }
            _ => {
                let child = self.node(at).and_then(|node| node.children.first().copied());
                let function = self.function(profile, child);
                self.path.extend(function);
            }
        }
    }

    /// Zooms to the selected function.
    pub(crate) fn zoom(&mut self) {
        self.zoomed.clone_from(&self.path);
    }

    /// Undoes a zoom; returns `false` if the whole graph is shown.
    pub(crate) fn unzoom(&mut self) -> bool {
        let was_zoomed = !self.zoomed.is_empty();
        self.zoomed.clear();
        was_zoomed
    }

    /// Moves the outermost functions to the other end of the screen.
    pub(crate) fn invert(&mut self) {
        self.is_flame = !self.is_flame;
    }

    /// Moves the cursor to the node in a cell; returns `true` if it was there.
    pub(crate) fn click(&mut self, profile: &Profile, column: u16, row: u16) -> bool {
        let hit = self.cells.iter().find(|(rect, _)| rect.contains((column, row).into()));
        let Some(at) = hit.map(|(_, at)| *at) else { return false };
        let was_selected = self.current(profile) == Some(at);
        self.path = self.path_of(profile, at);
        was_selected
    }

    /// Moves the cursor to the next node, heaviest first, whose name contains the text.
    pub(crate) fn find(&mut self, profile: &Profile, wanted: &str, forward: bool) -> bool {
        let nodes = self.tree.tree.nodes();
        let mut found: Vec<_> =
            (0..nodes.len()).filter(|at| self.is_match(profile, *at, wanted)).collect();
        found.sort_by_key(|at| std::cmp::Reverse(nodes[*at].total.period));
        let current = self.current(profile);
        let now = found.iter().position(|at| Some(*at) == current);
        let next = match (now, forward) {
            (Some(now), true) => (now + 1) % found.len(),
            (Some(now), false) => (now + found.len() - 1) % found.len(),
            (None, _) => 0,
        };
        if let Some(at) = found.get(next) {
            self.path = self.path_of(profile, *at);
        }
        !found.is_empty()
    }

    fn is_match(&self, profile: &Profile, at: usize, wanted: &str) -> bool {
        let name = |node: &Node| node_name(profile, node.frame, false);
        self.node(at).is_some_and(|node| has(&name(node), wanted))
    }

    fn path_of(&self, profile: &Profile, at: usize) -> Vec<FunctionKey> {
        let mut path = Vec::new();
        let mut next = Some(at);
        while let Some(node) = next.and_then(|at| self.node(at)) {
            path.push(FunctionKey::at_frame(profile, Some(node.frame)));
            next = node.parent;
        }
        path.reverse();
        path
    }

    /// Returns what is under the cursor.
    pub(crate) fn subject(&self, profile: &Profile) -> Subject {
        let frame = self.current(profile).and_then(|at| Some(self.node(at)?.frame));
        Subject { frame, stack: self.path.clone(), ..Subject::default() }
    }

    pub(crate) fn draw(
        &mut self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        profile: &Profile,
        search: &str,
    ) {
        self.cells.clear();
        let current = self.current(profile);
        self.draw_title(buffer, area, theme, profile, search);
        let area = below_title(area);
        // The selected node is always visible.
        let above = self.path.len().saturating_sub(usize::from(area.height).max(1));
        for (at, depth, from, to) in self.layout(profile, area.width) {
            let Some(line) = depth.checked_sub(above).and_then(|line| u16::try_from(line).ok())
            else {
                continue;
            };
            if line >= area.height {
                continue;
            }
            let line = if self.is_flame { area.height - 1 - line } else { line };
            let rect = Rect { x: area.x + from, y: area.y + line, width: to - from, height: 1 };
            let Some(node) = self.node(at) else { continue };
            let mut style = self.style(theme, space(profile, Some(node.frame)), at, depth);
            if self.is_match(profile, at, search) {
                style = style.patch(theme.search_match());
            }
            if Some(at) == current {
                style = style.add_modifier(Modifier::BOLD | Modifier::REVERSED);
            }
            buffer.set_style(rect.intersection(buffer.area), style);
            let name = node_name(profile, node.frame, false);
            let mut pen =
                Pen::new(buffer, Rect { width: rect.width.saturating_sub(1).max(1), ..rect }, 0);
            pen.text(if rect.width > 2 { &name } else { "▏" }, style);
            if rect.width > 2 {
                Pen::new(buffer, Rect { x: rect.right() - 1, width: 1, ..rect }, 0)
                    .text("▕", style);
            }
            self.cells.push((rect, at));
        }
    }

    /// Draws the selected node's name and the share of the search matches.
    fn draw_title(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        profile: &Profile,
        search: &str,
    ) {
        let mut pen = Pen::new(buffer, area, 0);
        if let Some(node) = self.current(profile).and_then(|at| self.node(at)) {
            let total = percent(node.total, self.tree.all);
            let own = percent(node.own, self.tree.all);
            pen.text(&format!("{total:.2}% (self {own:.2}%) "), theme.percent(total));
            pen.text(&node_name(profile, node.frame, true), theme.title());
        }
        if !search.is_empty() {
            let share = self.match_share(profile, search);
            pen.text(&format!("   '{search}': {share:.2}%"), theme.search_match());
        }
    }

    /// Returns the share of call chains that contain a match.
    fn match_share(&self, profile: &Profile, wanted: &str) -> f64 {
        let mut sum = tare_profile::Weight::default();
        let mut pending: Vec<_> = self.tree.tree.roots().to_vec();
        while let Some(at) = pending.pop() {
            let Some(node) = self.node(at) else { continue };
            if self.is_match(profile, at, wanted) {
                sum.add(node.total);
            } else {
                pending.extend(&node.children);
            }
        }
        percent(sum, self.tree.all)
    }

    /// Returns nodes at least one cell wide: node, depth, first cell, cell after the last.
    fn layout(&self, profile: &Profile, width: u16) -> Vec<(usize, usize, u16, u16)> {
        let zoomed = nodes_along(&self.tree, profile, &self.zoomed);
        let mut found: Vec<_> =
            zoomed.iter().enumerate().map(|(depth, at)| (*at, depth, 0, width)).collect();
        let whole = f64::from(width);
        let mut pending = match zoomed.last().and_then(|at| self.node(*at)) {
            Some(node) => {
                vec![(node.children.clone(), zoomed.len(), 0.0, whole, node.total.period)]
            }
            None => {
                let roots = self.tree.tree.roots().to_vec();
                let all =
                    roots.iter().filter_map(|at| self.node(*at)).map(|node| node.total.period);
                let all = all.sum();
                vec![(roots, 0, 0.0, whole, all)]
            }
        };
        while let Some((children, depth, from, cells, all)) = pending.pop() {
            let mut from = from;
            for at in children {
                let Some(node) = self.node(at) else { continue };
                let wide = cells * node.total.period as f64 / (all.max(1)) as f64;
                let first = cell(from);
                let end = cell(from + wide).min(width);
                if end > first {
                    found.push((at, depth, first, end));
                    pending.push((node.children.clone(), depth + 1, from, wide, node.total.period));
                }
                from += wide;
            }
        }
        found
    }

    /// Returns a node's style: kernel functions are yellow and others red, in two shades.
    fn style(&self, theme: Theme, space: Space, at: usize, depth: usize) -> Style {
        let is_odd = (at + depth) % 2 == 1;
        if !theme.color {
            return if is_odd {
                Style::new().add_modifier(Modifier::UNDERLINED)
            } else {
                Style::new()
            };
        }
        let ground = match (space, is_odd) {
            (Space::Kernel | Space::GuestKernel | Space::Hypervisor, false) => Color::Yellow,
            (Space::Kernel | Space::GuestKernel | Space::Hypervisor, true) => Color::LightYellow,
            (_, false) => Color::LightRed,
            (_, true) => Color::Red,
        };
        Style::new().fg(Color::Black).bg(ground)
    }
}

/// Returns the nodes along a path, as far as they exist.
fn nodes_along(tree: &Tree, profile: &Profile, path: &[FunctionKey]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut among = tree.tree.roots();
    for function in path {
        let has_function = |at: &&usize| {
            let node = tree.tree.nodes().get(**at);
            node.is_some_and(|node| FunctionKey::at_frame(profile, Some(node.frame)) == *function)
        };
        let Some(at) = among.iter().find(has_function) else { break };
        found.push(*at);
        among = tree.tree.nodes().get(*at).map_or(&[], |node| &node.children);
    }
    found
}

/// Rounds a position to a cell.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn cell(place: f64) -> u16 {
    place.round() as u16
}
