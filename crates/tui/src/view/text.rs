//! Text pages: help, header, ledger.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::list::{Item, LineKind, List, Mark, key};
use crate::paint::{Pen, Theme, below_title, has};

/// A scrollable text.
pub(crate) struct TextView {
    title: String,
    pub(crate) list: List,
    lines: Vec<String>,
}

impl TextView {
    pub(crate) fn new(title: &str, lines: Vec<String>) -> Self {
        let item =
            |at| Item { key: key(0, at), kind: LineKind::Row(at), depth: 0, mark: Mark::Leaf };
        let mut list = List::default();
        list.replace((0..lines.len()).map(item).collect());
        Self { title: title.to_owned(), list, lines }
    }

    fn text(&self, item: &Item) -> String {
        let LineKind::Row(at) = item.kind else { return String::new() };
        self.lines.get(at).cloned().unwrap_or_default()
    }

    /// Moves the cursor to the next line that contains the text; returns `false` if no line does.
    pub(crate) fn find(&mut self, wanted: &str, forward: bool) -> bool {
        let mut list = std::mem::take(&mut self.list);
        let found = list.find(forward, |item| has(&self.text(item), wanted));
        self.list = list;
        found
    }

    pub(crate) fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme, search: &str) {
        Pen::new(buffer, area, 0).text(&self.title, theme.title());
        let below = below_title(area);
        for (line, (at, item)) in (0..).zip(self.list.window(below.height.into())) {
            let LineKind::Row(row) = item.kind else { continue };
            let Some(text) = self.lines.get(row) else { continue };
            let style = if has(text, search) { theme.search_match() } else { Default::default() };
            let mut pen = Pen::new(buffer, below, line);
            pen.text(text, style);
            if at == self.list.cursor {
                pen.whole(below, theme.cursor());
            }
        }
    }
}

/// Breaks lines at spaces to fit this width.
pub(crate) fn wrap(lines: Vec<String>, cells: u16) -> Vec<String> {
    let cells = usize::from(cells).max(20);
    let mut out = Vec::new();
    for line in lines {
        let mut now = String::new();
        for word in line.split_inclusive(' ') {
            if !now.is_empty() && now.chars().count() + word.trim_end().chars().count() > cells {
                out.push(std::mem::take(&mut now).trim_end().to_owned());
                now.push_str("    ");
            }
            now.push_str(word);
        }
        out.push(now.trim_end().to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_long_lines_at_spaces() {
        let lines = vec!["one two three four five six".to_owned(), String::new()];
        assert_eq!(wrap(lines, 20), ["one two three four", "    five six", ""]);
    }
}
