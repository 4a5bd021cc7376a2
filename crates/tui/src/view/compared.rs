//! Call chains of two recordings as a differential flame graph: red functions have a larger share
//! now, blue ones a smaller share.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use tare_render::flame::ComparedNode;

use crate::paint::{Pen, Theme, below_title, has};

/// Largest change of the share that stays uncoloured: a twentieth of a point.
const EQUAL: f64 = 0.0005;

/// The differential flame graph.
#[derive(Default)]
pub(crate) struct ComparedView {
    nodes: Vec<ComparedNode>,
    cursor: usize,
    /// The function at full width.
    zoomed: usize,
    /// Widths are the old shares instead of the new.
    by_before: bool,
    cells: Vec<(Rect, usize)>,
}

impl ComparedView {
    pub(crate) fn new(nodes: Vec<ComparedNode>) -> Self {
        Self { nodes, ..Self::default() }
    }

    fn share(&self, at: usize) -> f64 {
        let node = &self.nodes[at];
        if self.by_before { node.before } else { node.now }
    }

    /// Returns the visible callees of a function, in the order in which they are drawn.
    fn children(&self, parent: usize) -> Vec<usize> {
        let is_child = |at: &usize| *at > 0 && self.nodes[*at].parent == parent;
        let is_visible = |at: &usize| self.share(*at) > 0.0;
        (0..self.nodes.len()).filter(is_child).filter(is_visible).collect()
    }

    /// Handles a key; returns `false` for keys that this view doesn't have.
    pub(crate) fn handle_key(&mut self, name: &str) -> bool {
        let Some(parent) = self.nodes.get(self.cursor).map(|node| node.parent) else {
            return false;
        };
        match name {
            "UP" => self.cursor = parent,
            "DOWN" => {
                self.cursor = self.children(self.cursor).first().copied().unwrap_or(self.cursor);
            }
            "LEFT" | "RIGHT" => {
                let beside = self.children(parent);
                let at = beside.iter().position(|at| *at == self.cursor);
                let step = if name == "LEFT" { -1 } else { 1 };
                let next = at.and_then(|at| beside.get(at.checked_add_signed(step)?));
                self.cursor = next.copied().unwrap_or(self.cursor);
            }
            "ENTER" => self.zoomed = self.cursor,
            "ESC" if self.zoomed > 0 => self.zoomed = 0,
            "x" => self.by_before = !self.by_before,
            _ => return false,
        }
        true
    }

    /// Moves the cursor to the function in a cell, or zooms if the cursor was there.
    pub(crate) fn click(&mut self, column: u16, row: u16) {
        let hit = self.cells.iter().find(|(rect, _)| rect.contains((column, row).into()));
        if let Some(at) = hit.map(|(_, at)| *at) {
            if self.cursor == at {
                self.zoomed = at;
            }
            self.cursor = at;
        }
    }

    /// Moves the cursor to the next or previous function whose name contains the text.
    pub(crate) fn find(&mut self, wanted: &str, forward: bool) -> bool {
        let count = self.nodes.len();
        let at = |step| match forward {
            true => (self.cursor + step) % count,
            false => (self.cursor + count - step) % count,
        };
        let found = (1..=count).map(at).find(|at| has(&self.nodes[*at].name, wanted));
        self.cursor = found.unwrap_or(self.cursor);
        found.is_some()
    }

    pub(crate) fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme, search: &str) {
        self.cells.clear();
        let Some(node) = self.nodes.get(self.cursor) else {
            Pen::new(buffer, area, 0)
                .text("no call chains: record them with tare record -g", Style::new());
            return;
        };
        let delta = 100.0 * (node.now - node.before);
        let shares = format!("{:.2}% -> {:.2}% ", 100.0 * node.before, 100.0 * node.now);
        Pen::new(buffer, area, 0)
            .text(&shares, Style::new())
            .text(&format!("({delta:+.2}) "), theme.warning())
            .text(&node.name, theme.title())
            .text(&format!("  {}", node.dso), Style::new());
        let area = below_title(area);
        let above = usize::try_from(node.depth).unwrap_or(0) + 1;
        let above = above.saturating_sub(usize::from(area.height).max(1));
        for (at, from, to) in self.layout(area.width) {
            let node = &self.nodes[at];
            let line = usize::try_from(node.depth).unwrap_or(0).checked_sub(above);
            let Some(line) = line.and_then(|line| u16::try_from(line).ok()) else { continue };
            if line >= area.height {
                continue;
            }
            let rect = Rect { x: area.x + from, y: area.y + line, width: to - from, height: 1 };
            let mut style = style(theme, node);
            if has(&node.name, search) {
                style = style.patch(theme.search_match());
            }
            if at == self.cursor {
                style = style.add_modifier(Modifier::BOLD | Modifier::REVERSED);
            }
            buffer.set_style(rect.intersection(buffer.area), style);
            let text = format!("{}{}", sign(node), node.name);
            let room = Rect { width: rect.width.saturating_sub(1).max(1), ..rect };
            Pen::new(buffer, room, 0).text(if rect.width > 2 { &text } else { "▏" }, style);
            if rect.width > 2 {
                let end = Rect { x: rect.right() - 1, width: 1, ..rect };
                Pen::new(buffer, end, 0).text("▕", style);
            }
            self.cells.push((rect, at));
        }
    }

    /// Returns functions at least one cell wide: index, first cell, cell after the last.
    fn layout(&self, width: u16) -> Vec<(usize, u16, u16)> {
        let mut path = vec![self.zoomed];
        while let Some(parent) = path.last().map(|at| self.nodes[*at].parent)
            && !path.contains(&parent)
        {
            path.push(parent);
        }
        let whole = f64::from(width) / self.share(self.zoomed).max(f64::MIN_POSITIVE);
        let mut found: Vec<_> = path.iter().rev().map(|at| (*at, 0, width)).collect();
        // Where the next child of a function starts; `None` outside the zoomed function.
        let mut next: Vec<Option<f64>> = vec![None; self.nodes.len()];
        next[self.zoomed] = Some(0.0);
        for at in self.zoomed + 1..self.nodes.len() {
            let parent = self.nodes[at].parent;
            let Some(from) = next[parent] else { continue };
            let to = from + self.share(at) * whole;
            next[at] = Some(from);
            next[parent] = Some(to);
            let first = cell(from);
            let end = cell(to).min(width);
            if end > first {
                found.push((at, first, end));
            }
        }
        found
    }
}

fn sign(node: &ComparedNode) -> &'static str {
    match node.now - node.before {
        delta if delta > EQUAL => "+",
        delta if delta < -EQUAL => "-",
        _ => " ",
    }
}

/// Returns a function's colours: changes by more than a fifth are darker.
fn style(theme: Theme, node: &ComparedNode) -> Style {
    let most = node.now.max(node.before);
    let is_much = (node.now - node.before).abs() > most / 5.0;
    let ground = match (sign(node), is_much) {
        _ if !theme.color => return Style::new().add_modifier(Modifier::UNDERLINED),
        ("+", true) => Color::Red,
        ("+", false) => Color::LightRed,
        ("-", true) => Color::Blue,
        ("-", false) => Color::LightBlue,
        _ => Color::Gray,
    };
    let ink = if ground == Color::Blue { Color::White } else { Color::Black };
    Style::new().fg(ink).bg(ground)
}

/// Rounds a position to a cell.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn cell(place: f64) -> u16 {
    place.round() as u16
}
